"""`consolidate`: decide again over what is in a table."""

from typing import Any

from memorypipe.cli.consolidate_options import run_options
from memorypipe.cli.exit_codes import exit_code
from memorypipe.cli.output import Output
from memorypipe.cli.prepare import prepare
from memorypipe.cli.run_commands import check_access, interrupted, running_pipeline
from memorypipe.cli.run_report import report_run
from memorypipe.cli.table_commands import open_table
from memorypipe.cli.values import parse_scope
from memorypipe.llm.spec import OFFLINE_MODEL

__all__ = ["consolidate"]


def consolidate(options: Any) -> int:
    """Plan to put in order what is alike; with --yes, commit the plan.

    Args:
        options: `memorypipe.cli.consolidate_options.ConsolidateOptions`.
    """
    output = Output(as_json=options.json)
    run = run_options(options)
    scope = parse_scope(options.scope or [])
    prepared = prepare(run, offline_model=OFFLINE_MODEL)
    open_table(options.table)
    if options.ray_address is None:  # else the workers have another environment and network
        check_access(prepared)
    try:
        with running_pipeline(run, prepared, output) as pipeline:
            planned = pipeline.consolidate(scope=scope, again=options.again, run_id=options.run_id)
            summary = pipeline.apply(planned) if options.yes else planned.summary()
    except KeyboardInterrupt as interrupt:
        return interrupted(output, getattr(interrupt, "__notes__", ()))
    report_run(output, planned, summary, table=options.table)
    return exit_code(summary, max_rejected=prepared.max_rejected, max_failed=prepared.max_failed)
