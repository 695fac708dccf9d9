"""The commit of a plan, and of the scopes that a guard held back from it, once it lets them."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from memorypipe.table.guards import GUARD_PREFIX, MaxRetired
from memorypipe.table.table import MemoryTable
from memorypipe.table.transaction import CommitResult

__all__ = ["commit_plan"]

_COUNTS = ("added", "updated", "deleted", "none", "duplicates", "blocked")


def commit_plan(  # noqa: PLR0913  # one keyword per independent choice of a commit
    table: MemoryTable,
    actions: pa.Table,
    ledger: pa.Table,
    *,
    run_id: str,
    base_version: int,
    info: Mapping[str, Any],
    max_retired: MaxRetired,
    accept_guards: Collection[str],
) -> CommitResult:
    """Commit a plan; where it is committed, what a guard held back of it and now lets through.

    Each scope that was held back is a part of its own then, so that it lands once.

    Args:
        table: The table.
        actions: Of the plan.
        ledger: Of the plan.
        run_id: As for `MemoryTable.commit`, and so are all others.
        base_version: The version that it was decided against.
        info: For the run row.
        max_retired: Most memories of a scope that may be deleted.
        accept_guards: Keys of scopes without a limit.

    Returns:
        The result of all parts together.
    """
    options: dict[str, Any] = {
        "run_id": run_id,
        "base_version": base_version,
        "on_conflict": "skip",
        "max_retired": max_retired,
        "accept_guards": accept_guards,
    }
    first = table.commit(actions, ledger=ledger, info=info, **options)
    if first.outcome != "already_landed":
        return first
    later = {
        key: table.commit(_of(actions, key), ledger=_of(ledger, key), part=part, **options)
        for part, key in enumerate(sorted(first.held_back), start=1)
        if first.held_back[key].startswith(GUARD_PREFIX)
    }
    still_held = {key: why for key, why in first.held_back.items() if key not in later}
    for result in later.values():
        still_held |= result.held_back
    return replace(_added_up([first, *later.values()]), held_back=still_held)


def _of(rows: pa.Table, scope_key: str) -> pa.Table:
    return rows.filter(pc.equal(rows["scope_key"], scope_key))


def _added_up(results: Sequence[CommitResult]) -> CommitResult:
    counts = {name: sum(getattr(each, name) for each in results) for name in _COUNTS}
    ids = {old: new for each in results for old, new in each.ids.items()}
    return replace(results[0], version=max(each.version for each in results), ids=ids, **counts)
