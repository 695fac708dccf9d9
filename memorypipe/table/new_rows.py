"""The new revisions that a commit of actions writes. Pure: tables in, a table out."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import orjson
import pyarrow as pa
import pyarrow.compute as pc

from memorypipe.cells.metadata import applied_metadata
from memorypipe.schema import LABELS, TIME, table_schema
from memorypipe.table.actions import Batch
from memorypipe.table.folding.changes import Changes
from memorypipe.table.rows import SCOPE_COPIES, Stamp, assemble, scope_columns
from memorypipe.table.vectors import fixed_width, take_vectors

__all__ = ["new_rows"]


def new_rows(
    batch: Batch,
    changes: Changes,
    base: pa.Table,
    *,
    stamp: Stamp,
    vector_dim: int,
) -> pa.Table:
    """Build the new revision of each change.

    What an action does not speak of is carried over from the revision before; a DELETE leaves a
    tombstone without content, that keeps the hash of what it removed.

    Args:
        batch: The actions.
        changes: As from `fold`.
        base: The revisions that the changes close, in the order of the changes that have one.
        stamp: Commit time, run and labels.
        vector_dim: Width of `vector`.

    Returns:
        One row per change, in the table's schema; `vector` as the last action of a change has it.
    """
    said, before = _Said(batch, changes), _Before(changes, base)
    added, deleted = pc.equal(changes.event, "ADD"), pc.equal(changes.event, "DELETE")
    text = _unless(deleted, said["text"], "")
    status = pc.fill_null(before["status"], "valid")
    live = pc.and_(pc.invert(deleted), pc.equal(status, "valid"))
    derived = _scope_columns(batch, said["scope_key"])
    now = pa.scalar(stamp.moment, TIME)

    def carried(name: str) -> Any:
        return _coalesce(said.latest(name), before[name])

    return assemble(
        table_schema(vector_dim),
        len(changes),
        {
            "record_type": said["record_type"],
            "memory_id": changes.memory_id,
            "external_id": carried("external_id"),
            "revision": pc.add(
                pc.fill_null(before.replaced("revision"), 0), pa.scalar(1, pa.int32())
            ),
            "is_current": True,
            "event": changes.event,
            "scope": derived["scope"],
            "scope_key": said["scope_key"],
            **{name: pc.if_else(added, derived[name], before[name]) for name in SCOPE_COPIES},
            "text": text,
            **{
                name: _unless(deleted, carried(name), None)
                for name in ("context", "topics", "payload", "expires_at")
            },
            "metadata": _unless(
                deleted, said.merged_metadata(before["metadata"], carried("metadata")), None
            ),
            "event_time": _coalesce(said["event_time"], before["event_time"]),
            # An imported memory keeps the times that it had where it comes from.
            "created_at": pc.coalesce(before["created_at"], said["created_at"], now),
            "updated_at": pc.coalesce(said["updated_at"], now),
            "valid_from": stamp.moment,
            "valid_to": None,
            "deleted": deleted,
            "status": status,
            "is_live": live,
            "run_id": stamp.run_id,
            "conversation_id": said["conversation_id"],
            "source_ids": said.union("source_ids"),
            "rationale": said["rationale"],
            "model": said["model"],
            "prompt_hash": said["prompt_hash"],
            "labels": _labels(said["revision_labels"], stamp.labels),
            "revision_expires_at": said["revision_expires_at"],
            "text_hash": _coalesce(said.text_hash(), before["text_hash"]),
            "search_text": _unless(pc.invert(live), text, None),
            "vector": fixed_width(said["vector"], live, vector_dim),
        },
    )


class _Said:
    """The actions' columns, row i for change i."""

    def __init__(self, batch: Batch, changes: Changes) -> None:
        self._batch = batch
        self._last = np.asarray(changes.last)
        self._steps = changes.steps
        whole = np.arange(batch.actions.num_rows)
        self._is_whole = np.array_equal(self._last, whole)

    def __getitem__(self, name: str) -> Any:
        """Take the value of each change's last action."""
        column = self._batch.actions[name]
        if self._is_whole:
            return column
        if name == "vector":
            return take_vectors(column, self._last)
        return column.take(pa.array(self._last))

    def text_hash(self) -> pa.Array:
        return self._batch.text_hash.take(pa.array(self._last))

    def latest(self, name: str) -> Any:
        """Take the value of the last action of each change that gives one."""
        column = self._batch.actions[name]
        picks = {
            number: next((step for step in reversed(steps) if column[step].is_valid), steps[-1])
            for number, steps in self._steps.items()
        }
        if not picks:
            return self[name]
        places = self._last.copy()
        places[list(picks)] = list(picks.values())
        return column.take(pa.array(places))

    def merged_metadata(self, before: Any, carried: Any) -> Any:
        """Take each change's metadata, where any of its actions merges: of all, in their order."""
        given, merges = self._batch.actions["metadata"], self._batch.actions["metadata_merge"]
        if merges.null_count == len(merges):
            return carried
        patches: dict[int, str | None] = {}
        for number, last in enumerate(self._last.tolist()):
            steps = self._steps.get(number, [last])
            if any(merges[step].is_valid for step in steps):
                metadata = before[number].as_py()
                for step in steps:
                    metadata = applied_metadata(metadata, given[step].as_py(), merges[step].as_py())
                patches[number] = metadata
        return _patched(carried, patches)

    def union(self, name: str) -> Any:
        """Take each change's lists; those of several actions are joined, none is lost."""
        column = self._batch.actions[name]
        joined = {
            number: _union([column[step].as_py() for step in steps])
            for number, steps in self._steps.items()
        }
        return _patched(self[name], joined)


