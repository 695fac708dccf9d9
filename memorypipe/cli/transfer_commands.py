"""`export`, `import` and `verify`: move memories out of a table and into one."""

import os
from dataclasses import asdict
from pathlib import Path

from rich.text import Text

from memorypipe.cli.embedder_choice import choose_if_named
from memorypipe.cli.exit_codes import ExitCode, Threshold, exit_code
from memorypipe.cli.output import Output, plain
from memorypipe.cli.render_import import verify_lines
from memorypipe.cli.run_report import report_run
from memorypipe.cli.table_commands import open_table
from memorypipe.cli.transfer_options import (
    ExportOptions,
    ImportOptions,
    MappingOptions,
    VerifyOptions,
)
from memorypipe.cli.values import parse_fields, parse_names, parse_scope, parse_scope_columns
from memorypipe.errors import InvalidArgumentError, PlanError
from memorypipe.pipeline.imports.importing import apply_import, plan_import
from memorypipe.pipeline.imports.mapping import ImportMapping, make_mapping
from memorypipe.pipeline.imports.verify import verify_import
from memorypipe.pipeline.runs.folder import RunFolder
from memorypipe.table.transfer_export import EXPORT_FORMATS

__all__ = ["export", "import_", "verify"]

_NO_WINDOWS = Threshold(count=0)


def export(options: ExportOptions) -> int:
    """Write the rows of a table to one plain file."""
    output = Output(as_json=options.json)
    form = options.format or _format_of(options.out)
    scope = parse_scope(options.scope or [])
    table = open_table(options.table)
    done = table.export(options.out, form, live=not options.history, scope=scope)
    rows = f"{done.rows:,} {'revisions' if options.history else 'memories'}"
    line = Text.assemble(
        ("exported", "bold green"), f"  {rows} of version {done.version} to {plain(done.path)}"
    )
    output.result({**asdict(done), "history": options.history, "table": options.table}, [line])
    return ExitCode.DONE


def _format_of(path: str) -> str:
    ending = Path(path).suffix.removeprefix(".")
    if ending not in EXPORT_FORMATS:
        raise InvalidArgumentError(
            f"--out {path!r} does not tell the format; add --format {' or '.join(EXPORT_FORMATS)}, "
            "or end the name in .parquet or .jsonl."
        )
    return ending


def import_(options: ImportOptions) -> int:
    """Plan to take another store's memories over; with --yes, commit the plan."""
    output = Output(as_json=options.json)
    max_rejected = Threshold.parse("--max-rejected", options.max_rejected)
    mapping = _mapping(options)
    embedder = choose_if_named(options.embedder, options.config, os.environ, Path())
    if options.run_id is not None:
        try:
            RunFolder.of(options.table, options.run_id)
        except PlanError as error:
            raise InvalidArgumentError(f"--run-id: {error}") from error
    planned = plan_import(
        options.table,
        options.path,
        mapping,
        vectors_by=options.vectors_by,
        update=options.update,
        backend=options.backend,
        id_key=options.id_key,
        run_id=options.run_id,
    )
    summary = planned.summary()
    if options.yes:
        summary = apply_import(
            planned, embedder=embedder, mirror=options.mirror, id_key=options.id_key
        )
    report_run(output, planned, summary, table=options.table)
    return exit_code(summary, max_rejected=max_rejected, max_failed=_NO_WINDOWS)


def verify(options: VerifyOptions) -> int:
    """Compare a table with the export that was imported into it."""
    output = Output(as_json=options.json)
    found = verify_import(open_table(options.table), options.against, _mapping(options))
    value = {
        "status": "complete" if found.is_complete else "incomplete",
        **asdict(found),
        "table": options.table,
    }
    output.result(value, verify_lines(found, path=options.against, table=options.table))
    if not found.is_complete:
        output.error(
            f"{found.missing + found.differs} of {found.records} records of {options.against!r} "
            "are not in the table; `memorypipe import` adds what is missing and changes nothing "
            "else."
        )
        return ExitCode.HELD
    return ExitCode.INCOMPLETE if found.rejected else ExitCode.DONE


def _mapping(options: MappingOptions) -> ImportMapping:
    return make_mapping(
        options.source,
        fields=parse_fields(options.map or []),
        scope=parse_scope_columns(options.scope or []),
        scope_keys=parse_names("--scope-keys", options.scope_keys) if options.scope_keys else None,
        keep=parse_names("--keep", options.keep or []),
        store=options.store,
    )
