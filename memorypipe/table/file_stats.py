"""What lies in a folder that others write to: what goes while one looks is passed over."""

import os
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from stat import S_ISREG

__all__ = ["size_bytes", "stats_below", "written_at"]


def stats_below(path: Path) -> Iterator[os.stat_result]:
    """Look at a file, or at a folder and all that is in it."""
    found = _stat(path)
    if found is not None:
        yield found
    for folder, folders, files in os.walk(path):
        for name in (*folders, *files):
            if (found := _stat(Path(folder, name))) is not None:
                yield found


def _stat(path: Path) -> os.stat_result | None:
    try:
        return path.stat()
    except FileNotFoundError:
        return None


def written_at(path: Path) -> datetime | None:
    """Give when a file, or anything in a folder, was last written (UTC); None where it is gone."""
    latest = max((each.st_mtime for each in stats_below(path)), default=None)
    return None if latest is None else datetime.fromtimestamp(latest, UTC)


def size_bytes(path: Path) -> int:
    """Add up the sizes of the files in a folder."""
    return sum(each.st_size for each in stats_below(path) if S_ISREG(each.st_mode))
