"""The receipt of an erasure: what was asked, what went, what was searched, what is out of reach."""

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any

from memorypipe.errors import InvalidArgumentError
from memorypipe.table.erasing.files import local_folder
from memorypipe.table.erasing.requests import EraseRequest
from memorypipe.table.erasing.sweep import Sweep

__all__ = ["Receipt", "Removed", "check_receipt_path", "write_receipt"]

# What no program that runs on the table can reach.
_NEVER_REACHED = (
    "backups and copies of the table's folder, and snapshots of the file system",
    "exports, and mirrors that the table was not opened with",
    "old versions that an object store keeps",
    "the logs that the memories came from",
    "rejects (lines of logs that nobody could read) which do not say whose they are",
    "what model providers keep of requests and replies",
    "blocks of the disk that deleted files have left",
)


@dataclass(frozen=True, kw_only=True)
class Removed:
    """What went, or would go.

    Attributes:
        memories: Memories, with all their revisions.
        live_memories: Of these, those that readers were served.
        revisions: Revisions.
        run_rows: Records of commits that named what went, and do so no more.
        ledger_rows: Messages in ledgers.
        replies: Replies in journals.
        run_files: Files of runs: windows, facts, actions, reports, rejects.
        run_file_rows: Rows, lines and values in them.
        batch_lines: Requests in the files of batches.
        events: Events of streams.
    """

    memories: int = 0
    live_memories: int = 0
    revisions: int = 0
    run_rows: int = 0
    ledger_rows: int = 0
    replies: int = 0
    run_files: int = 0
    run_file_rows: int = 0
    batch_lines: int = 0
    events: int = 0

    def __add__(self, other: "Removed") -> "Removed":
        mine, theirs = asdict(self), asdict(other)
        return Removed(**{name: mine[name] + theirs[name] for name in mine})


@dataclass(frozen=True, kw_only=True)
class Receipt:
    """What an erasure did.

    Attributes:
        table: The table.
        requests: What was asked.
        started_at: UTC.
        finished_at: UTC.
        version_before: Version of the table that the rows were in.
        version: Version from which on they are in no more.
        run_id: Of the commit; None where the table held nothing of it.
        removed: What went.
        blocked: Scopes that take nothing in until they are unblocked.
        checked: What was searched afterwards, and found.
        not_reached: What has to be looked at by somebody else.
    """

    table: str
    requests: Sequence[EraseRequest]
    started_at: datetime
    finished_at: datetime
    version_before: int
    version: int
    run_id: str | None
    removed: Removed
    blocked: int
    checked: Sweep
    not_reached: Sequence[str] = field(default=())

    @property
    def is_complete(self) -> bool:
        """Whether the search found nothing again."""
        return not self.checked.left

    @property
    def advice(self) -> str:
        """What to do about what was found again."""
        paths = sorted(each.path for each in self.checked.left)
        return (
            f"It is erased from the table, but was found again in {len(paths)} "
            f"{'file' if len(paths) == 1 else 'files'}, {paths[0]!r} first. Erase it again; a "
            "file of your own that was put beside the table, move away first. Never remove a "
            "file that the table or a run has written."
        )

    def to_dict(self) -> dict[str, Any]:
        """Give the receipt as JSON values."""
        return {
            "receipt": "memorypipe erase",
            "complete": self.is_complete,
            "table": self.table,
            "started_at": self.started_at.isoformat(),
            "finished_at": self.finished_at.isoformat(),
            "version_before": self.version_before,
            "version": self.version,
            "run_id": self.run_id,
            "requests": [each.to_dict() for each in self.requests],
            "removed": asdict(self.removed),
            "blocked_scopes": self.blocked,
            "checked": asdict(self.checked),
            "not_reached": [*self.not_reached, *_NEVER_REACHED],
        }


def check_receipt_path(path: Path, table_uri: str) -> None:
    """Check that a receipt can be written before anything is erased.

    Raises:
        InvalidArgumentError: If it would lie in the table's folder, whose files must not name
            what was erased; or where no file can be made, or one is.
    """
    folder = local_folder(table_uri)
    if folder is not None and path.resolve().is_relative_to(folder.resolve()):
        raise InvalidArgumentError(
            f"The receipt must not lie in the table's folder, got {str(path)!r}: it says what was "
            "erased. Choose another place."
        )
    if path.exists():
        raise InvalidArgumentError(
            f"There is a file at {str(path)!r} already; a receipt never replaces one."
        )
    if not path.parent.is_dir() or not os.access(path.parent, os.W_OK):
        raise InvalidArgumentError(
            f"No receipt can be written to {str(path)!r}: its folder is missing or may not be "
            "written to. Make it first."
        )


def write_receipt(path: Path, receipt: Mapping[str, Any]) -> None:
    """Write a receipt durably; a file that is there is never replaced."""
    text = json.dumps(receipt, indent=2, ensure_ascii=False) + "\n"
    with path.open("x", encoding="utf-8") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
