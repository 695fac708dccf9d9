"""The folders of runs beside a table, as maintenance sees them."""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from memorypipe.table.file_stats import written_at
from memorypipe.table.run_status import is_under_way

__all__ = ["FoundRun", "list_runs", "running_runs"]

_SCRATCH = ".planning-"


@dataclass(frozen=True, kw_only=True)
class FoundRun:
    """One folder.

    Attributes:
        path: The folder.
        record: Its `run.json`; None where there is none that can be read.
        written_at: When anything in it was last written (UTC).
    """

    path: Path
    record: dict[str, Any] | None
    written_at: datetime

    @property
    def is_scratch(self) -> bool:
        """Whether it has not become a run's: its windows are being cut, or its process died."""
        return self.path.name.startswith(_SCRATCH)

    @property
    def is_committed(self) -> bool:
        """Whether its record says that what it decided is in the table."""
        return self.record is not None and bool(self.record.get("committed"))


def list_runs(folder: Path) -> Iterator[FoundRun]:
    """List the run folders of a table, by name.

    Args:
        folder: Of the table.
    """
    for path in sorted((folder / "runs").glob("*")):
        if path.is_dir() and (moment := written_at(path)) is not None:
            yield FoundRun(path=path, record=_record(path), written_at=moment)


def running_runs(folder: Path, now: datetime) -> list[str]:
    """Name the runs that somebody is at work on.

    Args:
        folder: Of the table.
        now: The time.
    """
    return [
        run.path.name
        for run in list_runs(folder)
        if run.record is not None and is_under_way(run.record, now)
    ]


def _record(path: Path) -> dict[str, Any] | None:
    try:
        record: dict[str, Any] = json.loads((path / "run.json").read_text(encoding="utf-8"))
    except (FileNotFoundError, json.JSONDecodeError):
        return None
    return record
