"""The key of a table's ids: chosen when the table is made, known by its fingerprint."""

from dataclasses import dataclass, replace

from memorypipe.errors import InvalidArgumentError
from memorypipe.id_key import DEFAULT_ID_KEY, NO_ID_KEY, IdKeySource, fingerprint, read_id_key
from memorypipe.table.records import Head

__all__ = ["TableKey", "table_key", "with_id_key"]


@dataclass(frozen=True, kw_only=True)
class TableKey:
    """Where the key of one table comes from; the key itself is read when it is needed.

    Attributes:
        uri: Of the table, for errors.
        fingerprint: As the table's settings have it; None: the table has no key.
        source: Where the key comes from; None: where `DEFAULT_ID_KEY` says.
    """

    uri: str
    fingerprint: str | None
    source: IdKeySource | None = None

    def read(self) -> bytes:
        """Read the key; `NO_ID_KEY` where the table has none.

        Raises:
            InvalidArgumentError: If there is no key, or it is another one.
        """
        if self.fingerprint is None:
            return NO_ID_KEY
        try:
            key = read_id_key(self.source or DEFAULT_ID_KEY)
        except InvalidArgumentError as error:
            if self.source is not None:
                raise
            raise InvalidArgumentError(
                f"The ids of the table at {self.uri!r} have a key, which was not given: {error} "
                "Set that variable, or say where it is with id_key=…, on the command line "
                "--id-key."
            ) from None
        if fingerprint(key) != self.fingerprint:
            raise InvalidArgumentError(
                f"The ids of the table at {self.uri!r} have another key than the one that "
                f"{DEFAULT_ID_KEY if self.source is None else 'id_key'} gives. Nothing was changed."
            )
        return key


def table_key(source: IdKeySource | None, head: Head, uri: str) -> TableKey:
    """Check that a key that was given is that of a table.

    Args:
        source: Where it comes from; None: it is not needed yet.
        head: Of the table.
        uri: Of the table.

    Raises:
        InvalidArgumentError: If the table has another one, or none.
    """
    found = TableKey(uri=uri, fingerprint=head.settings.id_key, source=source)
    if source is None:
        return found
    if found.fingerprint is None:
        raise InvalidArgumentError(
            f"The table at {uri!r} was made without id_key, and gets one when it is made only. "
            "Leave id_key out, or export the table and import it into a new one."
        )
    found.read()
    return found


def with_id_key(head: Head, source: IdKeySource | None) -> Head:
    """Give the head of a new table the key of its ids.

    Raises:
        InvalidArgumentError: As `memorypipe.id_key.read_id_key`.
    """
    if source is None:
        return head
    settings = replace(head.settings, id_key=fingerprint(read_id_key(source)))
    return replace(head, settings=settings)
