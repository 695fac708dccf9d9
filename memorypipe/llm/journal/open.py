"""The journal: every reply is written down before it is used, so that none is paid for twice.

A journal is a folder, or a prefix of an object store, that holds segments: JSON lines
(`lines`) that are only ever appended to, with an index (`index`) beside each that
is finished.
"""

import importlib.util
import re
import time
from collections import Counter
from collections.abc import Callable, Collection
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import unquote, urlsplit

from memorypipe.errors import InvalidArgumentError, JournalError
from memorypipe.llm.journal.catalog import SEGMENT_SUFFIX, Catalog
from memorypipe.llm.journal.compact import compact_folder
from memorypipe.llm.journal.files import FolderSource, segment_times
from memorypipe.llm.journal.local import LocalJournal
from memorypipe.llm.journal.types import Compaction, Inventory, Journal, JournalSettings

if TYPE_CHECKING:  # an extra
    from memorypipe.llm.journal.store import ObjectStore

__all__ = [
    "absolute_journal",
    "check_journal",
    "compact_journal",
    "drop_scopes",
    "open_journal",
    "take_inventory",
]

_STORE_SCHEMES = ("s3", "gs", "az", "memory")
_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*)://")


def absolute_journal(uri: str) -> str:
    """Give an address that means the same from every folder; one with a scheme does already.

    Args:
        uri: As for `open_journal`.
    """
    return uri if _SCHEME.match(uri) else str(Path(uri).absolute())


def check_journal(
    uri: str,
    *,
    is_opened_here: bool = True,
    find_module: Callable[[str], object] = importlib.util.find_spec,
) -> None:
    """Check an address without opening, making or reaching anything.

    Args:
        uri: As for `open_journal`.
        is_opened_here: False leaves unchecked what depends on the machine: the extra.
        find_module: Finds a module by its name; None where it is not installed.

    Raises:
        InvalidArgumentError: As `open_journal`.
        JournalError: As `open_journal`.
    """
    is_in_store = _folder(uri) is None
    if is_in_store and is_opened_here and find_module("obstore") is None:
        raise JournalError(
            "A journal in an object store needs the extra 'object-store': "
            "pip install 'memorypipe[object-store]'."
        )


def open_journal(
    uri: str, *, writer_id: str | None = None, settings: JournalSettings | None = None
) -> Journal:
    """Open a journal, and make its folder where there is none.

    Args:
        uri: A local folder, as a path or a ``file://`` address; or ``s3://bucket/prefix``,
            ``gs://bucket/prefix``, ``az://container/prefix`` (extra ``object-store``), with
            credentials from the environment alone.
        writer_id: Begins the names of what this handle writes; None takes the process id. Two
            writers with one id do not get in each other's way.
        settings: How it is kept; None takes the defaults.

    Raises:
        InvalidArgumentError: For an address of another kind, or one that holds a password.
        JournalError: Where the extra for object stores is missing.
        OSError: Where the folder cannot be made or read.

    Example:
        >>> import asyncio, tempfile
        >>> from memorypipe.llm.types import Reply
        >>> folder = tempfile.TemporaryDirectory()
        >>> journal = open_journal(folder.name)
        >>> asyncio.run(journal.put("0" * 32, Reply(content="Likes tea"), usable=True))
        >>> asyncio.run(journal.get("0" * 32)).content
        'Likes tea'
        >>> journal.close()
        >>> folder.cleanup()
    """
    place = _place(uri)
    if isinstance(place, Path):
        return LocalJournal(place, writer_id=writer_id, settings=settings)
    from memorypipe.llm.journal.objects import ObjectJournal  # noqa: PLC0415  # needs the extra

    return ObjectJournal(place, writer_id=writer_id, settings=settings)


def take_inventory(uri: str) -> Inventory:
    """Count what lies in a journal; segments without an index are read.

    Raises:
        InvalidArgumentError: As `open_journal`.
        JournalError: Where there is no such folder.
    """
    place = _place(uri)
    if isinstance(place, Path):
        _check_folder(place)
        catalog = Catalog(memory_bytes=0)
        catalog.look(FolderSource(place))
        times = segment_times(place)
    else:
        catalog = Catalog(memory_bytes=0)
        catalog.look(place)
        times = place.segment_times()
    known = catalog.segments()
    models: Counter[str] = Counter()
    for one in known:
        models.update(one.models)
    return Inventory(
        segments=len(known),
        size_bytes=catalog.size_bytes,
        index_bytes=catalog.index_bytes,
        usable=sum(one.usable for one in known),
        unusable=sum(one.unusable for one in known),
        unreadable=catalog.unreadable,
        models=dict(models.most_common()),
        oldest=min(times, default=None),
        newest=max(times, default=None),
    )


