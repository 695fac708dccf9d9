"""Our expression inside Ray's expression trees, and how to find it there."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from ray.data._internal.planner.plan_expression.expression_visitors import _ExprVisitorBase
from ray.data.expressions import Expr, UDFExpr

from memorypipe.expressions.options import WorkerOptions

__all__ = ["WorkerExpr", "worker_exprs"]


@dataclass(frozen=True, eq=False, repr=False)
class WorkerExpr(UDFExpr):
    """A user-defined function that runs on workers of its own, once per row.

    Attributes:
        options: The workers that it wants; None leaves them to Ray.
        once: True where evaluating it again costs money.
        block_rows: The rows that a worker should get at a time; None takes blocks as they come.
        begin: What a worker does before it gets rows; what fails then has to fail again, and be
            told, with the first of them.
    """

    options: WorkerOptions | None
    once: bool = True
    block_rows: int | None = None
    begin: Callable[[], None] | None = None

    def is_idempotent(self) -> bool:
        """Tell the optimizer whether it may copy, move or merge this expression."""
        return not self.once and bool(super().is_idempotent())

    def structurally_equals(self, other: Any) -> bool:
        """Compare the function, its arguments and its workers."""
        return (
            isinstance(other, WorkerExpr)
            and self.options == other.options
            and bool(super().structurally_equals(other))
        )


class _WorkerExprs(_ExprVisitorBase):
    """Collects the expressions of ours in a tree."""

    def __init__(self) -> None:
        self.found: list[WorkerExpr] = []

    def visit_column(self, expr: Expr) -> None:
        """Pass by: a column holds no expression."""

    def visit_udf(self, expr: UDFExpr) -> None:
        """Note it where it is ours, and look at its arguments."""
        if isinstance(expr, WorkerExpr):
            self.found.append(expr)
        super().visit_udf(expr)


def worker_exprs(exprs: Sequence[Expr]) -> list[WorkerExpr]:
    """Find the expressions of ours in some trees."""
    visitor = _WorkerExprs()
    for expr in exprs:
        visitor.visit(expr)
    return visitor.found
