"""What comes of each scope, as it travels from the workers and as a plan stores it."""

from collections import Counter
from collections.abc import Iterable, Mapping
from contextlib import ExitStack
from itertools import pairwise
from typing import Any

import orjson
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from memorypipe.errors import MemoryPipeError
from memorypipe.llm.stage import Outcome
from memorypipe.pipeline.runs.folder import OPEN_WINDOWS, SCOPES, RunFolder
from memorypipe.pipeline.scopes.consolidate import ScopeResult
from memorypipe.pipeline.scopes.decided import Decided
from memorypipe.schema import PLAN_ACTIONS, RECORD_TYPE_MEMORY, SCOPE

__all__ = [
    "SCOPE_RESULTS",
    "actions_of",
    "call_record",
    "open_windows_of",
    "result_row",
    "write_results",
]

_OPEN = pa.struct([f for f in OPEN_WINDOWS if f.name != "scope_key"])
_ACTION = pa.struct([f for f in PLAN_ACTIONS if f.name not in {"scope", "scope_key"}])

#: One row per scope: its actions, its open windows, and one JSON object per decision call.
SCOPE_RESULTS = pa.schema(
    [
        ("scope", SCOPE),
        ("scope_key", pa.string()),
        ("windows", pa.int64()),
        ("actions", pa.list_(_ACTION)),
        ("open_windows", pa.list_(_OPEN)),
        ("calls", pa.list_(pa.string())),
        ("fallback", pa.int64()),
        ("flags", pa.list_(pa.string())),  # of the actions that have one
    ]
)


def result_row(
    conversations: Mapping[str, str],
    scope: Mapping[str, Any],
    result: ScopeResult,
    *,
    model: str,
    prompt_hash: str,
) -> dict[str, Any]:
    """Lay what came of a scope out as a row of `SCOPE_RESULTS`.

    Args:
        conversations: Window id → conversation id, of all windows of the scope.
        scope: Any row of the scope.
        result: What came of it.
        model: What decided it.
        prompt_hash: Of the decisions.
    """
    return {
        "scope": scope["scope"],
        "scope_key": scope["scope_key"],
        "windows": len(conversations),
        "actions": [
            _action_row(seq, decided, model, prompt_hash)
            for seq, decided in enumerate(result.actions)
        ],
        "open_windows": [
            {"conversation_id": conversations[window_id], "window_id": window_id, "reason": why}
            for window_id, why in result.open_windows.items()
        ],
        "calls": [orjson.dumps(call_record(outcome)).decode() for outcome in result.outcomes],
        "fallback": result.fallback,
        "flags": [decided.flag for decided in result.actions if decided.flag],
    }


def _action_row(seq: int, decided: Decided, model: str, prompt_hash: str) -> dict[str, Any]:
    fact = decided.fact
    return {
        "seq": seq,
        "record_type": RECORD_TYPE_MEMORY,
        "event": decided.event,
        "memory_id": decided.memory_id,
        "text": decided.text,
        "old_memory": decided.old_memory,
        "context": fact.context,
        "topics": list(fact.topics) or None,
        "event_time": fact.event_time,
        "conversation_id": fact.conversation_id,
        "window_id": fact.window_id,
        "source_ids": list(fact.source_ids) or None,
        "rationale": decided.rationale,
        "model": model,
        "prompt_hash": prompt_hash,
        "rests_on": decided.rests_on and decided.rests_on.id,
    }


def call_record(outcome: Outcome[Any]) -> dict[str, Any]:
    """Give what the accounts need of a decision call, as JSON values."""
    return {
        "status": outcome.status,
        "attempts": outcome.attempts,
        "cached": outcome.cached,
        "prompt_tokens": outcome.prompt_tokens,
        "completion_tokens": outcome.completion_tokens,
        "latency_ms": outcome.latency_ms,
        "failures": dict(outcome.failures),
    }


def actions_of(results: pa.Table) -> pa.Table:
    """Lay scope results out as `memorypipe.schema.PLAN_ACTIONS`, in their order."""
    return _laid_out(results, "actions", PLAN_ACTIONS)


def open_windows_of(results: pa.Table) -> pa.Table:
    """Lay scope results out as `memorypipe.pipeline.runs.folder.OPEN_WINDOWS`, in their order."""
    return _laid_out(results, "open_windows", OPEN_WINDOWS)


def _laid_out(results: pa.Table, name: str, schema: pa.Schema) -> pa.Table:
    """Give the items of a list column, each with the columns of its own row that it lacks."""
    results = results.combine_chunks()
    lists = results[name].combine_chunks()
    items, rows = pc.list_flatten(lists), pc.list_parent_indices(lists)
    own = {field.name for field in items.type}
    columns = [
        pc.struct_field(items, each) if each in own else results[each].take(rows)
        for each in schema.names
    ]
    return pa.table(columns, names=schema.names).cast(schema)


def write_results(folder: RunFolder, results: Iterable[pa.Table]) -> Counter[str]:
    """Write actions, open windows and scopes of a run, a part at a time.

    Args:
        folder: Of the run.
        results: Tables of schema `SCOPE_RESULTS`, sorted by scope.

    Returns:
        How many actions there are of each event, and as ``"open"`` how many open windows.

    Raises:
        MemoryPipeError: If there are two results of a scope: its windows were not decided in
            order, and nothing of them may be used.
    """
    schemas = {"actions": PLAN_ACTIONS, "open": OPEN_WINDOWS, "scopes": SCOPES}
    counts: Counter[str] = Counter()
    last: str | None = None
    with ExitStack() as stack:
        files = {
            name: stack.enter_context(pq.ParquetWriter(folder.path / f"{name}.parquet", schema))
            for name, schema in schemas.items()
        }
        for part in results:
            keys = [last, *part["scope_key"].to_pylist()]
            _check_once(keys)
            last = keys[-1]
            actions, opened = actions_of(part), open_windows_of(part)
            counts.update(actions["event"].to_pylist())
            counts["open"] += opened.num_rows
            chains = pc.list_value_length(part["calls"]).cast(pa.int64())
            scopes = pa.table([part["scope_key"], chains], schema=SCOPES)
            for name, rows in (("actions", actions), ("open", opened), ("scopes", scopes)):
                if rows.num_rows:
                    files[name].write_table(rows)
    return counts


def _check_once(scope_keys: list[str | None]) -> None:
    for one, two in pairwise(scope_keys):
        if one == two:
            raise MemoryPipeError(f"The facts of scope {two!r} were split up.")
