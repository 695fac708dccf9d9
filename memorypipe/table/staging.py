"""Files that wait for a commit: what the tasks of a bulk load wrote, in the table's folder."""

import shutil
from datetime import datetime
from pathlib import Path
from uuid import uuid4

from memorypipe.errors import InvalidArgumentError
from memorypipe.table.erasing.files import local_folder
from memorypipe.table.file_stats import written_at

__all__ = ["new_staging", "remove_stale"]

_FOLDER = "staged"


def new_staging(uri: str) -> Path:
    """Name a folder for one load; nobody else uses it. It is not made yet.

    Args:
        uri: Of a table in a folder.

    Raises:
        InvalidArgumentError: For a table in an object store.
    """
    folder = local_folder(uri)
    if folder is None:
        raise InvalidArgumentError(
            f"The table must lie in a folder that all workers can reach, got {uri!r}; commit the "
            "actions with MemoryTable.commit."
        )
    return folder / _FOLDER / uuid4().hex


def remove_stale(folder: Path, *, before: datetime) -> int:
    """Remove what loads left whose driver died.

    Args:
        folder: Of the table.
        before: What was written since may belong to a load under way (UTC).

    Returns:
        How many loads had left something.
    """
    stale = [
        each
        for each in (folder / _FOLDER).glob("*")
        if (moment := written_at(each)) is not None and moment <= before
    ]
    for each in stale:
        shutil.rmtree(each, ignore_errors=True)
    return len(stale)
