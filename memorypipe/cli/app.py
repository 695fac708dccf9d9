"""The commands and their names; what they do is imported when they are called."""

import importlib
from collections.abc import Callable
from typing import Annotated, Any

import typer

from memorypipe.cli.audit_options import AuditOptions
from memorypipe.cli.change_options import (
    ForgetOptions,
    RestoreOptions,
    SearchOptions,
    UndoOptions,
)
from memorypipe.cli.consolidate_options import ConsolidateOptions
from memorypipe.cli.doctor_options import DoctorOptions
from memorypipe.cli.guard_options import BackfillOptions, CommitOptions
from memorypipe.cli.help import GroupedCommand
from memorypipe.cli.journal_options import JournalCompactOptions, JournalShowOptions
from memorypipe.cli.maintenance_options import (
    ConfigureOptions,
    EraseOptions,
    OptimizeOptions,
    UnblockOptions,
    VacuumOptions,
)
from memorypipe.cli.options import (
    DEFAULT_TABLE,
    HistoryOptions,
    JsonOption,
    RunsOptions,
    RunsShowOptions,
    ShowOptions,
    TableOption,
    as_command,
)
from memorypipe.cli.plan_options import CompareOptions, DiffOptions, FilterOptions
from memorypipe.cli.reembed_options import ReembedOptions
from memorypipe.cli.report_options import ReportOptions
from memorypipe.cli.run_options import EstimateOptions, RunOptions
from memorypipe.cli.stream_options import FlushOptions, IngestOptions
from memorypipe.cli.transfer_options import ExportOptions, ImportOptions, VerifyOptions
from memorypipe.errors import InvalidArgumentError

__all__ = ["app"]

app = typer.Typer(
    name="memorypipe",
    help="Turn conversation logs into a memory table for AI agents.",
    epilog="Begin with: memorypipe backfill LOGS --offline, then: memorypipe show",
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)
_runs = typer.Typer(help="What ran, and what stayed open.", rich_markup_mode=None)
_journal = typer.Typer(
    help="The journal of replies: what is in it, and making it smaller.", rich_markup_mode=None
)


def _lazy(module: str, name: str, help_text: str) -> Callable[[Any], int]:
    """Give a function that imports the one that does the work when it is called.

    Ray, Arrow and Lance take seconds to import: neither the help nor another command waits.
    """

    def run(options: Any) -> int:
        work: Callable[[Any], int] = getattr(importlib.import_module(module), name)
        return work(options)

    run.__doc__ = help_text
    return run


def _add(
    group: typer.Typer, name: str, options: type[Any], where: tuple[str, str], help_text: str
) -> None:
    group.command(name, cls=GroupedCommand, help=help_text, short_help=help_text)(
        as_command(_lazy(*where, help_text), options)
    )


_STREAMS = "memorypipe.cli.stream_commands"
_RUN = "memorypipe.cli.run_commands"
_PLAN = "memorypipe.cli.plan_commands"
_TABLE = "memorypipe.cli.table_commands"
_RUNS = "memorypipe.cli.runs_commands"
_CHANGE = "memorypipe.cli.change_commands"
_TRANSFER = "memorypipe.cli.transfer_commands"
_JOURNAL = "memorypipe.cli.journal_commands"
_MAINTENANCE = "memorypipe.cli.maintenance_commands"

