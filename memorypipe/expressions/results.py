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


def value_column(results: Sequence[CellResult]) -> pa.Array:
    """Lay cells out as an Arrow array of strings."""
    return pa.array([result.value for result in results], pa.string())


def status_column(results: Sequence[CellResult]) -> pa.Array:
    """Lay cells with their status out as an Arrow array of `STATUS`."""
    return pa.array([_status_row(result) for result in results], STATUS)


def _status_row(result: CellResult) -> dict[str, Any]:
    outcome = result.outcome
    told = outcome is not None and result.status not in {"ok", "empty"}
    return {
        "value": result.value,
        "status": result.status,
        "error": result.error,
        "attempts": outcome.attempts if outcome else 0,
        "prompt_tokens": outcome.prompt_tokens if outcome else 0,
        "completion_tokens": outcome.completion_tokens if outcome else 0,
        "latency_ms": outcome.latency_ms if outcome else 0.0,
        "cached": outcome.cached if outcome else False,
        "repaired": outcome.repaired if outcome else 0,
        "dropped_items": outcome.dropped_items if outcome else 0,
        "model": result.model,
        "prompt_hash": result.prompt_hash,
        "raw_reply": outcome.raw_reply if outcome and told else None,
    }
