"""Rules for Ray Data's optimizers; with its neighbours `ray_*` all that touches Ray's internals.

They give our expressions properties that Ray's own user-defined functions lack:

* *Once per row.* `is_idempotent` answers False, so no optimizer rule copies, moves or merges the
  expression, and no row is paid for twice.
* *Worker options ride on the expression.* `PlaceWorkers` finds the projection that holds one of
  our expressions and gives it a pool of workers; without it Ray would reserve a CPU for each
  stage, and two stages on a machine with two CPUs would wait for each other for ever.
* *A limit costs only what it returns.* `PushLimits` moves a limit below our expressions, which
  Ray's own rule refuses because they are not idempotent.
* *Blocks of a size that suits a worker*: `ray_blocks.CutBlocks`.

Each behaviour of Ray that this relies on has a test of its own.
"""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from ray.data._internal.compute import ActorPoolStrategy, TaskPoolStrategy
from ray.data._internal.logical.interfaces import LogicalOperator, LogicalPlan, Plan, Rule
from ray.data._internal.logical.operators import Limit, Project
from ray.data._internal.logical.optimizers import get_logical_ruleset, get_physical_ruleset
from ray.data._internal.logical.rules import LimitPushdownRule
from ray.data._internal.planner.plan_expression.expression_visitors import _IdempotencyVisitor
from ray.data.expressions import AliasExpr, BinaryExpr, UDFExpr, UnaryExpr

from memorypipe.expressions.ray_blocks import CutBlocks
from memorypipe.expressions.ray_exprs import worker_exprs

__all__ = ["MAX_BLOCKS_IN_HAND", "install_rules"]

# Blocks that one worker holds at once. Many, because a block may be a single row and the requests
# in flight come from all of them together.
MAX_BLOCKS_IN_HAND = 64


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
    wanted = [e.options for e in worker_exprs(op.get_all_exprs()) if e.options is not None]
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
    """Add our rules to Ray's optimizers, once per process."""
    logical, physical = get_logical_ruleset(), get_physical_ruleset()
    for ruleset, rule in ((logical, PushLimits), (logical, PlaceWorkers), (physical, CutBlocks)):
        if rule not in set(ruleset):
            ruleset.add(rule)
