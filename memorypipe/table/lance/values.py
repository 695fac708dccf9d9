"""The values of a Lance data or index file as they lie there, whatever any version says of them."""

from collections.abc import Iterator

import pyarrow as pa
from lance.file import LanceFileReader

__all__ = ["lance_batches"]

_BATCH_ROWS = 8192


def lance_batches(path: str, *, leave_out: tuple[str, ...] = ("vector",)) -> Iterator[pa.Table]:
    """Read a file of the Lance format, deleted rows included.

    Args:
        path: The file.
        leave_out: Columns that are not read.

    Raises:
        OSError: Where it cannot be read.
        ValueError: Where it is no such file.
    """
    names = [
        each.name for each in LanceFileReader(path).metadata().schema if each.name not in leave_out
    ]
    for batch in LanceFileReader(path, columns=names).read_all(batch_size=_BATCH_ROWS).to_batches():
        yield pa.Table.from_batches([batch])
