"""No two runs at once over the same messages of one table: the second start says who is at it.

Nor over the memories of the same scopes. A run is at it until its plan is made, and again while
its plan is applied. Runs over other messages may go on side by side. A run whose process has died,
or that has been silent for a minute, stands in nobody's way.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, suppress
from datetime import datetime
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from memorypipe.errors import PlanError
from memorypipe.ids import ledger_key
from memorypipe.logs.known import KeyArray, contains, pack_keys
from memorypipe.logs.windows import new_message_ids
from memorypipe.pipeline.runs.file_lock import locked
from memorypipe.pipeline.runs.folder import RunFolder
from memorypipe.table.auditing.origins import CONSOLIDATION_KIND
from memorypipe.table.run_status import is_under_way

__all__ = ["check_alone", "check_alone_in", "one_at_a_time"]

_TURN = ".starting"
_WINDOW_COLUMNS = ("scope_key", "conversation_id", "messages")
_BATCH_WINDOWS = 1_024


def one_at_a_time(runs: Path) -> AbstractContextManager[None]:
    """Let one start at a time look for others and make itself seen; the next one waits.

    A file system without locks leaves a gap: two that start in the same moment do not see each
    other there. What both pay for they then pay twice; nothing is written twice.

    Args:
        runs: The folder of the table's runs, which is there.
    """
    return locked(runs / _TURN)


def check_alone(windows: Sequence[str], runs: Path, *, run_id: str, now: datetime) -> None:
    """Check that no run under way pays for the same messages.

    Args:
        windows: Parquet files of schema `memorypipe.schema.WINDOWS`: what is about to start.
        runs: The folder of the table's runs.
        run_id: What is about to start; one of this name is not looked at.
        now: The time.

    Raises:
        PlanError: If one does; it says who and since when, and how to go on.
    """
    ours: KeyArray | None = None
    for folder, record in _others(runs, run_id, now):
        if ours is None:
            ours = pack_keys([key for row in _rows(windows) for key in _keys(row)])
        with suppress(FileNotFoundError):  # it has just ended, and was cleared away
            _check_apart(ours, folder, record)


def check_alone_in(scope_key: str | None, runs: Path, *, run_id: str, now: datetime) -> None:
    """Check that no run under way decides again over the same memories.

    Args:
        scope_key: The scope of what is about to start; None: all.
        runs: As for `check_alone`, and so are the others.
        run_id: Likewise.
        now: Likewise.

    Raises:
        PlanError: If one does.
    """
    for folder, record in _others(runs, run_id, now):
        theirs = record.get("scope_key")
        if record.get("kind") == CONSOLIDATION_KIND and (
            scope_key is None or theirs in {None, scope_key}
        ):
            where = "all memories" if theirs is None else f"the memories of scope {theirs!r}"
            raise PlanError(
                f"Run {folder.path.name!r} is at work on {where} of this table already: "
                f"{_who(folder, record)}"
            )


def _others(
    runs: Path, run_id: str, now: datetime
) -> Iterator[tuple[RunFolder, Mapping[str, Any]]]:
    """Find the other runs that are under way, with their records."""
    for record_path in sorted(runs.glob("[!.]*/run.json")):
        folder = RunFolder(record_path.parent)
        if folder.path.name == run_id:
            continue
        record = _read(record_path)
        if record is not None and (folder.is_applied_now() or is_under_way(record, now)):
            yield folder, record


def _check_apart(ours: KeyArray, folder: RunFolder, record: Mapping[str, Any]) -> None:
    for row in _rows(folder.parts("windows")):
        if contains(ours, _keys(row)).any():
            raise PlanError(
                f"Run {folder.path.name!r} is at work on messages of this log already (of "
                f"conversation {row['conversation_id']!r}, for one): {_who(folder, record)}"
            )


def _who(folder: RunFolder, record: Mapping[str, Any]) -> str:
    """Say who is at work, how far, and how to go on."""
    if folder.is_applied_now():
        return "its plan is being applied. Wait for that, and start again."
    where = f"{record.get('stage')}, {record.get('windows_done', 0):,} windows done"
    return (
        f"process {record.get('pid')!r} on {record.get('host')!r}, since "
        f"{record.get('started_at')}, last heard of at {record['heartbeat_at']} ({where}). Wait "
        f"for its end and start again: what it has dealt with is not paid again. Where it was "
        f"killed, start again a minute later."
    )


def _rows(paths: Sequence[str]) -> Iterator[dict[str, Any]]:
    for path in paths:
        with pq.ParquetFile(path) as file:
            for batch in file.iter_batches(_BATCH_WINDOWS, columns=list(_WINDOW_COLUMNS)):
                yield from batch.to_pylist()


def _keys(row: Mapping[str, Any]) -> list[bytes]:
    place = (row["scope_key"], row["conversation_id"])
    return [ledger_key(*place, message_id) for message_id in new_message_ids(row)]


def _read(path: Path) -> dict[str, Any] | None:
    try:
        record: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return None
    return record
