"""`estimate`: what a backfill of a log would take, before anything is paid."""

from memorypipe.cli.exit_codes import ExitCode
from memorypipe.cli.output import Output
from memorypipe.cli.preflight import check_log
from memorypipe.cli.prepare import prepare
from memorypipe.cli.render_estimate import estimate_lines
from memorypipe.cli.run_commands import check_access, interrupted, read_log, running_pipeline
from memorypipe.cli.run_options import EstimateOptions
from memorypipe.errors import InvalidArgumentError
from memorypipe.llm.spec import OFFLINE_MODEL

__all__ = ["estimate"]


def estimate(options: EstimateOptions) -> int:
    """Say what a backfill of LOGS would take; only ``--calibrate`` sends anything."""
    output = Output(as_json=options.json)
    _refuse_bounds(options)
    prepared = prepare(options, offline_model=OFFLINE_MODEL)
    check_log(options.logs, prepared.reading)
    if options.calibrate and options.ray_address is None:
        check_access(prepared)
    try:
        with running_pipeline(options, prepared, output) as pipeline:
            log = read_log(options, prepared)
            made = pipeline.estimate(
                log,
                calibrate=options.calibrate,
                latency_ms=options.latency_ms,
                selection=prepared.request["selection"],
                reprocess=prepared.request["reprocess"],
            )
    except KeyboardInterrupt:
        return interrupted(output)
    output.result(made.to_dict(), estimate_lines(made))
    total = made.conversations + made.rejected_lines
    too_many = prepared.max_rejected.is_exceeded(made.rejected_lines, total)
    return ExitCode.INCOMPLETE if too_many else ExitCode.DONE


def _refuse_bounds(options: EstimateOptions) -> None:
    """Refuse what would not be kept: an estimate is not one of the bounded runs."""
    for name in ("max_calls", "max_total_tokens", "max_cost", "budget"):
        if getattr(options, name) is not None:
            option = "--" + name.replace("_", "-")
            raise InvalidArgumentError(
                f"{option} bounds a run, and an estimate makes none: it sends nothing, or the N "
                f"calls of --calibrate N. Leave {option} out here, and give it to `backfill`."
            )
