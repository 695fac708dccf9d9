"""`report`: a run as one page."""

from collections import Counter
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pyarrow as pa
from rich.text import Text

from memorypipe.cli.exit_codes import ExitCode
from memorypipe.cli.output import Output, plain, shown_size
from memorypipe.cli.report_options import ReportOptions
from memorypipe.cli.report_page import RunPage, run_page
from memorypipe.errors import InvalidArgumentError, PlanError
from memorypipe.pipeline.plans.changes import PLAN_CHANGES, plan_changes
from memorypipe.pipeline.plans.plan import Plan
from memorypipe.pipeline.runs.folder import OPEN_WINDOWS, RunFolder
from memorypipe.table.run_status import shown_status
from memorypipe.table.times import now_utc

__all__ = ["report"]

_SHOWN_WINDOWS = 200


def report(options: ReportOptions) -> int:
    """Write a run as one page that needs no network."""
    output = Output(as_json=options.json)
    page = run_page(_page(options))
    path = Path(options.html)
    try:
        path.write_text(page, encoding="utf-8")
    except OSError as error:
        raise InvalidArgumentError(
            f"--html {options.html!r} cannot be written: {error.strerror}."
        ) from error
    size = path.stat().st_size
    value = {"status": "done", "run_id": options.run, "html": options.html, "size_bytes": size}
    line = Text.assemble(
        ("written", "bold green"),
        f"  {plain(options.html)} ({shown_size(size)}); any browser shows it",
    )
    output.result(value, [line])
    return ExitCode.DONE


def _page(options: ReportOptions) -> RunPage:
    folder = RunFolder.of(options.table, options.run)
    now = now_utc()
    record = folder.read_json("run")
    try:
        plan = Plan(options.table, options.run)
        changes, opened = plan_changes(plan.actions()), plan.open_windows()
        manifest: dict[str, Any] = plan.manifest
    except PlanError:  # it has not come to its end
        changes, opened, manifest = PLAN_CHANGES.empty_table(), OPEN_WINDOWS.empty_table(), {}
    has_texts = options.changes > 0
    return RunPage(
        record={**record, "status": shown_status(record, now)},
        manifest=manifest,
        changes=changes.slice(0, options.changes).to_pylist(),
        counts=_counts(changes),
        opened=opened.slice(0, _SHOWN_WINDOWS if has_texts else 0).to_pylist(),
        open_total=opened.num_rows,
        reasons=Counter(opened["reason"].to_pylist()),
        table=options.table,
        made_at=now.strftime("%Y-%m-%d %H:%M UTC"),
        made_by=version("memorypipe"),
    )


def _counts(changes: pa.Table) -> dict[str, dict[str, int]]:
    grouped = changes.group_by(["scope_key", "event"]).aggregate([([], "count_all")])
    counts: dict[str, dict[str, int]] = {}
    for row in grouped.to_pylist():
        counts.setdefault(row["scope_key"], {})[row["event"]] = row["count_all"]
    return counts
