"""`configure`, `optimize`, `vacuum`, `erase` and `unblock`: look after a table."""

import json
import sys
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from datetime import timedelta
from pathlib import Path
from typing import Any

import typer
from rich.text import Text

from memorypipe.cli.exit_codes import ExitCode
from memorypipe.cli.maintenance_options import (
    ConfigureOptions,
    EraseOptions,
    OptimizeOptions,
    UnblockOptions,
    VacuumOptions,
)
from memorypipe.cli.output import Output, counted, plain, shown_scope, shown_size
from memorypipe.cli.table_commands import open_table
from memorypipe.cli.values import parse_scope
from memorypipe.errors import InvalidArgumentError, TableError
from memorypipe.table.erasing.receipt import Receipt, Removed, check_receipt_path, write_receipt
from memorypipe.table.erasing.requests import EraseRequest, read_requests
from memorypipe.table.vacuum import VacuumReport

__all__ = ["configure", "erase", "optimize", "unblock", "vacuum"]

_SHOWN_FILES = 10

# In place of a number of days: what is kept for ever.
_NEVER = "never"


def configure(options: ConfigureOptions) -> int:
    """Change settings of a table; without any, show them."""
    output = Output(as_json=options.json)
    given = {name: getattr(options, name) for name in ("revision_ttl_days", "artifact_ttl_days")}
    changes = {name: _days(name, text) for name, text in given.items() if text is not None}
    table = open_table(options.table)
    is_changed = bool(changes) and table.configure(**changes).outcome == "landed"
    days = {name: getattr(table.settings, name) for name in given}
    status = "done" if is_changed else "unchanged"
    value = {"status": status, "version": table.version, **days, "table": options.table}
    kept = {"superseded revisions": "revision_ttl_days", "artifacts": "artifact_ttl_days"}
    lines = [Text(status, style="bold green" if is_changed else "bold")]
    lines += [
        Text(f"  {what} are kept " + ("for ever" if days[name] is None else f"{days[name]} days"))
        for what, name in kept.items()
    ]
    output.result(value, lines)
    return ExitCode.DONE


def _days(name: str, text: str) -> int | None:
    if text == _NEVER:
        return None
    if not (text.isascii() and text.isdecimal()):
        option = f"--{name.replace('_', '-')}"
        raise InvalidArgumentError(f"{option} {text!r} must be a number of days, or {_NEVER!r}.")
    return int(text)


def optimize(options: OptimizeOptions) -> int:
    """Merge small files and refresh indexes."""
    output = Output(as_json=options.json)
    table = open_table(options.table)
    table.optimize()
    value = {"status": "done", "version": table.version}
    output.result(value, [Text("done", style="green").append("  the table's files are in order")])
    return ExitCode.DONE


def vacuum(options: VacuumOptions) -> int:
    """Drop what has expired and what nobody names."""
    output = Output(as_json=options.json)
    table = open_table(options.table)
    report = table.vacuum(older_than=timedelta(days=options.older_than))
    output.result({"status": "done", **report.to_dict()}, _vacuum_lines(report))
    return ExitCode.DONE


def _vacuum_lines(report: VacuumReport) -> Iterator[Text]:
    went = [
        (report.revisions, "expired revisions"),
        (report.ledgers, "ledger files that no run names"),
        (report.runs, "folders of old runs"),
        (report.batches, "records of old batches"),
        (report.segments, "old journal segments"),
    ]
    yield from _counts("removed", went)
    if report.kept_runs:
        yield Text(f"  kept: {counted(report.kept_runs, 'run')} not committed", style="dim")
    if report.size_before is not None and report.size_after is not None:
        before, after = shown_size(report.size_before), shown_size(report.size_after)
        yield Text(f"  {before} → {after}")


def erase(options: EraseOptions) -> int:
    """Erase scopes, sources or memories everywhere, and write a receipt."""
    output = Output(as_json=options.json)
    requests = _read_requests(options.requests)
    table = open_table(options.table, mirror=options.mirror)
    journals = tuple(options.journal or ())
    if options.dry_run:
        preview = table.preview_erase(requests, journals=journals)
        value = {"status": "preview", "would_remove": asdict(preview)}
        output.result(value, _removed_lines("would remove", preview))
        return ExitCode.DONE
    receipt_path = _receipt_path(options)
    if not options.yes:
        preview = table.preview_erase(requests, journals=journals)
        if not _agrees(output, requests, preview):
            output.note("Nothing was erased.")
            return ExitCode.ERROR
    receipt = table.erase(requests, journals=journals)
    _write(output, receipt_path, receipt.to_dict())
    status = "done" if receipt.is_complete else "incomplete"
    output.result({"status": status, **receipt.to_dict()}, _receipt_lines(receipt, receipt_path))
    return ExitCode.DONE if receipt.is_complete else ExitCode.INCOMPLETE


