"""A plan against its table: what would change, and what has changed meanwhile."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from memorypipe.pipeline.committing import left_to_commit
from memorypipe.pipeline.plans.changes import PLAN_CHANGES, plan_changes
from memorypipe.table.table import MemoryTable

if TYPE_CHECKING:
    from memorypipe.pipeline.plans.plan import Plan

__all__ = ["DIFF_CHANGES", "PlanDiff", "diff_plan"]

#: `PLAN_CHANGES`, and what the table says now where others have changed it since.
DIFF_CHANGES = pa.schema([*PLAN_CHANGES, pa.field("now", pa.string())])

_MARKS = {"ADD": "+", "UPDATE": "~", "DELETE": "-"}


@dataclass(frozen=True, kw_only=True)
class PlanDiff:
    """What a plan changes in its table.

    Attributes:
        run_id: The plan's run.
        base_version: The version of the table that it was decided against.
        version: The newest one.
        changes: Schema `DIFF_CHANGES`; at most one per memory, by scope. Where an action of a
            scope is committed already, all of it are, and its changes are listed all the same.
        unchanged: Facts that change nothing.
        committed: Scopes that are committed already, or were held back.
        held_back: Scope key to the reason why a commit would take nothing of it now.
        duplicates: Memories to add that the table says by now.
    """

    run_id: str
    base_version: int
    version: int
    changes: pa.Table
    unchanged: int
    committed: int
    held_back: Mapping[str, str]
    duplicates: int

    def __str__(self) -> str:
        return self.to_text()

    def count(self, event: str) -> int:
        """Count the changes of an event."""
        return int(pc.sum(pc.equal(self.changes["event"], event)).as_py() or 0)

    def to_text(self, limit: int | None = None) -> str:
        """Show the changes as lines: ``+ new``, ``~ old → new``, ``- old``, by scope.

        Args:
            limit: At most so many changes; None: all.
        """
        return "\n".join(self._lines(limit))

    def to_dict(self, limit: int | None = None) -> dict[str, Any]:
        """Give the diff as JSON values; `scope` is an object.

        Args:
            limit: At most so many changes; None: all.
        """
        return {
            "run_id": self.run_id,
            "base_version": self.base_version,
            "version": self.version,
            "added": self.count("ADD"),
            "updated": self.count("UPDATE"),
            "deleted": self.count("DELETE"),
            "none": self.unchanged,
            "duplicates": self.duplicates,
            "committed_scopes": self.committed,
            "held_back": dict(self.held_back),
            "changes": [
                {**row, "scope": dict(row["scope"]), "event_time": _iso(row["event_time"])}
                for row in self.rows(limit)
            ],
        }

    def rows(self, limit: int | None = None) -> list[dict[str, Any]]:
        """Give changes as Python values; at most `limit`, None: all."""
        shown = self.changes if limit is None else self.changes.slice(0, limit)
        rows: list[dict[str, Any]] = shown.to_pylist()
        return rows

    def _lines(self, limit: int | None) -> Iterator[str]:
        rows = self.rows(limit)
        for scope_key, group in groupby(rows, key=lambda row: row["scope_key"]):
            of_scope = list(group)
            yield _scope(of_scope[0]["scope"]) + self._held(scope_key)
            for row in of_scope:
                yield from _change(row)
        if len(rows) < self.changes.num_rows:
            yield f"… {self.changes.num_rows - len(rows):,} more"
        if not self.changes.num_rows:
            yield "no changes"

    def _held(self, scope_key: str) -> str:
        reason = self.held_back.get(scope_key)
        return "" if reason is None else f"  ! {reason}"


def _scope(pairs: Sequence[tuple[str, str]]) -> str:
    return ", ".join(f"{name}={value}" for name, value in sorted(pairs)) or "(no scope)"


def _change(row: Mapping[str, Any]) -> Iterator[str]:
    texts = [text for text in (row["old"], row["new"]) if text is not None]
    yield f"  {_MARKS[row['event']]} {' → '.join(texts)}"
    if row["now"] is not None:
        yield f"      now: {row['now'] or '(deleted)'}"


def _iso(moment: Any) -> str | None:
    return None if moment is None else str(moment.isoformat())


def diff_plan(plan: "Plan") -> PlanDiff:
    """Compare a plan with its table as it is now; as `Plan.diff`."""
    actions = plan.actions()
    changes = plan_changes(actions)
    unchanged = int(pc.sum(pc.equal(actions["event"], "NONE")).as_py() or 0)
    told: dict[str, Any] = {"version": 0, "committed": 0, "held_back": {}, "duplicates": 0}
    now = pa.nulls(changes.num_rows, pa.string())
    if MemoryTable.exists(plan.table_uri):
        table = MemoryTable.open(plan.table_uri, create=False)
        told, now = _meanwhile(plan, table, actions, changes)
    return PlanDiff(
        run_id=plan.run_id,
        base_version=plan.base_version,
        changes=changes.append_column(DIFF_CHANGES.field("now"), now),
        unchanged=unchanged,
        **told,
    )


def _meanwhile(
    plan: "Plan", table: MemoryTable, actions: pa.Table, changes: pa.Table
) -> tuple[dict[str, Any], pa.Array]:
    keys: list[str] = pc.unique(actions["scope_key"]).to_pylist()
    left = left_to_commit(table, plan.run_id, keys)
    if len(left) < len(keys):
        actions = actions.filter(pc.is_in(actions["scope_key"], pa.array(left, pa.string())))
    result = table.preview_commit(actions, run_id=plan.run_id, base_version=plan.base_version)
    told = {
        "version": result.version,
        "committed": len(keys) - len(left),
        "held_back": dict(result.held_back),
        "duplicates": result.duplicates,
    }
    return told, _texts_now(table, changes, sorted(result.held_back))


def _texts_now(table: MemoryTable, changes: pa.Table, scope_keys: Sequence[str]) -> pa.Array:
    """Say what the memories of some scopes say now, where it is something else than before.

    Returns:
        A text per change; null where it is as it was, "" where it is not there any more.
    """
    if not scope_keys:
        return pa.nulls(changes.num_rows, pa.string())
    live = table.read_scopes(scope_keys, ["scope_key", "memory_id", "text"])
    # An id is one of a scope.
    places = pc.index_in(_ids(changes), _ids(live))
    said = live["text"].combine_chunks().take(places).fill_null("")
    concerned = pc.and_(
        pc.is_in(changes["scope_key"], pa.array(scope_keys, pa.string())),
        pc.is_valid(changes["old"]),
    )
    differs = pc.and_(concerned, pc.not_equal(said, changes["old"].fill_null("")))
    now = pc.if_else(differs, said, pa.scalar(None, pa.string()))
    return now.combine_chunks() if isinstance(now, pa.ChunkedArray) else now


def _ids(rows: pa.Table) -> pa.Array:
    return pc.binary_join_element_wise(
        rows["scope_key"].combine_chunks(), rows["memory_id"].combine_chunks(), "\n"
    )
