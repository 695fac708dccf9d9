"""The key of a table's ids on its way through a plan: where it comes from, never the key."""

from memorypipe.errors import InvalidArgumentError
from memorypipe.id_key import DEFAULT_ID_KEY, NO_ID_KEY, IdKeySource, fingerprint, read_id_key
from memorypipe.table.table import MemoryTable

__all__ = ["id_key_to_apply", "id_key_to_plan", "key_of"]


def id_key_to_plan(source: IdKeySource | None, table: MemoryTable | None) -> IdKeySource | None:
    """Say where the key of a plan's ids comes from; None where they have none.

    Args:
        source: As for `MemoryTable.open`.
        table: The table, opened with it; None: there is none yet.

    Raises:
        InvalidArgumentError: If a key is needed and cannot be read, or is not the table's.
    """
    if table is None:
        key_of(source)
        return source
    return (source or DEFAULT_ID_KEY) if table.read_id_key() else None


def key_of(source: IdKeySource | None) -> bytes:
    """Read a key; `NO_ID_KEY` where there is none.

    Raises:
        InvalidArgumentError: As `memorypipe.id_key.read_id_key`.
    """
    return NO_ID_KEY if source is None else read_id_key(source)


def id_key_to_apply(source: IdKeySource | None, planned: str | None) -> IdKeySource | None:
    """Say where the key of the table comes from that a plan is applied to.

    Args:
        source: As for `MemoryTable.open`.
        planned: Fingerprint of the key that the plan's ids were made with, as its manifest has it.

    Raises:
        InvalidArgumentError: If that is another one, or not to be had.
    """
    if planned is None and source is None:
        return None
    chosen = source or DEFAULT_ID_KEY
    if fingerprint(read_id_key(chosen)) != planned:
        made = "without a key of its ids" if planned is None else "with another key of its ids"
        raise InvalidArgumentError(
            f"The plan was made {made} than id_key (--id-key) gives. Apply it with the same, or "
            "plan again."
        )
    return chosen
