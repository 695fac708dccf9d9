"""What is written aside before it takes a name, and stays there where its process is killed."""

import shutil
from datetime import timedelta
from pathlib import Path

from memorypipe.table.file_stats import written_at

__all__ = ["STALE_AFTER", "remove_left"]

STALE_AFTER = timedelta(days=1)
"""Nobody is at work on what was not written to for so long."""


def remove_left(fresh: Path, pattern: str) -> None:
    """Remove what killed processes left beside something that this one has just begun to write.

    Ages are told by the clock that both lie under, that of the file system.

    Args:
        fresh: A file or folder.
        pattern: What the names beside it are like, as for `Path.glob`.
    """
    now = written_at(fresh)
    for each in fresh.parent.glob(pattern):
        moment = written_at(each)
        if now is None or moment is None or now - moment <= STALE_AFTER:
            continue
        if each.is_dir():
            shutil.rmtree(each, ignore_errors=True)
        else:
            each.unlink(missing_ok=True)
