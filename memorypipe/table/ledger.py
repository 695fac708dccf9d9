"""The ledger: which messages committed runs have dealt with, as Parquet beside the dataset.

A file is written before the commit that names it in its run row: what a run row does not name
does not count.
"""

import contextlib
import re
from collections.abc import Collection, Iterable
from datetime import datetime
from uuid import uuid4

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.fs as pafs
import pyarrow.parquet as pq

from memorypipe import ids
from memorypipe.schema import LEDGER

__all__ = [
    "LEDGER_FILE",
    "LEDGER_KEY",
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
    filesystem, folder = _folder(uri)
    return pq.read_table(f"{folder}/{name}", filesystem=filesystem, schema=LEDGER_FILE)


def write_ledger_file(uri: str, rows: pa.Table, *, run_id: str) -> str:
    """Write rows of `LEDGER_FILE`, whatever their keys say, under a new name."""
    filesystem, folder = _folder(uri)
    filesystem.create_dir(folder, recursive=True)
    # Two processes may commit one run at once: neither may write into the other's file.
    name = f"{_UNSAFE.sub('_', run_id)[:_NAME_CHARS]}-{uuid4().hex}.parquet"
    pq.write_table(rows, f"{folder}/{name}", filesystem=filesystem)
    return name


def remove_ledgers(uri: str, names: Iterable[str]) -> None:
    """Remove ledger files that no run names any more; those that are gone already stay so."""
    filesystem, folder = _folder(uri)
    for name in names:
        with contextlib.suppress(FileNotFoundError):
            filesystem.delete_file(f"{folder}/{name}")


def unnamed_ledgers(uri: str, named: Collection[str | None]) -> dict[str, datetime]:
    """List the ledger files that no run names: of failed commits, or of such under way.

    Args:
        uri: Of the table.
        named: By the run rows.

    Returns:
        Name to when it was written (UTC).
    """
    filesystem, folder = _folder(uri)
    found = filesystem.get_file_info(pafs.FileSelector(folder, allow_not_found=True))
    return {
        each.base_name: each.mtime for each in found if each.is_file and each.base_name not in named
    }


def read_ledger_keys(uri: str, names: Iterable[str]) -> pa.Array:
    """Read the keys of ledger files.

    Args:
        uri: Of the table.
        names: As the run rows hold them.

    Returns:
        `fixed_size_binary(16)`, sorted, each key once.
    """
    filesystem, folder = _folder(uri)
    chunks = [
        chunk
        for name in names
        for chunk in pq.read_table(f"{folder}/{name}", columns=["key"], filesystem=filesystem)[
            "key"
        ].chunks
    ]
    keys = pc.unique(pa.chunked_array(chunks, LEDGER_KEY))
    return keys.take(pc.sort_indices(keys))


def _folder(uri: str) -> tuple[pafs.FileSystem, str]:
    if "://" in uri:
        filesystem, path = pafs.FileSystem.from_uri(uri)
    else:
        filesystem, path = pafs.LocalFileSystem(), uri
    return filesystem, f"{path}/{_FOLDER}"
