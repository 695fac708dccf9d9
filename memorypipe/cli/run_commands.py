"""`backfill`, `plan` and `apply`: what runs, and how it ends."""

import os
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from memorypipe.cli.embedder_choice import choose_if_named
from memorypipe.cli.exit_codes import ExitCode, Threshold, exit_code
from memorypipe.cli.guard_choice import commit_settings, guard_settings
from memorypipe.cli.guard_options import BackfillOptions, CommitOptions
from memorypipe.cli.model_choice import LocalModel
from memorypipe.cli.output import Output, WarningsTo
from memorypipe.cli.preflight import check_endpoint, check_key, check_log, is_proxied
from memorypipe.cli.prepare import Prepared, prepare
from memorypipe.cli.progress import ProgressDisplay
from memorypipe.cli.ray_session import ray_session
from memorypipe.cli.render_change import table_option
from memorypipe.cli.run_options import RunOptions
from memorypipe.cli.run_report import report_run
from memorypipe.cli.stage_specs import expression_arguments
from memorypipe.cli.undone_runs import as_it_stands, runs_of
from memorypipe.llm.spec import OFFLINE_MODEL
from memorypipe.pipeline.runs.bounds import make_bounds

if TYPE_CHECKING:  # they import Ray
    from memorypipe.llm.embed.types import Embedder
    from memorypipe.pipeline.pipeline import MemoryPipeline
    from memorypipe.pipeline.plans.plan import Plan
    from memorypipe.pipeline.runs.summary import RunSummary

__all__ = [
    "apply",
    "backfill",
    "check_access",
    "interrupted",
    "plan",
    "read_log",
    "running_pipeline",
]


def backfill(options: BackfillOptions) -> int:
    """Take the memories out of conversation LOGS and commit them: plan and apply in one."""
    return _run(options, guards=guard_settings(options), mirror=options.mirror)


def plan(options: RunOptions) -> int:
    """Show what a backfill of LOGS would change, and keep it for `apply`; nothing is committed."""
    return _run(options, guards=None)


def apply(options: CommitOptions) -> int:
    """Commit a run that was planned."""
    from memorypipe.pipeline.imports.importing import apply_import, is_import  # noqa: PLC0415  # as below
    from memorypipe.pipeline.plans.plan import Plan  # noqa: PLC0415  # imports Arrow

    output = Output(as_json=options.json)
    max_rejected = Threshold.parse("--max-rejected", options.max_rejected)
    max_failed = Threshold.parse("--max-failed", options.max_failed)
    planned = Plan(options.table, options.run)
    embedder = choose_if_named(options.embedder, options.config, os.environ, Path())
    parts_before = len(runs_of(options.table))
    is_partial = options.sample is not None or options.commit_every is not None
    if is_import(planned) and not is_partial:
        summary = apply_import(
            planned,
            embedder=embedder,
            backend=options.backend,
            mirror=options.mirror,
            id_key=options.id_key,
        )
    else:
        summary = _commit(planned, options, embedder)
    summary = as_it_stands(summary, options.table)
    is_new = not planned.summary().committed or len(runs_of(options.table)) > parts_before
    report_run(output, planned, summary, table=options.table, is_new=is_new)
    return exit_code(summary, max_rejected=max_rejected, max_failed=max_failed)


def _commit(
    planned: "Plan", options: CommitOptions, embedder: "Embedder | str | None"
) -> "RunSummary":
    from memorypipe.pipeline.pipeline import MemoryPipeline  # noqa: PLC0415  # imports Ray

    # A commit asks no model, so it does not matter which one this pipeline has.
    pipeline = MemoryPipeline.offline(
        options.table,
        embedder=embedder,
        backend=options.backend,
        mirror=options.mirror,
        id_key=options.id_key,
    )
    return pipeline.apply(planned, **commit_settings(options))


def _run(options: RunOptions, *, guards: dict[str, Any] | None, mirror: str | None = None) -> int:
    """Plan; commit too, under these guards, where there are any."""
    output = Output(as_json=options.json)
    prepared = prepare(options, offline_model=OFFLINE_MODEL)
    prepared = replace(prepared, settings={**prepared.settings, "mirror": mirror})
    make_bounds(**_bounds(options), specs=prepared.specs)
    check_log(options.logs, prepared.reading)
    if options.ray_address is None:  # else the workers have another environment and network
        check_access(prepared)
    planned: Plan | None = None
    try:
        with running_pipeline(options, prepared, output) as pipeline:
            log = read_log(options, prepared)
            planned = pipeline.plan(log, run_id=options.run_id, **prepared.request)
            summary = planned.summary() if guards is None else pipeline.apply(planned, **guards)
    except KeyboardInterrupt as interrupt:
        notes = getattr(interrupt, "__notes__", ())
        return interrupted(output, notes, landed=landed(options.table, planned))
    report_run(output, planned, summary, table=options.table)
    return exit_code(summary, max_rejected=prepared.max_rejected, max_failed=prepared.max_failed)


