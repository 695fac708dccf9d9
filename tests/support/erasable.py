"""A table with everything that lies beside one, in which each scope has a marker of its own."""

import asyncio
import json
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import orjson
import pyarrow as pa

from memorypipe import ids
from memorypipe.llm.batch.records import BatchFolder, BatchRecord, BatchState
from memorypipe.llm.journal.open import open_journal
from memorypipe.llm.types import Reply
from memorypipe.pipeline.runs.folder import OPEN_WINDOWS, SCOPES, RunFolder
from memorypipe.schema import FACTS, WINDOWS
from memorypipe.table.table import MemoryTable
from tests.support.table_actions import actions, add, ledger, minted, update

_SAID_AT = datetime(2024, 4, 1, tzinfo=UTC)


def scope_of(number: int) -> dict[str, str]:
    return {"user_id": f"person-{number:05d}", "agent_id": "assistant"}


def marker_of(number: int) -> str:
    return f"Zanzibar secret {number:05d} «é»"


def key_of(number: int) -> str:
    return ids.scope_key(scope_of(number))


def message_of(number: int) -> str:
    return f"message-{number:05d}"


def fill_table(table: MemoryTable, numbers: Sequence[int]) -> None:
    """Give each scope a memory with two revisions, one that was deleted, and ledger rows."""
    fresh = [
        row
        for number in numbers
        for row in (
            add(f"First {marker_of(number)}", scope=scope_of(number), **_evidence(number)),
            add("Likes tea very much", scope=scope_of(number)),
        )
    ]
    rows = pa.concat_tables(
        ledger(message_of(number), scope=scope_of(number)) for number in numbers
    )
    table.commit(actions(*fresh), run_id="r1", ledger=rows)
    changed = [
        update(
            minted(f"First {marker_of(number)}", scope_of(number)),
            f"Second {marker_of(number)}",
            scope=scope_of(number),
            context=f"Context {marker_of(number)}",
        )
        for number in numbers
    ]
    table.commit(actions(*changed), run_id="r2", info={"seen": [key_of(numbers[0])]})


def _evidence(number: int) -> dict[str, Any]:
    return {
        "source_ids": [message_of(number)],
        "conversation_id": f"conversation-{number:05d}",
        "rationale": f"Because of {marker_of(number)}",
    }


def fill_run(table: MemoryTable, run_id: str, numbers: Sequence[int], **record: Any) -> RunFolder:
    """Write the folder of a run that took up a window of each scope."""
    folder = RunFolder.of(table.uri, run_id)
    folder.path.mkdir(parents=True)
    windows = [_window(number) for number in numbers]
    folder.write_part("windows", 0, pa.Table.from_pylist(windows, schema=WINDOWS))
    folder.write_part("facts", 0, pa.Table.from_pylist(list(map(_facts, numbers)), schema=FACTS))
    planned = [
        add(f"Planned {marker_of(number)}", scope=scope_of(number), **_evidence(number))
        for number in numbers
    ]
    folder.write_table("actions", actions(*planned))
    scopes = [{"scope_key": key_of(number), "decision_calls": 1} for number in numbers]
    folder.write_table("scopes", pa.Table.from_pylist(scopes, schema=SCOPES))
    folder.write_table("open", OPEN_WINDOWS.empty_table())
    folder.write_json("manifest", {"run_id": run_id, "base_version": 0})
    held_back = {key_of(number): "conflict: 1 memory" for number in numbers}
    folder.write_json("run", {"run_id": run_id, "status": "held", "held_back": held_back, **record})
    rejects = [
        {
            "source": "log",
            "line": number,
            "reason": "no JSON",
            "excerpt": scope_of(number)["user_id"],
        }
        for number in numbers
    ]
    folder.write_lines("rejects", rejects)
    return folder


def _window(number: int) -> dict[str, Any]:
    message = {
        "role": "user",
        "name": None,
        "content": f"I say {marker_of(number)}",
        "timestamp": _SAID_AT,
        "id": message_of(number),
        "background": None,
    }
    return {**_named(number), "messages": [message], "context": None, "event_time": _SAID_AT}


def _facts(number: int) -> dict[str, Any]:
    return {
        **dict.fromkeys(FACTS.names),
        **_named(number),
        "message_ids": [message_of(number)],
        "message_times": [_SAID_AT],
        "facts_json": json.dumps([{"text": marker_of(number)}]),
        "raw_reply": f"The reply {marker_of(number)}",
        "status": "ok",
        "attempts": 1,
        "prompt_tokens": 1,
        "completion_tokens": 1,
        "latency_ms": 1.0,
        "cached": False,
        "repaired": 0,
        "dropped_items": 0,
    }


def _named(number: int) -> dict[str, Any]:
    return {
        "scope": list(scope_of(number).items()),
        "scope_key": key_of(number),
        "conversation_id": f"conversation-{number:05d}",
        "window_id": f"window-{number:05d}",
        "window_index": 0,
    }


def fill_journal(uri: str, numbers: Sequence[int]) -> None:
    """Journal a reply about each scope."""

    async def put() -> None:
        journal = open_journal(uri)
        for number in numbers:
            reply = Reply(content=orjson.dumps({"facts": [marker_of(number)]}).decode())
            await journal.put(f"{number:032x}", reply, usable=True, scope_key=key_of(number))
        journal.close()

    asyncio.run(put())


def fill_batches(table: MemoryTable, numbers: Sequence[int], state: BatchState) -> BatchRecord:
    """Record a batch with a request about each scope."""
    folder = BatchFolder(Path(table.uri) / "batches")
    keys = "".join(f"{number:032x} {key_of(number)}\n" for number in numbers)
    lines = [
        {"custom_id": f"{number:032x}", "body": {"messages": [marker_of(number)]}}
        for number in numbers
    ]
    name = f"batch-{state}"
    folder.write_whole(f"{name}.keys", keys.encode())
    folder.write_whole(f"{name}.jsonl", b"".join(orjson.dumps(line) + b"\n" for line in lines))
    return folder.save(
        BatchRecord(
            name=name,
            run_id="r1",
            endpoint="http://host/v1",
            model="m",
            requests=len(numbers),
            size_bytes=1,
            state=state,
            file_id="file-1",
            batch_id="batch_1",
        )
    )


def fill_all(table: MemoryTable, numbers: Sequence[int]) -> None:
    """Fill the table and everything beside it."""
    fill_table(table, numbers)
    fill_run(table, "r1", numbers, committed=True)
    fill_journal(f"{table.uri}/journal", numbers)
    fill_batches(table, numbers, "written")
    fill_batches(table, numbers, "created")
