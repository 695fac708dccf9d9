"""The vectors of a table: which embedder makes them, and making those that a commit needs."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from memorypipe.errors import InvalidArgumentError, TableError
from memorypipe.llm.embed.resolve import (
    NO_EMBEDDER,
    default_embedder,
    find_local,
    resolve_embedder,
)
from memorypipe.llm.embed.types import Embedder, Matrix
from memorypipe.llm.embed.unit_vectors import embed_texts
from memorypipe.schema import DEFAULT_VECTOR_DIM, table_schema
from memorypipe.table.actions import Batch
from memorypipe.table.records import Head, Settings
from memorypipe.table.vectors import one_chunk

__all__ = ["Revector", "Vectors", "check_given", "check_same", "embedder_of", "new_head"]


def new_head(now: datetime, embedder: Any, vector_dim: int | None) -> Head:
    """Make the head of a new table.

    Args:
        now: Time of creation, UTC.
        embedder: As for `resolve_embedder`; None takes the default, or none where a width is
            given: the vectors are the caller's own then.
        vector_dim: Width; None for the embedder's.

    Raises:
        InvalidArgumentError: For what is no embedder, or has another width.
        ModelError: Where an endpoint does not tell its width.
    """
    if embedder is not None:
        chosen = resolve_embedder(embedder)
    else:
        chosen = default_embedder() if vector_dim is None else None
    if chosen is None:
        dim = DEFAULT_VECTOR_DIM if vector_dim is None else vector_dim
        return Head(number=0, committed_at=now, created_at=now, vector_dim=dim)
    if vector_dim not in (None, chosen.dim):
        raise InvalidArgumentError(
            f"Embedder {chosen.name!r} makes vectors of {chosen.dim} dimensions, not "
            f"{vector_dim!r}; leave vector_dim out."
        )
    settings = Settings(embedder=chosen.name)
    return Head(
        number=0, committed_at=now, created_at=now, vector_dim=chosen.dim, settings=settings
    )


def check_same(embedder: Any, head: Head, uri: str) -> Embedder | None:
    """Check that an embedder is the one that made a table's vectors.

    Args:
        embedder: As for `resolve_embedder`; None asks for nothing.
        head: Of the table.
        uri: Of the table, for the error.

    Raises:
        InvalidArgumentError: If the table's is another.
    """
    if embedder is None:
        return None
    given = resolve_embedder(embedder)
    name = NO_EMBEDDER if given is None else given.name
    stored = head.settings.embedder or NO_EMBEDDER
    if name != stored:
        raise InvalidArgumentError(
            f"The table at {uri!r} has the vectors of embedder {stored!r}, not of {name!r}: they "
            "cannot be compared. Leave embedder out, or move the table over with "
            "table.reembed(…), on the command line with `memorypipe reembed`."
        )
    return given


def embedder_of(given: Embedder | None, head: Head) -> Embedder | None:
    """Find the embedder of a table, given what its caller has; None where it has no vectors.

    Raises:
        TableError: Where the table has one that the caller did not give.
    """
    wanted = head.settings.embedder
    if wanted is None:
        return None
    if given is not None and given.name == wanted:
        return given
    if (local := find_local(wanted)) is not None:
        return local
    raise TableError(
        f"The table's vectors come from embedder {wanted!r}, which was not given: open the table "
        "with embedder=…, on the command line with --embedder. Nothing was changed."
    )


class Vectors:
    """Makes the vectors that one commit needs; none is made twice, however often it is tried.

    Args:
        given: The embedder that the caller gave; None: the table's own, if it is a local one.
    """

    def __init__(self, given: Embedder | None) -> None:
        self._given = given
        self._made_by: str | None = None
        self._rows: dict[str, int] = {}
        self._blocks: list[Matrix] = []

    def fill_rows(self, rows: pa.Table, head: Head) -> pa.Table:
        """Give every live row that has no vector the one of its text.

        Args:
            rows: What a commit puts in, in the table's schema.
            head: Of the commit.

        Returns:
            The rows; as they were where the table has no embedder.

        Raises:
            TableError: Where the table's embedder was not given.
            ModelError: Where the embedder fails.
        """
        if head.settings.embedder is None:
            return rows
        texts = rows["text"].filter(_lacking(rows)).to_pylist()
        embedder = embedder_of(self._given, head) if texts else None
        if embedder is None:
            return rows
        if embedder.dim != head.vector_dim:
            raise TableError(
                f"Embedder {embedder.name!r} makes vectors of {embedder.dim} dimensions; the "
                f"table's have {head.vector_dim}. Nothing was changed."
            )
        self._make(embedder, texts)
        place = rows.schema.get_field_index("vector")
        columns = rows.select(["text", "is_live", "vector"])
        chunks = [self._filled(batch, head.vector_dim) for batch in columns.to_batches()]
        field = rows.schema.field(place)
        return rows.set_column(place, field, pa.chunked_array(chunks, field.type))

    def _filled(self, rows: pa.RecordBatch, dim: int) -> pa.FixedSizeListArray:
        lacking, known = np.asarray(_lacking(rows)), rows["vector"]
        if not lacking.any():
            return known
        matrix = np.zeros((rows.num_rows, dim), np.float32)
        has = np.asarray(pc.is_valid(known))
        if has.any():
            matrix[has] = np.asarray(known.flatten()).reshape(-1, dim)
        matrix[lacking] = self._taken(rows["text"].filter(pa.array(lacking)).to_pylist())
        missing = ~(has | lacking)
        mask = pa.array(missing) if missing.any() else None
        return pa.FixedSizeListArray.from_arrays(pa.array(matrix.ravel()), dim, mask=mask)

    def _make(self, embedder: Embedder, texts: list[str]) -> None:
        if self._made_by != embedder.name:
            # The table has moved to another embedder since the last try.
            self._made_by, self._rows, self._blocks = embedder.name, {}, []
        new = [text for text in dict.fromkeys(texts) if text not in self._rows]
        if new:
            self._blocks.append(embed_texts(embedder, new))
            self._rows |= {text: len(self._rows) + number for number, text in enumerate(new)}

    def _taken(self, texts: list[str]) -> Matrix:
        if len(self._blocks) > 1:
            self._blocks = [np.concatenate(self._blocks)]
        return self._blocks[0][[self._rows[text] for text in texts]]


@dataclass(frozen=True, kw_only=True)
class Revector:
    """Makes the vectors of all rows of a table anew.

    Attributes:
        dim: Width of the new vectors.
        embed: Gives the vectors of texts; None: no row has one any more.
        batch_rows: Rows that a back end has in memory at a time.
    """

    dim: int
    embed: Callable[[Sequence[str]], Matrix] | None
    batch_rows: int

    @property
    def schema(self) -> pa.Schema:
        """Of the new rows."""
        return table_schema(self.dim)

    def apply(self, rows: pa.RecordBatch) -> pa.RecordBatch:
        """Give rows their new vectors: the live ones, as on every commit.

        Args:
            rows: Any rows of a table, all columns; the old vectors need not be among them.

        Returns:
            The same rows, in the new schema.
        """
        schema = self.schema
        nothing = pa.nulls(rows.num_rows, schema.field("vector").type)
        columns = [nothing if name == "vector" else rows[name] for name in schema.names]
        bare = pa.RecordBatch.from_arrays(columns, schema=schema)
        if self.embed is None:
            return bare
        lacking = np.asarray(_lacking(bare))
        matrix = np.zeros((rows.num_rows, self.dim), np.float32)
        if lacking.any():
            matrix[lacking] = self.embed(bare["text"].filter(pa.array(lacking)).to_pylist())
        vectors = pa.FixedSizeListArray.from_arrays(
            pa.array(matrix.ravel()), self.dim, mask=pa.array(~lacking)
        )
        return bare.set_column(schema.get_field_index("vector"), schema.field("vector"), vectors)


def _lacking(rows: pa.Table | pa.RecordBatch) -> Any:
    """Tell which rows need a vector: the live ones that have none, and say something."""
    says = pc.not_equal(pc.utf8_trim_whitespace(rows["text"]), "")
    return pc.and_(pc.and_(rows["is_live"], says), pc.is_null(rows["vector"]))


def check_given(batch: Batch, vector_dim: int) -> None:
    """Check the vectors that actions carry.

    Raises:
        InvalidArgumentError: For one of another width than the table's, or one that holds a null,
            NaN or infinity, or is zero.
    """
    column = one_chunk(batch.actions["vector"])
    rows = np.flatnonzero(np.asarray(pc.is_valid(column)))
    if not len(rows):
        return
    lengths = np.asarray(pc.list_value_length(column).drop_null())
    if len(wrong := np.flatnonzero(lengths != vector_dim)):
        raise InvalidArgumentError(
            f"{_named(batch, rows[wrong[0]])} has a vector of {lengths[wrong[0]]} dimensions; "
            f"the table's have {vector_dim}."
        )
    values = column.flatten()
    # A null becomes NaN.
    matrix = np.asarray(values.to_numpy(zero_copy_only=False)).reshape(len(rows), vector_dim)
    # A square may be too large or too small for a float where the number is not.
    doubt = np.flatnonzero(~_are_sizes(np.einsum("ij,ij->i", matrix, matrix)))
    if len(wrong := doubt[~_are_sizes(np.abs(matrix[doubt]).max(axis=1))]):
        bad = matrix[wrong[0]]
        item = int(np.argmin(np.isfinite(bad)))
        raise InvalidArgumentError(
            f"{_named(batch, rows[wrong[0]])} has a vector that nothing can be compared with: "
            + ("it is zero." if not bad.any() else f"item {item} is {float(bad[item])!r}.")
        )


def _are_sizes(numbers: Any) -> Any:
    return np.isfinite(numbers) & (numbers > 0)


def _named(batch: Batch, row: Any) -> str:
    scope_key, seq = (batch.actions[name][int(row)].as_py() for name in ("scope_key", "seq"))
    return f"Action {seq!r} of scope {scope_key!r}"
