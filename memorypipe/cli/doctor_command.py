"""`doctor`: whether all that a run needs is there, and what to do where it is not."""

import os
from collections.abc import Iterator
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from memorypipe.cli.doctor_endpoint import check_address, check_models, check_replies
from memorypipe.cli.doctor_machine import check_disk, check_versions, supported
from memorypipe.cli.doctor_options import names_model, run_options
from memorypipe.cli.doctor_report import Finding, doctor_lines, fail, good, skip
from memorypipe.cli.doctor_table import (
    check_embedder,
    check_journal_health,
    check_runs,
    check_table,
)
from memorypipe.cli.embedder_choice import choose_if_named
from memorypipe.cli.exit_codes import ExitCode
from memorypipe.cli.model_choice import LocalModel
from memorypipe.cli.output import Output
from memorypipe.cli.prepare import Prepared, prepare
from memorypipe.cli.stage_specs import expression_arguments
from memorypipe.errors import InvalidArgumentError
from memorypipe.llm.spec import OFFLINE_MODEL, ModelSpec
from memorypipe.llm.stage import Outcome
from memorypipe.table.times import now_utc

__all__ = ["doctor"]

_LONGEST_TRY_S = 60


def doctor(options: Any) -> int:
    """Look at everything, and end with exit code 1 where anything is wrong.

    Args:
        options: `memorypipe.cli.doctor_options.DoctorOptions`.
    """
    output = Output(as_json=options.json)
    findings = [
        *check_versions(supported()),
        *check_disk(options.table),
        *_table_findings(options),
        *_model_findings(options),
    ]
    failed = any(finding.state == "fail" for finding in findings)
    value = {
        "status": "failed" if failed else "done",
        "checks": [asdict(finding) for finding in findings],
        "table": options.table,
    }
    output.result(value, doctor_lines(findings))
    return ExitCode.ERROR if failed else ExitCode.DONE


def _table_findings(options: Any) -> Iterator[Finding]:
    yield from check_table(options.table)
    try:
        embedder = choose_if_named(options.embedder, options.config, os.environ, Path())
    except InvalidArgumentError as error:
        yield fail("embedder", str(error), "Correct --embedder.")
    else:
        yield from check_embedder(options.table, embedder, asks=options.ask)
    yield from check_journal_health(options.journal or str(Path(options.table) / "journal"))
    yield from check_runs(options.table, now=now_utc())


def _model_findings(options: Any) -> Iterator[Finding]:
    try:
        prepared = prepare(run_options(options), offline_model=OFFLINE_MODEL)
    except InvalidArgumentError as error:
        if names_model(options):
            yield fail("endpoint", str(error), "Correct the options.")
        else:
            step = "Name it as for backfill: --model and --base-url, --endpoint, or --offline."
            yield skip("endpoint", "no model is named", step)
        return
    if isinstance(prepared.choice, LocalModel):
        yield good("endpoint", "a local model: the run starts its server")
        return
    for spec in prepared.specs:
        found = list(check_address(spec, os.environ))
        yield from found
        is_away = any((each.check, each.state) == ("endpoint", "fail") for each in found)
        if len(spec.urls) > 1 or not is_away:  # of several, others may answer
            yield from check_models(spec, os.environ)
        yield from check_replies(spec, _question(prepared, spec) if options.ask else None)


def _question(prepared: Prepared, spec: ModelSpec) -> Any:
    """Give what asks a model for one short decision: no retries, nothing kept."""

    def ask() -> Outcome[Any]:
        from memorypipe.expressions.build_action import (  # noqa: PLC0415  # imports Ray
            DecideWork,
            MemoryBuildAction,
        )
        from memorypipe.llm.types import Fact  # noqa: PLC0415  # as above
        from memorypipe.llm.worker import get_worker  # noqa: PLC0415  # as above

        once = replace(spec, max_retries=0, params={"timeout": _LONGEST_TRY_S, **spec.params})
        decide = MemoryBuildAction(**expression_arguments(once), **prepared.decide_hint)
        task = DecideWork(facts=[Fact(text="Owns a cat")], existing=[])
        [outcome] = get_worker(decide.spec).run(decide.stage, [task])
        return outcome

    return ask