class _Before:
    """The columns of the revisions before, row i for change i; nulls where there is none."""

    def __init__(self, changes: Changes, base: pa.Table) -> None:
        self._base = base
        has_base = np.asarray(pc.is_valid(changes.base))
        places = np.cumsum(has_base) - 1
        # An ADD may replace the tombstone of a record that was taken back: it carries nothing on.
        carries = has_base & ~np.asarray(pc.equal(changes.event, "ADD"))
        self._replaced = pa.array(places, mask=~has_base)
        self._carried = pa.array(places, mask=~carries)

    def __getitem__(self, name: str) -> Any:
        return self._base[name].take(self._carried)

    def replaced(self, name: str) -> Any:
        """Take a column of the rows that are closed, an ADD's too."""
        return self._base[name].take(self._replaced)


def _coalesce(first: Any, second: Any) -> Any:
    """Coalesce two columns; mostly one of them says nothing, and lists are slow to choose."""
    if first.null_count == 0 or second.null_count == len(second):
        return first
    return second if first.null_count == len(first) else pc.coalesce(first, second)


def _unless(mask: Any, column: Any, other: Any) -> Any:
    """Replace what the mask names."""
    if not pc.any(mask).as_py():
        return column
    return pc.if_else(mask, pa.scalar(other, column.type), column)


def _patched(column: Any, patches: Mapping[int, Any]) -> Any:
    """Give a column other values at some places."""
    if not patches:
        return column
    places = np.arange(len(column))
    places[list(patches)] = range(len(column), len(column) + len(patches))
    pool = [*pa.chunked_array(column).chunks, pa.array(list(patches.values()), column.type)]
    return pa.chunked_array(pool, column.type).take(pa.array(places))


def _labels(own: Any, of_run: Mapping[str, str] | None) -> Any:
    """Give the labels of each revision: those of its action beside those of the run."""
    shared = None if of_run is None else sorted(of_run.items())
    if own.null_count == len(own):
        return shared
    told = [
        shared if each is None else sorted({**(of_run or {}), **orjson.loads(each)}.items())
        for each in own.to_pylist()
    ]
    return pa.array(told, LABELS)


def _union(lists: Sequence[list[str] | None]) -> list[str] | None:
    if all(each is None for each in lists):
        return None
    return list(dict.fromkeys(item for each in lists for item in each or ()))


def _scope_columns(batch: Batch, scope_key: pa.ChunkedArray) -> dict[str, Any]:
    where = pc.index_in(scope_key, pa.array(list(batch.scopes), pa.string()))
    columns = scope_columns(batch.scopes.values())
    return {name: column.take(where) for name, column in columns.items()}
