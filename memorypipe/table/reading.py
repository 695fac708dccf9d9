"""The reading interface: the same on the newest version and on a past one."""

from collections.abc import Collection, Mapping, Sequence
from datetime import datetime
from typing import Any

import pyarrow as pa

from memorypipe import ids
from memorypipe.errors import InvalidArgumentError
from memorypipe.schema import table_schema
from memorypipe.table.rows import SORT_COLUMNS, STATE_COLUMNS, STATES, as_of, select_states
from memorypipe.table.storage import Snapshot, Storage, Where
from memorypipe.table.times import Clock, read_clock

__all__ = ["Reader"]

_LIVE = ("live",)


class Reader:
    """Read memories; each call sees the newest version, or the past one that was chosen.

    Rows come sorted by `scope_key`, `created_at`, `memory_id` and `revision`; their schema is
    `memorypipe.schema.table_schema`.
    """

    def __init__(self, storage: Storage, clock: Clock, moment: datetime | None = None) -> None:
        self._storage = storage
        self._clock = clock
        self._moment = moment

    def to_arrow(
        self,
        scope: Mapping[str, Any] | None = None,
        columns: Sequence[str] | None = None,
        include: Collection[str] = _LIVE,
    ) -> pa.Table:
        """Read rows as an Arrow table.

        Args:
            scope: Only this scope, matched exactly; ``{}`` is the unscoped rows, None all.
            columns: Names of columns, in the order wanted; None for all.
            include: ``"live"`` (live and unexpired), ``"deleted"`` (tombstones), ``"invalid"``,
                ``"expired"``, ``"history"`` (revisions that no longer stand). A row both invalid
                and expired needs both.

        Raises:
            InvalidArgumentError: For an unknown column or state, or a scope that cannot be.
        """
        keys = None if scope is None else [ids.scope_key(scope)]
        return self._read(columns, include, scope_keys=keys)

    def read_scopes(
        self, scope_keys: Collection[str], columns: Sequence[str] | None = None
    ) -> pa.Table:
        """Read the live rows of many scopes in one pass.

        Args:
            scope_keys: As from `memorypipe.ids.scope_key`.
            columns: As for `to_arrow`.
        """
        return self._read(columns, _LIVE, scope_keys=scope_keys)

    def to_pandas(
        self,
        scope: Mapping[str, Any] | None = None,
        columns: Sequence[str] | None = None,
        include: Collection[str] = _LIVE,
    ) -> Any:
        """Read rows as a pandas DataFrame; the arguments are those of `to_arrow`."""
        return self.to_arrow(scope, columns, include).to_pandas()

    def count(
        self, scope: Mapping[str, Any] | None = None, include: Collection[str] = _LIVE
    ) -> int:
        """Count rows; the arguments are those of `to_arrow`."""
        return int(self.to_arrow(scope, ["memory_id"], include).num_rows)

    def get(self, memory_id: str, include: Collection[str] = _LIVE) -> dict[str, Any] | None:
        """Read the current revision of one memory.

        Args:
            memory_id: Its id.
            include: As for `to_arrow`; the default gives None for a deleted memory.

        Returns:
            Column to value, `scope` and `labels` as dicts; None where there is no such memory.
        """
        states = set(include) - {"history"}
        rows = self._read(None, states, memory_ids=[memory_id]).to_pylist()
        if not rows:
            return None
        row: dict[str, Any] = rows[-1]
        row["scope"] = dict(row["scope"])
        row["labels"] = None if row["labels"] is None else dict(row["labels"])
        return row

    def history(self, memory_id: str) -> pa.Table:
        """Read all revisions of one memory, oldest first; no row where there is no such memory."""
        return self._read(None, STATES, memory_ids=[memory_id])

    def _read(
        self,
        columns: Sequence[str] | None,
        include: Collection[str],
        *,
        scope_keys: Collection[str] | None = None,
        memory_ids: Collection[str] | None = None,
    ) -> pa.Table:
        snapshot = self._storage.snapshot()
        wanted = _check_columns(columns, snapshot)
        where = Where(scope_keys=scope_keys, memory_ids=memory_ids, rows=self._rows(include))
        rows = snapshot.scan(list(dict.fromkeys([*wanted, *SORT_COLUMNS, *STATE_COLUMNS])), where)
        if self._moment is not None:
            rows = as_of(rows, self._moment)
        rows = select_states(rows, include, self._moment or read_clock(self._clock))
        return rows.sort_by([(name, "ascending") for name in SORT_COLUMNS]).select(wanted)

    def _rows(self, include: Collection[str]) -> Any:
        """Choose what the back end need not read; the exact choice comes after."""
        if self._moment is not None or "history" in include:
            return "all"
        return "live" if set(include) <= {"live", "expired"} else "current"


def _check_columns(columns: Sequence[str] | None, snapshot: Snapshot) -> list[str]:
    names: list[str] = table_schema(snapshot.head.vector_dim).names
    if columns is None:
        return names
    if unknown := [name for name in columns if name not in names]:
        raise InvalidArgumentError(f"Unknown column {unknown[0]!r}; choices: {names!r}.")
    return list(columns)
