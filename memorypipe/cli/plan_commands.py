"""`diff`, `filter` and `compare`: look at plans, and take parts of them."""

from memorypipe.cli.exit_codes import ExitCode
from memorypipe.cli.output import Output
from memorypipe.cli.plan_options import CompareOptions, DiffOptions, FilterOptions
from memorypipe.cli.render_change import table_option
from memorypipe.cli.render_plan import compare_lines, diff_lines, filter_lines
from memorypipe.pipeline.plans.compare import compare as compare_plans
from memorypipe.pipeline.plans.plan import Plan

__all__ = ["compare", "diff", "filter_"]

# A plan may have a million changes.
_SHOWN_ON_TERMINAL, _SHOWN = 100, 1_000


def diff(options: DiffOptions) -> int:
    """Show what a plan changes in its table, and what others have changed there meanwhile."""
    output = Output(as_json=options.json)
    plan = Plan(options.table, options.run)
    found = plan.diff()
    limit = _limit(output, options.limit)
    value = {} if not output.as_json else {**found.to_dict(limit), "table": options.table}
    steps = [] if plan.summary().committed else _steps(plan, options.table)
    rows = [] if output.as_json else found.rows(limit)
    output.result(value, diff_lines(found, rows, next_steps=steps))
    return ExitCode.DONE


def filter_(options: FilterOptions) -> int:
    """Make a plan of its own of the actions for which a condition holds."""
    output = Output(as_json=options.json)
    plan = Plan(options.table, options.run)
    part = plan.filter(options.where, leave_open=options.leave_open)
    filtered = part.manifest["filtered"]
    value = {**part.summary().to_dict(), "filtered": filtered, "table": options.table}
    diff_step = (f"memorypipe diff {part.run_id}{table_option(options.table)}", "look at it")
    steps = [diff_step, *_steps(part, options.table)]
    output.result(value, filter_lines(part.run_id, filtered, next_steps=steps))
    return ExitCode.DONE


def compare(options: CompareOptions) -> int:
    """Match the windows and facts of two plans."""
    output = Output(as_json=options.json)
    found = compare_plans(Plan(options.table, options.run_a), Plan(options.table, options.run_b))
    limit = _limit(output, options.limit)
    value = {**found.to_dict(limit), "table": options.table} if output.as_json else {}
    rows = [] if output.as_json else found.differences(limit)
    output.result(value, compare_lines(found, rows))
    return ExitCode.DONE


def _limit(output: Output, asked: int | None) -> int:
    return asked or (_SHOWN_ON_TERMINAL if output.is_terminal else _SHOWN)


def _steps(plan: Plan, table: str) -> list[tuple[str, str]]:
    return [(f"memorypipe apply {plan.run_id}{table_option(table)}", "commit this plan")]
