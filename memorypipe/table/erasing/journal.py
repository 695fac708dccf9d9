"""The reply journals of a table: what of them belongs to scopes that are erased."""

from collections.abc import Collection, Iterator, Sequence
from pathlib import Path

from memorypipe.llm.journal.catalog import SEGMENT_SUFFIX
from memorypipe.llm.journal.lines import scope_of
from memorypipe.llm.journal.open import absolute_journal, drop_scopes
from memorypipe.table.erasing.files import local_folder

__all__ = ["count_replies", "drop_replies", "journals_of", "segments_of"]


def journals_of(uri: str, named: Sequence[str]) -> list[str]:
    """List the journals of a table: the one beside it, where there is one, and those named.

    Args:
        uri: Of the table.
        named: Addresses as for `memorypipe.llm.journal.open.open_journal`.
    """
    found = [absolute_journal(each) for each in named]
    folder = local_folder(uri)
    if folder is not None and (folder / "journal").is_dir():
        found.insert(0, absolute_journal(str(folder / "journal")))
    return list(dict.fromkeys(found))


def segments_of(journal: str) -> list[Path]:
    """List the segments of a local journal; none of one in an object store."""
    folder = local_folder(journal)
    return [] if folder is None else sorted(folder.glob(f"*{SEGMENT_SUFFIX}"))


def count_replies(journal: str, scope_keys: Collection[str]) -> int:
    """Count the replies about some scopes in a local journal."""
    return sum(scope_of(line) in scope_keys for line in _lines(journal))


def _lines(journal: str) -> Iterator[bytes]:
    for path in segments_of(journal):
        with path.open("rb") as lines:
            yield from lines


def drop_replies(journal: str, scope_keys: Collection[str]) -> int:
    """Erase the replies about some scopes; how many there were."""
    return drop_scopes(journal, scope_keys).erased if scope_keys else 0
