"""No two runs at once over the same messages of one table: the second start says who is at it.

Runs over other messages may go on side by side. A run whose process has died, or that has been
silent for a minute, stands in nobody's way.
"""

import fcntl
import json
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from datetime import datetime
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from memorypipe.errors import PlanError
from memorypipe.ids import ledger_key
from memorypipe.logs.known import KeyArray, contains, pack_keys
from memorypipe.logs.windows import new_message_ids
from memorypipe.table.run_status import is_under_way

__all__ = ["check_alone", "one_at_a_time"]

_TURN = ".starting"
_WINDOW_COLUMNS = ("scope_key", "conversation_id", "messages")
_BATCH_WINDOWS = 1_024


@contextmanager
def one_at_a_time(runs: Path) -> Iterator[None]:
    """Let one start at a time look for others and make itself seen; the next one waits.

    A file system without locks leaves a gap: two that start in the same moment do not see each
    other there. What both pay for they then pay twice; nothing is written twice.

    Args:
        runs: The folder of the table's runs, which is there.
    """
    handle = os.open(runs / _TURN, os.O_RDWR | os.O_CREAT, 0o666)
    try:
        with suppress(OSError):
            fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)  # which gives the lock back


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
    for record_path in sorted(runs.glob("[!.]*/run.json")):
        folder = record_path.parent
        record = _read(record_path)
        if folder.name == run_id or record is None or not is_under_way(record, now):
            continue
        if ours is None:
            ours = pack_keys([key for row in _rows(windows) for key in _keys(row)])
        theirs = sorted(str(path) for path in (folder / "windows").glob("part-*.parquet"))
        with suppress(FileNotFoundError):  # it has just ended, and was cleared away
            _check_apart(ours, theirs, folder.name, record)


def _check_apart(
    ours: KeyArray, theirs: Sequence[str], run_id: str, record: Mapping[str, Any]
) -> None:
    for row in _rows(theirs):
        if not contains(ours, _keys(row)).any():
            continue
        where = f"{record.get('stage')}, {record.get('windows_done', 0):,} windows done"
        raise PlanError(
            f"Run {run_id!r} is at work on messages of this log already (of conversation "
            f"{row['conversation_id']!r}, for one): process {record.get('pid')!r} on "
            f"{record.get('host')!r}, since {record.get('started_at')}, last heard of at "
            f"{record['heartbeat_at']} ({where}). Wait for its end and start again: what it has "
            f"dealt with is not paid again. Where it was killed, start again a minute later."
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