_add(
    app,
    "backfill",
    BackfillOptions,
    (_RUN, "backfill"),
    "Take the memories out of conversation LOGS and commit them: plan and apply in one.",
)
_add(
    app,
    "plan",
    RunOptions,
    (_RUN, "plan"),
    "Show what a backfill of LOGS would change, and keep it for apply. Commits nothing.",
)
_add(
    app,
    "estimate",
    EstimateOptions,
    ("memorypipe.cli.estimate_command", "estimate"),
    "Say what a backfill of LOGS would take: calls, tokens, cost and time. Sends nothing.",
)
_add(
    app,
    "diff",
    DiffOptions,
    (_PLAN, "diff"),
    "Show what a planned run changes, and what others have changed in the table meanwhile.",
)
_add(
    app,
    "filter",
    FilterOptions,
    (_PLAN, "filter_"),
    "Make a plan of its own of some actions of a planned run. Commits nothing.",
)
_add(
    app,
    "compare",
    CompareOptions,
    (_PLAN, "compare"),
    "Match the windows and facts of two planned runs, of two models say.",
)
_add(app, "apply", CommitOptions, (_RUN, "apply"), "Commit a run that was planned.")
_add(
    app,
    "ingest",
    IngestOptions,
    (_STREAMS, "ingest"),
    "Store events of streams, from a FILE of requests; memories are made of them by flush.",
)
_add(
    app,
    "flush",
    FlushOptions,
    (_STREAMS, "flush"),
    "Make memories of all streams whose trigger is met, in one run, and say what was due and why.",
)
_add(app, "show", ShowOptions, (_TABLE, "show"), "Show the memories of a table, scope by scope.")
_add(
    app,
    "history",
    HistoryOptions,
    (_TABLE, "history"),
    "Show all revisions of one memory, oldest first: what happened, when and why.",
)
_add(
    app,
    "search",
    SearchOptions,
    (_CHANGE, "search"),
    "Find the memories of a scope that fit QUERY best.",
)
_add(
    app,
    "undo",
    UndoOptions,
    (_CHANGE, "undo"),
    "Take back what a run did, as a run that can be undone in turn; without RUN, list runs.",
)
_add(
    app,
    "forget",
    ForgetOptions,
    (_CHANGE, "forget"),
    "Delete memories so that the same evidence does not bring them back.",
)
_add(
    app,
    "restore",
    RestoreOptions,
    (_CHANGE, "restore"),
    "Bring a deleted or forgotten memory back as it was last.",
)
_add(
    app,
    "reembed",
    ReembedOptions,
    ("memorypipe.cli.reembed_command", "reembed"),
    "Give all memories the vectors of another embedder, in one commit.",
)
_add(
    app,
    "export",
    ExportOptions,
    (_TRANSFER, "export"),
    "Write the memories of a table to one plain Parquet or JSON lines file.",
)
_add(
    app,
    "import",
    ImportOptions,
    (_TRANSFER, "import_"),
    "Show what taking over the export PATH of another store would change, and keep it for apply.",
)
_add(
    app,
    "verify",
    VerifyOptions,
    (_TRANSFER, "verify"),
    "Prove an import: say which records of an export are in the table, and why others are not.",
)
_add(
    app,
    "doctor",
    DoctorOptions,
    ("memorypipe.cli.doctor_command", "doctor"),
    "Check endpoint, model, embedder, table, journal, versions and disk, with the next step.",
)
_add(
    app,
    "configure",
    ConfigureOptions,
    (_MAINTENANCE, "configure"),
    "Change how long a table keeps revisions and artifacts; without options, show it.",
)
_add(
    app,
    "report",
    ReportOptions,
    ("memorypipe.cli.report_command", "report"),
    "Write a run as one page for any browser: changes, calls, cost, failures, settings.",
)
_add(
    app,
    "audit",
    AuditOptions,
    ("memorypipe.cli.audit_command", "audit"),
    "Find duplicates, contradictions, orphans and junk in a table. Changes nothing.",
)
_add(
    app,
    "consolidate",
    ConsolidateOptions,
    ("memorypipe.cli.consolidate_command", "consolidate"),
    "Show what deciding again over a table's memories would change, and keep it for apply.",
)
_add(
    app,
    "optimize",
    OptimizeOptions,
    (_MAINTENANCE, "optimize"),
    "Merge a table's small files and refresh its indexes. Readers and writers may go on.",
)
_add(
    app,
    "vacuum",
    VacuumOptions,
    (_MAINTENANCE, "vacuum"),
    "Drop expired revisions, files that nothing names, and the artifacts of old runs.",
)
_add(
    app,
    "erase",
    EraseOptions,
    (_MAINTENANCE, "erase"),
    "Remove scopes, sources or memories for good, everywhere, and write a receipt.",
)
_add(
    app,
    "unblock",
    UnblockOptions,
    (_MAINTENANCE, "unblock"),
    "Let an erased scope take memories in again.",
)
_add(
    _runs,
    "show",
    RunsShowOptions,
    (_RUNS, "show_run"),
    "Show one run: its numbers, its changes, and the windows that stay open.",
)
app.add_typer(_runs, name="runs")
_add(
    _journal,
    "show",
    JournalShowOptions,
    (_JOURNAL, "show"),
    "Show what lies in a journal: replies, segments, size, models.",
)
_add(
    _journal,
    "compact",
    JournalCompactOptions,
    (_JOURNAL, "compact"),
    "Merge the segments of a journal; leave out what no run can use. Runs may go on meanwhile.",
)
app.add_typer(_journal, name="journal")


def _print_version(is_wanted: bool) -> None:  # noqa: FBT001  # the signature of an option's callback
    if is_wanted:
        from importlib.metadata import version  # noqa: PLC0415  # slow, and for this option alone

        typer.echo(f"memorypipe {version('memorypipe')}")
        raise typer.Exit


@app.callback()
def _top(
    *,
    _version: Annotated[
        bool,
        typer.Option(
            "--version", callback=_print_version, is_eager=True, help="Print the version."
        ),
    ] = False,
) -> None:
    """Turn conversation logs into a memory table for AI agents."""


@_runs.callback(invoke_without_command=True)
def _list_runs(
    context: typer.Context, *, table: TableOption = DEFAULT_TABLE, json: JsonOption = False
) -> int:
    """What ran, and what stayed open."""
    command = context.invoked_subcommand
    if command is None:
        return _lazy(_RUNS, "list_runs", "")(RunsOptions(table=table, json=json))
    for name in ("table", "json"):
        if _is_given(context, name):
            raise InvalidArgumentError(f"Put --{name} after `{command}`, not before it.")
    return 0


def _is_given(context: typer.Context, name: str) -> bool:
    source = context.get_parameter_source(name)
    return source is not None and source.name == "COMMANDLINE"
