"""The reading interface: the same on the newest version and on a past one."""

import os
from collections.abc import Collection, Mapping, Sequence
from datetime import datetime
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from memorypipe import ids
from memorypipe.errors import InvalidArgumentError, TableError
from memorypipe.llm.embed.types import Embedder
from memorypipe.schema import table_schema
from memorypipe.table.blocks import BLOCK_COLUMNS, FORGET_EVENT, Blocks, blocks_of
from memorypipe.table.embedding import embedder_of
from memorypipe.table.live_rows import live_rows
from memorypipe.table.past import Moment, check_kept
from memorypipe.table.pinned import PinnedRead, Selection
from memorypipe.table.records import Head
from memorypipe.table.rows import (
    SORT_COLUMNS,
    STATE_COLUMNS,
    STATES,
    as_of,
    check_states,
    one_record,
    select_states,
)
from memorypipe.table.search import AllScopes, Search, SearchStrategy, search_rows
from memorypipe.table.storage import Snapshot, Storage, Where
from memorypipe.table.times import Clock, read_clock
from memorypipe.table.transfer_export import (
    ExportResult,
    check_format,
    export_columns,
    export_rows,
)

__all__ = ["Reader"]

_LIVE = ("live",)


class Reader:
    """Read memories; each call sees the newest version, or the past one that was chosen.

    Rows come sorted by `scope_key`, `created_at`, `memory_id` and `revision`; their schema is
    `memorypipe.schema.table_schema`.
    """

    _embedder: Embedder | None = None

    def __init__(self, storage: Storage, clock: Clock, moment: Moment | None = None) -> None:
        self._storage = storage
        self._clock = clock
        self._past = moment
        self._moment = None if moment is None else moment.commit_time

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
        self,
        scope_keys: Collection[str],
        columns: Sequence[str] | None = None,
        *,
        vectors_by: str | None = None,
    ) -> pa.Table:
        """Read the live rows of many scopes in one pass, in any order.

        Args:
            scope_keys: As from `memorypipe.ids.scope_key`.
            columns: As for `to_arrow`.
            vectors_by: Name of an embedder; vectors that another one made come as null. None
                takes them as they are.
        """
        snapshot = self._snapshot()
        return live_rows(
            snapshot,
            scope_keys,
            _check_columns(columns, snapshot),
            commit_time=self._moment,
            now=self._now(),
            vectors_by=vectors_by,
        )

    def read_blocks(self, scope_keys: Collection[str]) -> Blocks:
        """Read what is forgotten in some scopes, and must not come back from the same evidence."""
        rows = self._read(BLOCK_COLUMNS, ("deleted",), scope_keys=scope_keys)
        return blocks_of(rows.filter(pc.equal(rows["event"], FORGET_EVENT)))

    def read_said(self, scope_keys: Collection[str]) -> pa.Table:
        """Read what the memories of some scopes ever said, and from which messages.

        Returns:
            `scope_key`, `text_hash` and `source_ids` of all revisions that are kept.
        """
        return self._read(("scope_key", "text_hash", "source_ids"), STATES, scope_keys=scope_keys)

    def to_pandas(
        self,
        scope: Mapping[str, Any] | None = None,
        columns: Sequence[str] | None = None,
        include: Collection[str] = _LIVE,
    ) -> Any:
        """Read rows as a pandas DataFrame; the arguments are those of `to_arrow`."""
        return self.to_arrow(scope, columns, include).to_pandas()

    def to_dataset(
        self,
        scope: Mapping[str, Any] | None = None,
        columns: Sequence[str] | None = None,
        include: Collection[str] = _LIVE,
    ) -> Any:
        """Read rows as a Ray Dataset; the arguments are those of `to_arrow`.

        The rows are those of the version that is the newest now. The workers read it piece by
        piece, in the order of storage, so the table may be larger than the memory of one machine.
        """
        from memorypipe.table.ray_io import read_pinned  # noqa: PLC0415  # imports Ray

        return read_pinned(self.pinned(scope, columns, include))

    def export(
        self,
        path: str | os.PathLike[str],
        format: str = "parquet",  # noqa: A002  # the word that readers and writers of files use
        *,
        live: bool = True,
        scope: Mapping[str, Any] | None = None,
    ) -> ExportResult:
        """Write rows to one plain file, in bounded memory and in the order of storage.

        Parquet has all columns but `search_text`, with the types of
        `memorypipe.schema.table_schema`: `scope` and `labels` are maps, `metadata` and `payload`
        texts with JSON. JSON lines have all four as objects, times in ISO 8601, and no vectors
        but the caller's own: those of an embedder follow from the texts.

        Args:
            path: Of the file; one that is there is replaced once the new one is whole.
            format: ``"parquet"`` or ``"jsonl"``.
            live: Only live, unexpired rows; else all revisions, deleted ones too.
            scope: As for `to_arrow`.

        Raises:
            InvalidArgumentError: For an unknown format, a folder that is not there, or a scope
                that cannot be.
            TableError: If the file cannot be written.
        """
        form = check_format(format)
        read = self.pinned(scope, None, _LIVE if live else STATES)
        columns = export_columns(read.schema, form, read.embedder)
        return export_rows(read.narrowed(columns), path, form)

    def pinned(
        self,
        scope: Mapping[str, Any] | None = None,
        columns: Sequence[str] | None = None,
        include: Collection[str] = _LIVE,
    ) -> PinnedRead:
        """Prepare to read rows of the newest version piece by piece; arguments as of `to_arrow`."""
        snapshot = self._snapshot()
        wanted = _check_columns(columns, snapshot)
        keys = None if scope is None else [ids.scope_key(scope)]
        check_states(include)
        schema = table_schema(snapshot.head.vector_dim)
        return PinnedRead(
            version=snapshot.head.number if self._past is None else self._past.version,
            embedder=snapshot.head.settings.embedder,
            schema=pa.schema([schema.field(name) for name in wanted], schema.metadata),
            selection=Selection(
                columns=tuple(wanted),
                include=tuple(sorted(include)),
                now=self._now(),
                moment=self._moment,
                where=Where(scope_keys=keys, rows=self._rows(include)),
            ),
            pieces=tuple(snapshot.pieces()),
        )

    def count(
        self, scope: Mapping[str, Any] | None = None, include: Collection[str] = _LIVE
    ) -> int:
        """Count rows; the arguments are those of `to_arrow`."""
        return int(self.to_arrow(scope, ["memory_id"], include).num_rows)

    def search(  # noqa: PLR0913  # one keyword per independent choice of a search
        self,
        *,
        scope: Mapping[str, Any] | AllScopes,
        query: str | None = None,
        vector: Sequence[float] | NDArray[Any] | None = None,
        top_k: int = 10,
        strategy: SearchStrategy = "auto",
        filter: Any = None,  # noqa: A002  # the word of Arrow, Lance and pandas
    ) -> pa.Table:
        """Find the live, unexpired memories that fit best.

        A search in one scope is exact, and looks at nothing but that scope: its scores change with
        no other scope and no maintenance. `ALL` searches every scope; once the table is large it
        does so by indexes, which `MemoryTable.optimize` makes. A past version can be searched in
        one scope, by ``"keyword"``.

        Args:
            scope: A mapping, matched exactly (``{}`` is the unscoped rows), or
                `memorypipe.ALL`.
            query: Words.
            vector: As wide as the table's, of any length but 0; None embeds the query where the
                strategy needs it.
            top_k: Rows wanted.
            strategy: ``"keyword"``: by BM25; only rows that share a word are found. ``"vector"``:
                by cosine; rows without a vector are not found. ``"hybrid"``: by both, fused by
                reciprocal rank. ``"auto"``: ``"hybrid"`` where there is a query and it can be
                embedded, else what is given; a table whose embedder was not given to `open` is
                searched by ``"keyword"``.
            filter: A `pyarrow.compute.Expression` over the table's columns; applied before
                ranking, so that `top_k` rows are found where so many fulfil it.

        Returns:
            The table's columns and `score` (float64, higher is better: BM25, cosine, or the sum
            of reciprocal ranks), the best first, ties by `memory_id`.

        Raises:
            InvalidArgumentError: For values that cannot work, or what this table cannot do.
            TableError: Where ``"vector"`` or ``"hybrid"`` needs the table's embedder, and `open`
                was not given it.
            ModelError: Where the query cannot be embedded.
        """
        search = Search(
            scope=scope, query=query, vector=vector, top_k=top_k, strategy=strategy, filter=filter
        )
        snapshot = self._snapshot()
        return search_rows(
            search,
            snapshot,
            embedder=self._search_embedder(search, snapshot.head),
            commit_time=self._moment,
            now=self._now(),
        )

    def _search_embedder(self, search: Search, head: Head) -> Embedder | None:
        """Find what embeds the query of a search; None where nothing does, or need not."""
        if search.strategy == "keyword" or search.vector is not None or self._past is not None:
            return None
        try:
            return embedder_of(self._embedder, head)
        except TableError:
            if search.strategy != "auto":
                raise
            return None

    def get(
        self,
        memory_id: str,
        include: Collection[str] = _LIVE,
        *,
        record_type: str | None = None,
        scope: Mapping[str, Any] | None = None,
    ) -> dict[str, Any] | None:
        """Read the current revision of one memory.

        Args:
            memory_id: Its id.
            include: As for `to_arrow`; the default gives None for a deleted memory.
            record_type: Its type; None for the one that has the id.
            scope: As for `to_arrow`: None is returned for a memory of another one.

        Returns:
            Column to value, `scope` and `labels` as dicts; None where there is no such memory.

        Raises:
            InvalidArgumentError: If records of several types have the id, and none is named.
        """
        found = self._read_record(memory_id, set(include) - {"history"}, record_type, scope)
        rows = found.to_pylist()
        if not rows:
            return None
        row: dict[str, Any] = rows[-1]
        row["scope"] = dict(row["scope"])
        row["labels"] = None if row["labels"] is None else dict(row["labels"])
        return row

    def history(
        self,
        memory_id: str,
        labels: Mapping[str, str] | None = None,
        *,
        record_type: str | None = None,
        scope: Mapping[str, Any] | None = None,
    ) -> pa.Table:
        """Read all revisions of one memory, oldest first; no row where there is no such memory.

        Args:
            memory_id: Its id.
            labels: Only the revisions that have all of these.
            record_type: Its type; None for the one that has the id.
            scope: As for `to_arrow`: a memory of another one has no rows.

        Raises:
            InvalidArgumentError: If records of several types have the id, and none is named.
        """
        rows = self._read_record(memory_id, STATES, record_type, scope)
        if not labels:
            return rows
        wanted = labels.items()
        return rows.filter(
            pa.array([wanted <= dict(each or ()).items() for each in rows["labels"].to_pylist()])
        )

    def _read_record(
        self,
        memory_id: str,
        include: Collection[str],
        record_type: str | None,
        scope: Mapping[str, Any] | None,
    ) -> pa.Table:
        keys = None if scope is None else [ids.scope_key(scope)]
        rows = self._read(None, include, scope_keys=keys, memory_ids=[memory_id])
        return one_record(rows, memory_id, record_type)

    def _read(
        self,
        columns: Sequence[str] | None,
        include: Collection[str],
        *,
        scope_keys: Collection[str] | None = None,
        memory_ids: Collection[str] | None = None,
    ) -> pa.Table:
        snapshot = self._snapshot()
        wanted = _check_columns(columns, snapshot)
        where = Where(scope_keys=scope_keys, memory_ids=memory_ids, rows=self._rows(include))
        rows = snapshot.scan(list(dict.fromkeys([*wanted, *SORT_COLUMNS, *STATE_COLUMNS])), where)
        if self._moment is not None:
            rows = as_of(rows, self._moment)
        rows = select_states(rows, include, self._now())
        return rows.sort_by([(name, "ascending") for name in SORT_COLUMNS]).select(wanted)

    def _snapshot(self) -> Snapshot:
        """Take the newest version; a past that it does not keep any more is refused."""
        snapshot = self._storage.snapshot()
        if self._past is not None:
            check_kept(snapshot.head, self._past.now)
        return snapshot

    def _now(self) -> datetime:
        return read_clock(self._clock) if self._past is None else self._past.now

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
