"""The only module that touches what is internal to Ray Data.

It gives our expressions three properties that Ray's own user-defined functions lack:

* *Once per row.* `is_idempotent` answers False, so no optimizer rule copies, moves or merges the
  expression, and no row is paid for twice.
* *Worker options ride on the expression.* `PlaceWorkers` finds the projection that holds one of
  our expressions and gives it a pool of workers; without it Ray would reserve a CPU for each
  stage, and two stages on a machine with two CPUs would wait for each other for ever.
* *A limit costs only what it returns.* `PushLimits` moves a limit below our expressions, which
  Ray's own rule refuses because they are not idempotent.

Each behaviour of Ray that this relies on has a test of its own.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from ray.data._internal.compute import ActorPoolStrategy, TaskPoolStrategy
from ray.data._internal.logical.interfaces import LogicalOperator, LogicalPlan, Plan, Rule
from ray.data._internal.logical.operators import Limit, Project
from ray.data._internal.logical.optimizers import get_logical_ruleset
from ray.data._internal.logical.rules import LimitPushdownRule
from ray.data._internal.planner.plan_expression.expression_visitors import (
    _ExprVisitorBase,
    _IdempotencyVisitor,
)
from ray.data.expressions import AliasExpr, BinaryExpr, Expr, UDFExpr, UnaryExpr

from memorypipe.expressions.options import WorkerOptions

__all__ = ["MAX_BLOCKS_IN_HAND", "WorkerExpr", "install_rules"]

# Blocks that one worker holds at once. Many, because a block may be a single row and the requests
# in flight come from all of them together.
MAX_BLOCKS_IN_HAND = 64


@dataclass(frozen=True, eq=False, repr=False)
class WorkerExpr(UDFExpr):
    """A user-defined function that runs on workers of its own, once per row.

    Attributes:
        options: The workers that it wants; None leaves them to Ray.
        once: True where evaluating it again costs money.
    """

    options: WorkerOptions | None
    once: bool = True

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


def _worker_exprs(exprs: Sequence[Expr]) -> list[WorkerExpr]:
    visitor = _WorkerExprs()
    for expr in exprs:
        visitor.visit(expr)
    return visitor.found


def _rewrite(plan: Plan, transform: Callable[[Any], Any]) -> Plan:
    """Rewrite every operator of a plan, inputs first."""
    dag: Any = plan.dag._apply_transform(transform)  # noqa: SLF001  # the only way to do it
    return LogicalPlan(dag=dag, context=plan.context)


class PlaceWorkers(Rule):
    """Gives each projection that holds one of our expressions its own pool of workers."""

    def apply(self, plan: Plan) -> Plan:
        """Rewrite the plan; applying it twice changes nothing."""
        return _rewrite(plan, _place)


def _place(op: LogicalOperator) -> LogicalOperator:
    if not isinstance(op, Project) or not isinstance(op.compute, TaskPoolStrategy):
        return op
    wanted = [e.options for e in _worker_exprs(op.get_all_exprs()) if e.options is not None]
    if not wanted:
        return op
    pool = ActorPoolStrategy(
        size=max(options.num_workers for options in wanted),
        max_tasks_in_flight_per_actor=MAX_BLOCKS_IN_HAND,
        max_concurrent_calls_per_actor=MAX_BLOCKS_IN_HAND,
        enable_true_multi_threading=True,
    )
    num_cpus = max(options.num_cpus for options in wanted)
    return replace(op, compute=pool, ray_remote_args={**op.ray_remote_args, "num_cpus": num_cpus})


class PushLimits(Rule):
    """Moves a limit below a projection whose only obstacle is one of our expressions."""

    @classmethod
    def dependents(cls) -> list[type[Rule]]:
        """Run before Ray's own rule, which then moves the limit on."""
        return [LimitPushdownRule]

    def apply(self, plan: Plan) -> Plan:
        """Rewrite the plan; applying it twice changes nothing."""
        return _rewrite(plan, _push)


def _push(op: LogicalOperator) -> LogicalOperator:
    if not isinstance(op, Limit):
        return op
    project = op.input_dependencies[0]
    if not isinstance(project, Project) or project.is_idempotent() or not _may_move(project):
        return op
    limit = Limit(op.limit, input_dependencies=[project.input_dependencies[0]])
    return replace(project, input_dependencies=[_push(limit)])


class _RowLocal(_IdempotencyVisitor):
    """Whether an expression depends on its own row alone, ours included.

    What is not idempotent and not ours (a row number, say) depends on where the row stands.
    """

    def visit_alias(self, expr: AliasExpr) -> bool:
        return bool(self.visit(expr.expr))

    def visit_unary(self, expr: UnaryExpr) -> bool:
        return bool(self.visit(expr.operand))

    def visit_binary(self, expr: BinaryExpr) -> bool:
        return bool(self.visit(expr.left) and self.visit(expr.right))

    def visit_udf(self, expr: UDFExpr) -> bool:
        return all(self.visit(arg) for arg in [*expr.args, *expr.kwargs.values()])


def _may_move(project: Project) -> bool:
    """Whether ours are the only expressions that a limit must not pass by Ray's rule."""
    return all(_RowLocal().visit(expr) for expr in project.exprs)


def install_rules() -> None:
    """Add our rules to Ray's logical optimizer, once per process."""
    ruleset = get_logical_ruleset()
    for rule in (PushLimits, PlaceWorkers):
        if rule not in set(ruleset):
            ruleset.add(rule)
