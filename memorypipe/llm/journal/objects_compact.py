"""Compaction of a journal in an object store: many small objects become few.

Objects never change, so that those of writers at work can be merged too. The new object is stored
before the first old one is removed; a crash leaves replies that are there twice.
"""

import contextlib
import io
from collections.abc import Callable, Collection, Iterator

from memorypipe.errors import JournalError
from memorypipe.llm.journal.catalog import INDEX_SUFFIX, SEGMENT_SUFFIX
from memorypipe.llm.journal.compact import LineFilter, groups_of, superfluous
from memorypipe.llm.journal.files import COMPACTED, new_token
from memorypipe.llm.journal.index import covered_by, make_run, pack_index
from memorypipe.llm.journal.store import ObjectStore
from memorypipe.llm.journal.types import Compaction, JournalSettings

__all__ = ["compact_objects"]

_LOCK = "compact.lock"
_LOCK_STALE_S = 3600.0
# A group is held in memory, its lines and what is made of them.
_MAX_OBJECT_BYTES = 64 * 1024 * 1024


def compact_objects(
    store: ObjectStore,
    *,
    settings: JournalSettings,
    keep_unusable: bool,
    drop_scopes: Collection[str],
    now: Callable[[], float],
) -> Compaction:
    """Merge the objects of a journal.

    Raises:
        JournalError: Where another compaction is at work, or the store does not answer.
    """
    lines = LineFilter(keep_unusable=keep_unusable, drop_scopes=drop_scopes)
    with _only_one(store, now):
        before = _segments(store)
        target_bytes = min(settings.compacted_bytes, _MAX_OBJECT_BYTES)
        small = [
            (name, size)
            for name, size in sorted(before.items())
            if drop_scopes or size < target_bytes // 2 or not name.startswith(COMPACTED)
        ]
        made = merged = 0
        always = before.keys() if drop_scopes else ()
        for group in groups_of(small, target_bytes, always=always):
            made += _merge(store, group, lines)
            store.remove(group)
            merged += len(group)
        listing = store.listing()
        names = sorted(name for name in listing if name.endswith(INDEX_SUFFIX))
        store.remove(superfluous(store.indexes(names), _segments(store)))
    return Compaction(
        merged=merged, made=made, kept=lines.kept, dropped=lines.dropped, erased=lines.erased
    )


@contextlib.contextmanager
def _only_one(store: ObjectStore, now: Callable[[], float]) -> Iterator[None]:
    if not store.take(_LOCK, now=now(), stale_after_s=_LOCK_STALE_S):
        raise JournalError(
            f"The journal {store.uri!r} is being compacted by another process; wait for its end "
            f"and try again. A lock that a crash left is passed over after an hour."
        )
    try:
        yield
    finally:
        store.remove([_LOCK])


def _segments(store: ObjectStore) -> dict[str, int]:
    return {name: size for name, size in store.listing().items() if name.endswith(SEGMENT_SUFFIX)}


def _merge(store: ObjectStore, group: Collection[str], lines: LineFilter) -> bool:
    """Store what stays of a group as one object; tells whether anything stays."""
    lines.begin()
    kept = bytearray()
    for _, data in store.read_all(sorted(group)):
        # One that is gone was merged by somebody who took this lock for a dead one's.
        for line in lines.choose(io.BytesIO(data or b"")):
            kept += line
    if not kept:
        return False
    stem = f"{COMPACTED}.{new_token()}"
    covered = [covered_by(stem + SEGMENT_SUFFIX, lines.scan)]
    # First the index: whoever sees the segment need not fetch all of it.
    index = b"".join(pack_index(covered, make_run(lines.scan.places)))
    store.write(stem + INDEX_SUFFIX, index)
    store.write(stem + SEGMENT_SUFFIX, bytes(kept))
    return True