def compact_journal(
    uri: str,
    *,
    keep_unusable: bool = True,
    settings: JournalSettings | None = None,
    now: Callable[[], float] = time.time,
) -> Compaction:
    """Merge the finished segments of a journal into few big ones.

    Repeated, damaged and torn lines are left out, and unusable ones where that is wanted. Runs may
    be at work meanwhile: their segments are left alone.

    Args:
        uri: As for `open_journal`.
        keep_unusable: Whether replies that could not be used stay: they are evidence, and runs
            that are repeated from the journal alone need them.
        settings: How it is kept; None takes the defaults.
        now: Gives seconds since 1970.

    Raises:
        InvalidArgumentError: As `open_journal`.
        JournalError: Where there is no such folder, or another compaction is at work.
    """
    return _compact(uri, keep_unusable, (), settings, now)


def drop_scopes(
    uri: str,
    scope_keys: Collection[str],
    *,
    settings: JournalSettings | None = None,
    now: Callable[[], float] = time.time,
) -> Compaction:
    """Erase the replies of some scopes; the rest is compacted, evidence included.

    In a folder the lines are overwritten where they are first, also in segments of writers at
    work. What a writer adds after this pass is not erased: stop the runs over these scopes first.

    Args:
        uri: As for `open_journal`.
        scope_keys: As given to `Journal.put`.
        settings: As for `compact_journal`.
        now: As for `compact_journal`.

    Raises:
        InvalidArgumentError: As `open_journal`, and for no scope keys.
        JournalError: As `compact_journal`.
    """
    if not scope_keys or isinstance(scope_keys, str):
        raise InvalidArgumentError("scope_keys must be a collection of at least one scope key.")
    return _compact(uri, True, frozenset(scope_keys), settings, now)


def _compact(
    uri: str,
    keep_unusable: bool,  # noqa: FBT001  # both callers name it in the line before
    scopes: Collection[str],
    settings: JournalSettings | None,
    now: Callable[[], float],
) -> Compaction:
    place = _place(uri)
    settings = settings or JournalSettings()
    if isinstance(place, Path):
        _check_folder(place)
        return compact_folder(
            place, settings=settings, keep_unusable=keep_unusable, drop_scopes=scopes, now=now
        )
    from memorypipe.llm.journal.objects_compact import (  # noqa: PLC0415  # needs the extra
        compact_objects,
    )

    return compact_objects(
        place, settings=settings, keep_unusable=keep_unusable, drop_scopes=scopes, now=now
    )


def _check_folder(folder: Path) -> None:
    if not folder.is_dir():
        raise JournalError(
            f"There is no journal at {str(folder)!r}; by default it is the folder 'journal' "
            "beside the table."
        )
    # A journal has no folders in it.
    if not any(folder.glob(f"*{SEGMENT_SUFFIX}")) and any(
        each.is_dir() for each in folder.iterdir()
    ):
        raise JournalError(
            f"{str(folder)!r} is no journal; that of a table is {str(folder / 'journal')!r}."
        )


def _place(uri: str) -> "Path | ObjectStore":
    """Find out what an address means."""
    folder = _folder(uri)
    if folder is not None:
        return folder
    from memorypipe.llm.journal.store import ObjectStore  # noqa: PLC0415  # needs the extra

    return ObjectStore.open(uri)


def _folder(uri: str) -> Path | None:
    """Give the local folder that an address means, None for a place in an object store."""
    scheme = _SCHEME.match(uri)
    if scheme is None:
        return Path(uri)
    parts = urlsplit(uri)
    if "@" in parts.netloc or parts.query or parts.fragment:
        # Without the address: it may hold a password.
        raise InvalidArgumentError(
            "journal must be an address without user, password, query or fragment; credentials "
            "of an object store come from the environment."
        )
    if scheme[1] == "file" and parts.netloc in {"", "localhost"}:
        return Path(unquote(parts.path))
    if scheme[1] in _STORE_SCHEMES and parts.netloc:
        return None
    kinds = ", ".join(f"{name}://" for name in ("file", *_STORE_SCHEMES[:-1]))
    raise InvalidArgumentError(
        f"journal must be a local folder or the address of one in an object store ({kinds}), "
        f"got {uri!r}."
    )