def _read_requests(name: str) -> list[EraseRequest]:
    try:
        with Path(name).open("rb") as lines:
            return read_requests(lines)
    except OSError as error:
        raise InvalidArgumentError(
            f"--requests {name!r} cannot be read: {error.strerror}."
        ) from error


def _receipt_path(options: EraseOptions) -> Path:
    if options.receipt is None:
        raise InvalidArgumentError(
            "erase needs --receipt FILE for what it did, or --dry-run to see what it would do."
        )
    path = Path(options.receipt)
    check_receipt_path(path, options.table)
    return path


def _agrees(output: Output, requests: Sequence[EraseRequest], preview: Removed) -> bool:
    """Show what would go, and ask; nobody who can be asked is no."""
    if output.as_json or not sys.stdin.isatty():
        raise InvalidArgumentError(
            "What is erased cannot be brought back: look with --dry-run first, then add --yes. "
            "Nothing was erased."
        )
    for line in _removed_lines("would remove", preview):
        output.err.print(line)
    asked = f"Erase it? ({len(requests):,} requests; it cannot be brought back)"
    return typer.confirm(asked, default=False, err=True)


def _write(output: Output, path: Path, value: dict[str, Any]) -> None:
    """Write the receipt; where that fails it must not be lost."""
    try:
        write_receipt(path, value)
    except OSError as error:
        output.note(json.dumps(value, ensure_ascii=False))
        raise TableError(
            f"It is erased, but the receipt cannot be written to {str(path)!r}: {error.strerror}. "
            "It stands above."
        ) from error


def _receipt_lines(receipt: Receipt, path: Path) -> Iterator[Text]:
    yield from _removed_lines("removed", receipt.removed)
    checked = receipt.checked
    yield Text(
        f"  searched {checked.files:,} files ({shown_size(checked.size_bytes)}) byte by byte, "
        f"{checked.tables:,} of them value by value ({checked.rows:,} rows)"
    )
    if receipt.is_complete:
        yield Text.assemble(("  nothing was found again", "green"))
    else:
        yield Text.assemble(("  ! ", "yellow"), f"found again in {len(checked.left):,} files:")
        for each in checked.left[:_SHOWN_FILES]:
            yield Text(f"    {plain(each.path)}")
    if receipt.blocked:
        yield Text(f"  {receipt.blocked:,} scopes stay blocked (memorypipe unblock lifts it)")
    yield Text(f"  receipt: {plain(str(path))}; it lists what is out of reach")


def _removed_lines(verb: str, removed: Removed) -> Iterator[Text]:
    went = [
        (removed.memories, f"memories with {removed.revisions:,} revisions"),
        (removed.ledger_rows, "ledger rows"),
        (removed.replies, "journalled replies"),
        (removed.run_file_rows, f"rows in {removed.run_files:,} files of runs"),
        (removed.batch_lines, "batch requests"),
        (removed.events, "events of streams"),
    ]
    yield from _counts(verb, went)


def _counts(verb: str, went: Sequence[tuple[int, str]]) -> Iterator[Text]:
    told = [f"  {count:>10,}  {what}" for count, what in went if count]
    yield Text(verb if told else f"{verb} nothing", style="bold")
    yield from map(Text, told)


def unblock(options: UnblockOptions) -> int:
    """Let an erased scope take memories in again."""
    output = Output(as_json=options.json)
    scope = parse_scope(options.scope) or {}
    table = open_table(options.table)
    result = table.unblock(scope)
    was_blocked = result.outcome != "nothing"
    said = "takes memories in again" if was_blocked else "was not blocked; nothing was changed"
    value = {"status": "done", "unblocked": was_blocked, "version": result.version}
    output.result(value, [Text(f"{shown_scope(scope)} {said}")])
    return ExitCode.DONE
