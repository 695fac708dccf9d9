"""Plans written as files, without a model, a log or Ray."""

from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

import orjson
import pyarrow as pa

from memorypipe import Plan, ids
from memorypipe.pipeline.runs.folder import OPEN_WINDOWS, RunFolder
from memorypipe.pipeline.runs.record import write_record
from memorypipe.pipeline.runs.summary import RunSummary
from memorypipe.schema import FACTS, PLAN_ACTIONS
from tests.support.table_actions import START, USER

__all__ = ["facts_of", "plan_actions", "window", "write_plan"]


def plan_actions(*rows: Any) -> pa.Table:
    """Make the actions of a plan; `seq` is the place among those of the scope."""
    seqs = Counter[str]()
    numbered = []
    for row in rows:
        key = row["scope_key"]
        numbered.append({"rests_on": None, **row, "seq": seqs[key]})
        seqs[key] += 1
    table = pa.Table.from_pylist(numbered, schema=PLAN_ACTIONS)
    return table.sort_by([("scope_key", "ascending"), ("seq", "ascending")])


def window(
    window_id: str,
    *texts: str,
    messages: Sequence[str] = (),
    scope: Mapping[str, str] = USER,
    conversation_id: str = "c1",
    event_time: datetime = START,
    **more: Any,
) -> Any:
    """Make a row of `FACTS`; every fact rests on all messages of the window."""
    message_ids = list(messages) or [f"{window_id}-m"]
    memories = [{"text": text, "sources": message_ids} for text in texts]
    return {
        "scope": list(scope.items()),
        "scope_key": ids.scope_key(scope),
        "conversation_id": conversation_id,
        "window_id": window_id,
        "window_index": 0,
        "event_time": event_time,
        "message_ids": message_ids,
        "message_times": [event_time] * len(message_ids),
        "facts_json": orjson.dumps({"memories": memories}).decode(),
        "status": "ok" if texts else "empty",
        "attempts": 1,
        "prompt_tokens": 100,
        "completion_tokens": 10,
        "latency_ms": 1.0,
        "cached": False,
        "repaired": 0,
        "dropped_items": 0,
        **more,
    }


def facts_of(*rows: Any) -> pa.Table:
    """Make a table of windows after extraction."""
    return pa.Table.from_pylist(list(rows), schema=FACTS)


def write_plan(  # noqa: PLR0913  # one keyword per file of a plan
    uri: str,
    run_id: str,
    actions: pa.Table,
    *,
    facts: pa.Table | None = None,
    opened: Sequence[Mapping[str, str]] = (),
    base_version: int = 0,
    manifest: Mapping[str, Any] | None = None,
    **summary: Any,
) -> Plan:
    """Write a plan beside a table, as a planning does at its end."""
    with RunFolder.scratch(uri) as scratch:
        folder = scratch.become(run_id, now=START)
    folder.write_table("actions", actions)
    folder.write_table("open", pa.Table.from_pylist(list(opened), schema=OPEN_WINDOWS))
    if facts is not None:
        folder.write_part("facts", 0, facts)
    told = {"run_id": run_id, "base_version": base_version, "embedder": "none"}
    folder.write_json("manifest", {**told, **(manifest or {})})
    events = Counter(actions["event"].to_pylist())
    counted = RunSummary(
        run_id=run_id,
        status="planned",
        added=events["ADD"],
        updated=events["UPDATE"],
        deleted=events["DELETE"],
        none=events["NONE"],
        windows=0 if facts is None else facts.num_rows,
        **summary,
    )
    started = {"started_at": START.isoformat(), "heartbeat_at": START.isoformat()}
    write_record(folder, {**counted.to_dict(), **started})
    return Plan(uri, run_id)
