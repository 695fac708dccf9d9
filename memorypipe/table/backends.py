"""Choosing the back end of a table: the one that it has, or the one that is asked for."""

from typing import Literal, get_args

from memorypipe.errors import InvalidArgumentError, TableError
from memorypipe.table.lance.storage import LanceStorage
from memorypipe.table.parquet.storage import ParquetStorage
from memorypipe.table.storage import Storage

__all__ = ["BACKENDS", "Backend", "check_backend", "find_backend", "open_storage"]

Backend = Literal["lance", "parquet"]
BACKENDS: tuple[str, ...] = get_args(Backend)

_DEFAULT: Backend = "lance"


def check_backend(name: str | None) -> Backend | None:
    """Check the name of a back end; None stands for no choice.

    Raises:
        InvalidArgumentError: For an unknown one.
    """
    if name is None:
        return None
    for known in get_args(Backend):
        if name == known:
            return known  # type: ignore[no-any-return]  # `get_args` knows no types
    raise InvalidArgumentError(f"Unknown backend {name!r}; choices: {BACKENDS!r}.")


def find_backend(uri: str) -> Backend | None:
    """Find out which back end made the table at a place; None where there is no table.

    Raises:
        TableError: If the place cannot be read.
    """
    if LanceStorage(uri).exists():
        return "lance"
    return "parquet" if _has_parquet(uri) else None


def open_storage(uri: str, backend: str | None = None) -> Storage:
    """Open a place for the table that is there, or is to be made there.

    Args:
        uri: Of the table.
        backend: None takes what is there, else Lance.

    Raises:
        InvalidArgumentError: For an unknown back end, or another than the table's.
    """
    wanted = check_backend(backend)
    found = find_backend(uri)
    if None not in (wanted, found) and wanted != found:
        raise InvalidArgumentError(
            f"The table at {uri!r} has the back end {found!r}, not {wanted!r}; leave backend out "
            "to take the table's, or give another place."
        )
    chosen = wanted or found or _DEFAULT
    return ParquetStorage(uri) if chosen == "parquet" else LanceStorage(uri)


def _has_parquet(uri: str) -> bool:
    try:
        return ParquetStorage(uri).exists()
    except TableError:
        # Without the client of object stores, or at an address that only Lance knows, there is
        # no Parquet table that could be opened.
        if "://" not in uri:
            raise
        return False