def landed(table: str, planned: "Plan | None") -> str | None:
    """Say of a run that was interrupted that it is in the table all the same; None: it is not."""
    if planned is None or all(run["run_id"] != planned.run_id for run in runs_of(table)):
        return None
    undo = f"memorypipe undo {planned.run_id}{table_option(table)}"
    return f"Run {planned.run_id} is committed; `{undo}` takes it back."


def check_access(prepared: Prepared) -> None:
    """Check that keys and endpoints are there, before anything slow starts.

    Raises:
        EndpointError: For a key that is not there, or an address where nobody listens.
    """
    for spec in prepared.specs:
        check_key(spec, os.environ)
        by_environment = spec.proxy is None and any(map(is_proxied, spec.urls))
        if not isinstance(prepared.choice, LocalModel) and not by_environment:
            check_endpoint(spec)


@contextmanager
def running_pipeline(
    options: RunOptions, prepared: Prepared, output: Output
) -> Iterator["MemoryPipeline"]:
    """Have a pipeline with all that it needs running: local model, progress, and Ray."""
    with ExitStack() as stack:
        stack.enter_context(WarningsTo(output))
        display = stack.enter_context(ProgressDisplay(output.err))
        if isinstance(prepared.choice, LocalModel):
            display.say("Loading the local model")
            prepared = _with_local_server(stack, prepared, prepared.choice)
        stack.enter_context(
            ray_session(
                options.ray_address,
                is_quiet=not output.debugs,
                on_start=lambda: display.say("Starting Ray"),
            )
        )
        yield _make_pipeline(options, prepared, display)


def _with_local_server(stack: ExitStack, prepared: Prepared, choice: LocalModel) -> Prepared:
    from memorypipe.llm.local import LocalServer  # noqa: PLC0415  # needs an extra

    server = stack.enter_context(LocalServer(choice.path))
    return prepared.at(base_url=server.base_url, model=server.model, defaults=server.params)


def _bounds(options: RunOptions) -> dict[str, Any]:
    return {
        "max_calls": options.max_calls,
        "max_tokens": options.max_total_tokens,
        "max_cost": options.max_cost,
    }


def _make_pipeline(
    options: RunOptions, prepared: Prepared, display: ProgressDisplay
) -> "MemoryPipeline":
    from memorypipe.expressions.build_action import MemoryBuildAction  # noqa: PLC0415  # imports Ray
    from memorypipe.expressions.extract import MemoryExtract  # noqa: PLC0415  # as above
    from memorypipe.pipeline.pipeline import MemoryPipeline  # noqa: PLC0415  # as above

    extract_spec, decide_spec = prepared.extract_spec, prepared.decide_spec
    extract = MemoryExtract(**expression_arguments(extract_spec), **prepared.extract_hint)
    decide = MemoryBuildAction(
        **expression_arguments(decide_spec),
        **prepared.decide_hint,
        fallback_action=prepared.fallback_action,
    )
    return MemoryPipeline(
        table=options.table,
        extract=extract.limited_with(extract_spec.limit_group).options(
            num_workers=prepared.workers
        ),
        decide=decide.limited_with(decide_spec.limit_group).options(num_workers=prepared.workers),
        on_progress=display,
        **_bounds(options),
        **prepared.settings,
    )


def read_log(options: RunOptions, prepared: Prepared) -> Any:
    """Read the log, inside `running_pipeline`."""
    from memorypipe.logs.read import read_conversations  # noqa: PLC0415  # imports Ray

    wants_scope = prepared.request["selection"].takes_scope
    return read_conversations(options.logs, wants_scope=wants_scope, **prepared.reading)


def interrupted(output: Output, notes: Iterable[str] = (), *, landed: str | None = None) -> int:
    """Say how an interrupted command goes on; gives the exit code.

    Args:
        output: Where it is said.
        notes: Of the interrupt.
        landed: What is in the table by now; None: nothing of it.
    """
    left = "What was answered is in the journal; the same command goes on from there."
    message = " ".join(["Interrupted.", landed or left, *notes])
    output.note(message)
    if output.as_json:
        output.result({"status": "stopped", "error": message}, ())
    return ExitCode.INTERRUPTED
