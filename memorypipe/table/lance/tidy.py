"""Keep a Lance dataset that many small commits go to as quick as it was: merge, and forget.

Every commit adds a fragment, and every fragment costs every scan half a millisecond. They are
merged in tiers, so that a row is written again once per tier and not with every merge. Merging
gives way to commits: of two that touch the same fragments the later one loses, and a merge that
lost is left to the next commit.
"""

from datetime import datetime, timedelta
from itertools import pairwise
from typing import Any

from memorypipe.table.lance.dataset import find_head

__all__ = ["KEPT", "tidy"]

# Fragments with fewer rows than a tier's bound and at least the one before belong to it.
_TIERS = (0, 1 << 12, 1 << 16, 1 << 20)
_MANY = 16

# Every so many versions old versions go, as far as a process has not looked for such a short time
# ago: that reads all versions, of which a busy day leaves many, half a second for a thousand.
_CLEAN_EVERY = 256
_CLEAN_PAUSE = timedelta(hours=1)

_cleaned: dict[str, datetime] = {}
"""When this process last removed old versions, by address."""

KEPT = timedelta(days=1)
"""How long a version can be read at least, by who holds on to it: jobs that read a table piece by
piece while models answer take hours."""


def tidy(dataset: Any, *, now: datetime) -> None:
    """Merge small fragments once there are many of a size; now and then remove old versions.

    Args:
        dataset: At its newest version.
        now: The time, UTC.
    """
    sizes = [each.physical_rows for each in dataset.get_fragments()]
    for low, high in pairwise(_TIERS):
        # The head row's fragment is counted, too, and not merged: looking for it costs more.
        if sum(low <= size < high for size in sizes) > _MANY:
            merge(dataset, [find_head(dataset)[1]], rows=high)
            break
    if dataset.version % _CLEAN_EVERY == 0 and _is_due(dataset.uri, now):
        _cleaned[dataset.uri] = now
        dataset.cleanup_old_versions(KEPT, error_if_tagged_old_versions=False)


def _is_due(uri: str, now: datetime) -> bool:
    last = _cleaned.get(uri)
    return last is None or not timedelta() <= now - last < _CLEAN_PAUSE


def merge(dataset: Any, left: list[int], *, rows: int, materialise: bool = False) -> None:
    """Merge neighbouring fragments of fewer rows.

    Args:
        dataset: At its newest version.
        left: Fragments that are left as they are. The head's is one of them: with the head in
            hand a merge would race every commit.
        rows: Only fragments of fewer rows are merged.
        materialise: Whether every fragment with deleted rows is written anew without them.
    """
    dataset.optimize.compact_files(
        target_rows_per_fragment=rows,
        materialize_deletions=materialise,
        materialize_deletions_threshold=0.0,
        excluded_fragment_ids=left,
    )
