"""The ledger: which messages committed runs have dealt with, as Parquet beside the dataset.

A file is written before the commit that names it in its run row: what a run row does not name
does not count.
"""

import re
from collections.abc import Collection, Iterable, Iterator, Sequence
from datetime import UTC, datetime
from uuid import uuid4

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from memorypipe import ids
from memorypipe.schema import LEDGER
from memorypipe.table.parquet.places import Place, open_place
from memorypipe.table.parquet.storage import objects_place

__all__ = [
    "LEDGER_FILE",
    "LEDGER_KEY",
    "ledger_batches",
    "read_ledger",
    "read_ledger_keys",
    "remove_ledgers",
    "unnamed_ledgers",
    "write_ledger",
    "write_ledger_file",
]

LEDGER_KEY = pa.binary(16)

# A ledger file: the rows, each with its key, so that loading hashes nothing.
LEDGER_FILE = LEDGER.append(pa.field("key", LEDGER_KEY, nullable=False))

_FOLDER = "ledger"
_UNSAFE = re.compile(r"[^A-Za-z0-9_.-]")
_NAME_CHARS = 80
_BATCH_ROWS = 262_144


def write_ledger(uri: str, ledger: pa.Table, *, run_id: str) -> str:
    """Write a ledger file that nothing names yet.

    Args:
        uri: Of the table.
        ledger: Schema `LEDGER`.
        run_id: Starts the file's name, for people who look into the folder.

    Returns:
        The name for the run row.
    """
    columns = [ledger[name].to_pylist() for name in ("scope_key", "conversation_id", "message_id")]
    keys = pa.array([ids.ledger_key(*row) for row in zip(*columns, strict=True)], LEDGER_KEY)
    table = pa.table([*ledger.columns, keys], schema=LEDGER_FILE)
    return write_ledger_file(uri, table, run_id=run_id)


def read_ledger(uri: str, name: str) -> pa.Table:
    """Read a ledger file: schema `LEDGER_FILE`."""
    names = LEDGER_FILE.names
    return _read(_place(uri), name, names).select(names).cast(LEDGER_FILE)


def write_ledger_file(uri: str, rows: pa.Table, *, run_id: str) -> str:
    """Write rows of `LEDGER_FILE`, whatever their keys say, under a new name."""
    # Two processes may commit one run at once: neither may write into the other's file.
    name = f"{_UNSAFE.sub('_', run_id)[:_NAME_CHARS]}-{uuid4().hex}.parquet"
    sink = pa.BufferOutputStream()
    pq.write_table(rows, sink)
    _place(uri).write(f"{_FOLDER}/{name}", sink.getvalue())
    return name


def remove_ledgers(uri: str, names: Iterable[str]) -> None:
    """Remove ledger files that no run names any more; those that are gone already stay so."""
    place = _place(uri)
    for name in names:
        place.remove(f"{_FOLDER}/{name}")


def unnamed_ledgers(uri: str, named: Collection[str | None]) -> dict[str, datetime]:
    """List the ledger files that no run names: of failed commits, or of such under way.

    Args:
        uri: Of the table.
        named: By the run rows.

    Returns:
        Name to when it was written (UTC).
    """
    listing = _place(uri).listing(_FOLDER)
    found = {path.removeprefix(f"{_FOLDER}/"): time for path, time in listing.items()}
    return {
        name: datetime.fromtimestamp(time, UTC) for name, time in found.items() if name not in named
    }


def read_ledger_keys(uri: str, names: Iterable[str]) -> pa.Array:
    """Read the keys of ledger files.

    Args:
        uri: Of the table.
        names: As the run rows hold them.

    Returns:
        `fixed_size_binary(16)`, sorted, each key once.
    """
    place = _place(uri)
    chunks = [chunk for name in names for chunk in _read(place, name, ["key"])["key"].chunks]
    keys = pc.unique(pa.chunked_array(chunks, LEDGER_KEY))
    return keys.take(pc.sort_indices(keys))


def ledger_batches(uri: str, names: Iterable[str], columns: Sequence[str]) -> Iterator[pa.Table]:
    """Read columns of ledger files, a bounded number of rows at a time.

    Args:
        uri: Of the table.
        names: As the run rows hold them.
        columns: Of `LEDGER_FILE`.
    """
    for name in names:
        place = _place(uri)
        with pq.ParquetFile(place.source(f"{_FOLDER}/{name}")) as opened:
            for batch in opened.iter_batches(batch_size=_BATCH_ROWS, columns=list(columns)):
                yield pa.Table.from_batches([batch])


def _read(place: Place, name: str, columns: list[str]) -> pa.Table:
    with pq.ParquetFile(place.source(f"{_FOLDER}/{name}")) as opened:
        return opened.read(columns=columns)


def _place(uri: str) -> Place:
    return open_place(uri, objects_place)
