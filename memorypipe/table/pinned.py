"""A read that is pinned to one version and can be done piece by piece, anywhere.

For what is larger than memory: exports, and the tasks of a cluster.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

import pyarrow as pa

from memorypipe.table.rows import STATE_COLUMNS, as_of, select_states
from memorypipe.table.storage import Piece, Where

__all__ = ["PinnedRead", "Selection", "share_out"]


@dataclass(frozen=True, kw_only=True)
class Selection:
    """Which rows are read, and which of their columns; it can be pickled.

    Attributes:
        columns: In the order wanted.
        include: Of `memorypipe.table.rows.STATES`.
        now: Decides what has expired, UTC.
        moment: The rows as they stood at this commit time; None: as the version has them.
        where: What the back end need not read.
    """

    columns: tuple[str, ...]
    include: tuple[str, ...]
    now: datetime
    moment: datetime | None
    where: Where

    def read(self, piece: Piece) -> Iterator[pa.Table]:
        """Read the rows of a piece, some at a time, in the order of storage."""
        names = list(dict.fromkeys([*self.columns, *STATE_COLUMNS]))
        if self.moment is not None and "search_text" in names and "text" not in names:
            names.append("text")  # what `as_of` makes it of
        for rows in piece.scan(names, self.where):
            then = rows if self.moment is None else as_of(rows, self.moment)
            chosen = select_states(then, self.include, self.now)
            if chosen.num_rows:
                yield chosen.select(list(self.columns))


@dataclass(frozen=True, kw_only=True)
class PinnedRead:
    """What is read, and the pieces to read it from.

    Attributes:
        version: The table's version.
        embedder: Name of what made the vectors; None: the table has none.
        schema: Of the rows.
        selection: Which rows.
        pieces: Together they hold each row once.
    """

    version: int
    embedder: str | None
    schema: pa.Schema
    selection: Selection
    pieces: tuple[Piece, ...]

    def narrowed(self, columns: Sequence[str]) -> "PinnedRead":
        """Give the same with some of its columns."""
        return replace(
            self,
            schema=pa.schema([self.schema.field(name) for name in columns], self.schema.metadata),
            selection=replace(self.selection, columns=tuple(columns)),
        )

    def tables(self) -> Iterator[pa.Table]:
        """Read all rows, one piece after the other, some rows at a time."""
        for piece in self.pieces:
            yield from self.selection.read(piece)

    def rows(self) -> Iterator[dict[str, Any]]:
        """Read all rows as Python values, some at a time."""
        for table in self.tables():
            yield from table.to_pylist()


def share_out(pieces: Sequence[Piece], shares: int) -> list[tuple[Piece, ...]]:
    """Share pieces out, neighbours together, so that each share has about as many rows.

    Args:
        pieces: In their order; each stays whole.
        shares: At most so many shares; none is empty, unless there are no pieces at all.
    """
    total = sum(piece.num_rows for piece in pieces)
    found: list[list[Piece]] = [[]]
    done = 0
    for piece in pieces:
        if found[-1] and done * shares >= total * len(found):
            found.append([])
        found[-1].append(piece)
        done += piece.num_rows
    return [tuple(each) for each in found]
