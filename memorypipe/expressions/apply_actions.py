"""`ApplyActions`: the memories after the actions. Pure, no calls."""

from collections.abc import Callable
from functools import partial
from typing import Any, Literal

import pyarrow as pa
from ray.data.expressions import Expr

from memorypipe.cells.apply import apply_cell, rejected_cell
from memorypipe.errors import InvalidArgumentError, InvalidCellError
from memorypipe.expressions.base import Expression
from memorypipe.expressions.results import CellResult

__all__ = ["ApplyActions"]


class ApplyActions(Expression):
    """Apply the actions of a row to its memories.

    The existing order is kept, new memories follow in action order. Ids of new memories are
    provisional: they are unique within the cell and its scope, and the commit to a table returns
    the final ones.

    Args:
        on_rejected: ``"skip"``: an action that cannot hold changes nothing; ``"raise"``.
        on_invalid: ``"raise"``: a cell that cannot be read is an error; ``"null"``: its row
            becomes null, with the status ``invalid_input``.

    Raises:
        InvalidArgumentError: For another choice.

    Example:
        >>> apply = ApplyActions()
        >>> apply(['[{"id": "m1", "text": "Likes tea"}]'], ['{"actions": []}'])[0].as_py()
        '[{"id":"m1","text":"Likes tea"}]'
    """

    _parameters = ("existing", "actions", "facts", "scope")
    _required = 2
    _once = False

    def __init__(
        self,
        *,
        on_rejected: Literal["skip", "raise"] = "skip",
        on_invalid: Literal["raise", "null"] = "raise",
    ) -> None:
        if on_rejected not in {"skip", "raise"}:
            raise InvalidArgumentError(
                f"on_rejected must be 'skip' or 'raise', got {on_rejected!r}."
            )
        if on_invalid not in {"raise", "null"}:
            raise InvalidArgumentError(f"on_invalid must be 'raise' or 'null', got {on_invalid!r}.")
        self._on_rejected = on_rejected
        self._on_invalid = on_invalid

    def with_column(
        self, existing: Any, actions: Any, facts: Any = None, scope: Any = None
    ) -> Expr:
        """Give the Ray Data expression of the memories after the actions.

        Args:
            existing: Column of memories (string): JSON arrays of ``{"id", "text", …}``.
            actions: Column of actions (string), as `MemoryBuildAction` gives them; null leaves
                the memories as they are.
            facts: Column of the facts that the actions came from (string): their `context`
                becomes that of the memory.
            scope: Column of scopes (map, struct or JSON object): part of new ids.

        Returns:
            An expression of type string, in the shape of `existing`.
        """
        return self._with_column(existing, actions, facts, scope)

    def with_status(
        self, existing: Any, actions: Any, facts: Any = None, scope: Any = None
    ) -> Expr:
        """Give the expression of a struct (`STATUS`) instead: the cell, and how it came about."""
        return self._with_status(existing, actions, facts, scope)

    def rejected(self, existing: Any, actions: Any) -> Expr:
        """Give the expression of the actions that cannot hold.

        Returns:
            An expression of type string: JSON arrays of ``{"index", "event", "target_id",
            "reason"}``.
        """
        return self._expr((existing, actions), kind=pa.string(), compute=self._rejected)

    def __call__(
        self, existing: Any, actions: Any, facts: Any = None, scope: Any = None
    ) -> pa.Array:
        """Compute at once, in this process; columns as in `with_column`."""
        return self._values(existing, actions, facts, scope)

    def results(self, *cells: Any) -> list[CellResult]:
        """Compute the cells of these columns, each with its status, in row order."""
        return [self._result(row, number) for number, row in enumerate(self._rows(cells))]

    def _result(self, row: tuple[Any, ...], number: int) -> CellResult:
        existing, actions, facts, scope = row
        return self._guarded(
            lambda: apply_cell(
                existing, actions, facts, scope, row=number, on_rejected=self._on_rejected
            )
        )

    def _rejected(self, *cells: Any) -> pa.Array:
        rows = enumerate(self._rows(cells))
        found = [
            self._guarded(partial(rejected_cell, existing, actions, row=number))
            for number, (existing, actions, *_) in rows
        ]
        return pa.array([result.value for result in found], pa.string())

    def _guarded(self, compute: Callable[[], str | None]) -> CellResult:
        try:
            return CellResult(value=compute(), status="ok")
        except InvalidCellError as error:
            if self._on_invalid == "raise":
                raise
            return CellResult(value=None, status="invalid_input", error=str(error))
