"""What all expressions share: options, Ray columns, and computing at once."""

import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from copy import copy
from typing import Any, NamedTuple, Self

import numpy as np
import pandas as pd
import pyarrow as pa
from ray.data.datatype import DataType
from ray.data.expressions import Expr, lit

from memorypipe.errors import InvalidArgumentError
from memorypipe.expressions.options import WorkerOptions
from memorypipe.expressions.ray_exprs import WorkerExpr
from memorypipe.expressions.ray_rules import install_rules
from memorypipe.expressions.results import STATUS, CellResult, status_column, value_column
from memorypipe.expressions.worker_errors import plainly

__all__ = ["CellFunction", "Expression", "Rows", "to_values"]

# One row's cells, in the order of the expression's parameters.
Rows = Sequence[tuple[Any, ...]]


def to_values(column: Any) -> list[Any]:
    """Turn a column into Python values, nulls of every kind into None.

    Args:
        column: An Arrow array, chunked or not, a null array, a pandas Series or any sequence.

    Raises:
        InvalidArgumentError: For a string or a scalar, which is no column.
    """
    if isinstance(column, pa.Array | pa.ChunkedArray):
        return list(column.to_pylist())
    if isinstance(column, str | bytes) or not hasattr(column, "__len__"):
        raise InvalidArgumentError(
            f"A column must be an Arrow array, a pandas Series or a sequence of cells, got "
            f"{type(column).__name__}; wrap a single cell in a list."
        )
    # A pandas column shows a missing cell as the float NaN, which is unequal to itself.
    return [None if isinstance(v, float) and v != v else v for v in column]  # noqa: PLR0124  # the NaN test


class Expression(ABC):
    """An Arrow-column function that becomes a Ray Data expression.

    Subclasses name their parameters and compute rows; everything about Ray is here.
    """

    _parameters: tuple[str, ...]
    _required: int
    _once: bool
    _options: WorkerOptions | None = None

    def options(self, **options: Any) -> Self:
        """Give a copy with other worker options.

        Args:
            **options: `num_workers`: how many workers; an integer or ``{"IO": n}`` for workers
                that reserve no CPU, ``{"CPU": n}`` for workers of one CPU each. `batch_size`:
                rows handed over at a time; it never caps the requests in flight.

        Raises:
            TypeError: For an unknown option; the message names the valid ones.
            InvalidArgumentError: For a value that cannot work.
        """
        changed = copy(self)
        changed._options = WorkerOptions.parse(self._options or WorkerOptions(), options)  # noqa: SLF001  # a copy of our own
        return changed

    @property
    def worker_options(self) -> WorkerOptions:
        """The worker options in force."""
        return self._options or WorkerOptions()

    def _expr(self, cells: Sequence[Any], *, kind: pa.DataType, compute: "Compute") -> Expr:
        """Build the Ray expression of this function over column expressions."""
        install_rules()
        given = self._check_count(cells)
        arguments = {
            name: cell if isinstance(cell, Expr) else lit(cell)
            for name, cell in zip(self._parameters, given, strict=False)
        }
        function = CellFunction(compute, name=type(self).__name__, kind=kind)
        return WorkerExpr(
            fn=function,
            args=[],
            kwargs=arguments,
            data_type=DataType.from_arrow(kind),
            options=self._options,
            once=self._once,
            block_rows=self._block_rows(),
            begin=self._begin(),
        )

    def _block_rows(self) -> int | None:
        """Say how many rows a worker should get at a time; None takes blocks as they come."""
        return None

    def _begin(self) -> Callable[[], None] | None:
        """Say what a worker does before it has rows, which raises nothing; None for nothing."""
        return None

    def _check_count(self, cells: Sequence[Any]) -> Sequence[Any]:
        while len(cells) > self._required and cells[-1] is None:
            cells = cells[:-1]
        if not self._required <= len(cells) <= len(self._parameters):
            raise TypeError(
                f"{type(self).__name__} takes the columns {', '.join(self._parameters)} (the "
                f"first {self._required} are required), got {len(cells)}."
            )
        return cells

    def _rows(self, cells: Sequence[Any]) -> list[tuple[Any, ...]]:
        """Line columns up as rows; parameters that were not given are None."""
        columns = [to_values(cell) for cell in self._check_count(cells)]
        lengths = {len(column) for column in columns}
        if len(lengths) != 1:
            raise InvalidArgumentError(
                f"Columns must have one length, got {[len(c) for c in columns]!r} for "
                f"{', '.join(self._parameters[: len(columns)])}."
            )
        missing = (None,) * (len(self._parameters) - len(columns))
        return [(*row, *missing) for row in zip(*columns, strict=True)]

    @abstractmethod
    def results(self, *cells: Any) -> list[CellResult]:
        """Compute the cells of these columns, each with its status, in row order."""

    def _values(self, *cells: Any) -> pa.Array:
        return value_column(self.results(*cells))

    def _statuses(self, *cells: Any) -> pa.Array:
        return status_column(self.results(*cells))

    def _with_column(self, *cells: Any) -> Expr:
        return self._expr(cells, kind=pa.string(), compute=self._values)

    def _with_status(self, *cells: Any) -> Expr:
        return self._expr(cells, kind=STATUS, compute=self._statuses)


Compute = Callable[..., pa.Array]


class CellFunction:
    """The function that Ray calls with whole blocks; picklable.

    Ray evaluates an unnested struct once per field. The answer to the block in hand is therefore
    kept, per thread, and given again for the very same Arrow buffers.
    """

    def __init__(self, compute: Compute, *, name: str, kind: pa.DataType) -> None:
        self.__name__ = name
        self._compute = compute
        self._keep = pa.types.is_struct(kind)
        # By thread, and no `threading.local`: Ray ends its threads without Python's knowledge,
        # and freeing what they hold then brings the worker down.
        self._last: dict[int, _Answered] = {}

    def __getstate__(self) -> dict[str, Any]:
        return {**vars(self), "_last": {}}

    def __call__(self, **cells: Any) -> pa.Array:
        """Compute one block; literals among the columns hold for every row."""
        length = max(len(cell) for cell in cells.values() if _is_column(cell))
        key = [_identity(cell) for cell in cells.values()]
        columns = [cell if _is_column(cell) else [cell] * length for cell in cells.values()]
        with plainly():
            return self._answer(key, columns) if self._keep else self._compute(*columns)

    def _answer(self, key: list[Any], columns: list[Any]) -> pa.Array:
        last = self._last.get(threading.get_ident())
        if last is None or last.key != key:
            last = _Answered(key, columns, self._compute(*columns))
            self._last[threading.get_ident()] = last
        return last.answer


class _Answered(NamedTuple):
    """A block that was computed."""

    key: list[Any]
    columns: list[Any]  # kept: while they live, no other block can have their buffers
    answer: pa.Array


def _is_column(cell: Any) -> bool:
    """Whether Ray gave a column; anything else is a literal that holds for every row."""
    return isinstance(cell, pa.Array | pa.ChunkedArray | pd.Series | np.ndarray)


def _identity(column: Any) -> Any:
    """Name the memory that a column stands in, or the value of a literal."""
    if isinstance(column, pa.ChunkedArray):
        return tuple(_identity(chunk) for chunk in column.chunks)
    if isinstance(column, pa.Array):
        addresses = tuple(buffer.address if buffer else 0 for buffer in column.buffers())
        return (len(column), column.offset, addresses)
    return id(column) if _is_column(column) else repr(column)
