"""What comes of a row: its cell, and how the cell came about."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from memorypipe.llm.stage import Outcome

__all__ = ["STATUS", "CellResult", "status_column", "value_column"]

#: Arrow type of a cell with its status.
STATUS = pa.struct(
    [
        ("value", pa.string()),
        ("status", pa.string()),
        ("error", pa.string()),
        ("attempts", pa.int32()),
        ("prompt_tokens", pa.int64()),
        ("completion_tokens", pa.int64()),
        ("latency_ms", pa.float64()),
        ("cached", pa.bool_()),
        ("repaired", pa.int32()),
        ("dropped_items", pa.int32()),
        ("model", pa.string()),
        ("prompt_hash", pa.string()),
        ("raw_reply", pa.string()),
    ]
)


@dataclass(frozen=True, kw_only=True)
class CellResult:
    """One row's cell, and how it came about.

    Attributes:
        value: The cell; None is a null cell.
        status: ``invalid_input``, ``llm_error``, ``refused``, ``parse_error``, ``truncated``,
            ``fallback``, ``skipped``, ``empty`` or ``ok``.
        error: The cause, where the status is none of the last three.
        outcome: What the model work cost; None where there was none.
        model: The model that answered, or was asked.
        prompt_hash: Hash of the instructions, the format rule and the schema.
    """

    value: str | None
    status: str
    error: str | None = None
    outcome: Outcome[Any] | None = None
    model: str | None = None
    prompt_hash: str | None = None


_NO_WORK: Outcome[Any] = Outcome(value=None, status="")


def value_column(results: Sequence[CellResult]) -> pa.Array:
    """Lay cells out as an Arrow array of strings."""
    return pa.array([result.value for result in results], pa.string())


def status_column(results: Sequence[CellResult]) -> pa.Array:
    """Lay cells with their status out as an Arrow array of `STATUS`."""
    outcomes = [result.outcome or _NO_WORK for result in results]
    columns = {
        "value": [result.value for result in results],
        "status": [result.status for result in results],
        "error": [result.error for result in results],
        "attempts": [outcome.attempts for outcome in outcomes],
        "prompt_tokens": [outcome.prompt_tokens for outcome in outcomes],
        "completion_tokens": [outcome.completion_tokens for outcome in outcomes],
        "latency_ms": [outcome.latency_ms for outcome in outcomes],
        "cached": [outcome.cached for outcome in outcomes],
        "repaired": [outcome.repaired for outcome in outcomes],
        "dropped_items": [outcome.dropped_items for outcome in outcomes],
        "model": [result.model for result in results],
        "prompt_hash": [result.prompt_hash for result in results],
        "raw_reply": [
            None if result.status in {"ok", "empty"} else outcome.raw_reply
            for result, outcome in zip(results, outcomes, strict=True)
        ],
    }
    arrays = [pa.array(columns[field.name], field.type) for field in STATUS]
    return pa.StructArray.from_arrays(arrays, fields=list(STATUS))
