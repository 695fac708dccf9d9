"""An import, and the proof of one, as text for people. Pure."""

import shlex
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from rich.text import Text

from memorypipe.cli.options import DEFAULT_TABLE
from memorypipe.cli.output import counted, plain
from memorypipe.cli.render_run import change_lines
from memorypipe.pipeline.imports.mapping import make_mapping
from memorypipe.pipeline.imports.verify import Verification
from memorypipe.pipeline.runs.summary import RunSummary

__all__ = ["import_lines", "import_steps", "verify_lines"]

_SHOWN_ABSENT = 10


def import_lines(
    summary: RunSummary,
    changes: Sequence[Mapping[str, Any]],
    manifest: Mapping[str, Any],
    *,
    table: str,
    next_steps: Sequence[tuple[str, str]],
) -> Iterator[Text]:
    """Show what an import does, or did.

    Args:
        summary: Its numbers.
        changes: Changes to show, of all that there are.
        manifest: `source`, `records`, `skipped` and `vectors_left_out` of its plan.
        table: Where the memories are.
        next_steps: Commands to try, each with what it does.
    """
    style = {"done": "bold green", "planned": "bold cyan"}.get(summary.status, "bold yellow")
    yield Text.assemble((summary.status, style), f"  {summary.run_id}")
    source = manifest["source"]
    path = plain(str(source["path"]))
    records = f"{path} ({source['source']}) · {counted(manifest['records'], 'record')}"
    yield Text.assemble(("  export    ", "dim"), records)
    line = Text("").append("  memories  ", style="dim")
    line.append(f"+ {summary.added:,} added", style="green" if summary.added else "dim")
    line.append(f"   ~ {summary.updated:,} updated", style="yellow" if summary.updated else "dim")
    yield line.append(f"   {summary.none:,} already here", style="dim")
    if skipped := manifest["skipped"]:
        told = ", ".join(f"{count:,} {why}" for why, count in sorted(skipped.items()))
        yield Text.assemble(("  left out  ", "dim"), f"{told} where they come from")
    if left_out := manifest.get("vectors_left_out"):
        yield Text.assemble(
            ("  vectors   ", "dim"),
            f"{left_out:,} are not taken over: the table's come from elsewhere (--vectors-by)",
        )
    yield Text.assemble(("  table     ", "dim"), table)
    if changes:
        yield Text("")
        yield from change_lines(changes)
        total = summary.added + summary.updated
        if total > len(changes):
            yield Text(f"    … {total - len(changes):,} more", style="dim")
    if summary.rejected_lines:
        folder = f"{table.rstrip('/')}/runs/{summary.run_id}"
        yield Text("")
        yield Text.assemble(
            ("  ! ", "yellow"),
            f"rejected: {counted(summary.rejected_lines, 'record')}, listed with the reasons in "
            f"{folder}/rejects.jsonl",
        )
    yield from _steps(next_steps)


def _steps(steps: Sequence[tuple[str, str]]) -> Iterator[Text]:
    if steps:
        yield Text("")
        width = max(len(command) for command, _ in steps)
        for command, what in steps:
            yield Text.assemble("  ", (f"{command:<{width}}", "cyan"), (f"  {what}", "dim"))


def import_steps(
    summary: RunSummary, source: Mapping[str, Any], *, table: str
) -> list[tuple[str, str]]:
    """Give the commands to try after an import was planned or committed.

    Args:
        summary: The run.
        source: Of its plan's manifest: `path`, and the mapping.
        table: The table's place.
    """
    place = "" if table == DEFAULT_TABLE else f" --table {shlex.quote(table)}"
    if summary.is_plan:
        return [(f"memorypipe apply {summary.run_id}{place}", "commit this plan")]
    against = f"--against {shlex.quote(source['path'])} --from {source['source']}"
    steps = [(f"memorypipe verify {against}{_mapping(source)}{place}", "prove the import")]
    if summary.added or summary.updated:
        steps.append((f"memorypipe undo {summary.run_id}{place}", "take it back"))
    return steps


def _mapping(source: Mapping[str, Any]) -> str:
    """Write the options that say what is what, as far as they were given."""
    usual = make_mapping(source["source"])
    fields = {k: v for k, v in source["fields"].items() if usual.fields.get(k) != v}
    scope = {} if source["scope"] == usual.scope else source["scope"]
    words = [f"--map {shlex.quote(f'{k}={v}')}" for k, v in fields.items()]
    words += [f"--scope {shlex.quote(f'{k}={v}')}" for k, v in scope.items()]
    if source["scope_keys"] is not None:
        words.append(f"--scope-keys {shlex.quote(','.join(source['scope_keys']))}")
    if source.get("store") != usual.store:
        words.append(f"--store {shlex.quote(source['store'])}")
    return "".join(f" {word}" for word in words)


def verify_lines(found: Verification, *, path: str, table: str) -> Iterator[Text]:
    """Show how a table compares with an export.

    Args:
        found: What was found.
        path: Of the export.
        table: The table's place.
    """
    verdict, style = ("complete", "bold green") if found.is_complete else ("incomplete", "bold red")
    yield Text.assemble((verdict, style), f"  {plain(path)} · {counted(found.records, 'record')}")
    numbers = {
        "in the table": found.found,
        "said by another memory": found.said_elsewhere,
        "changed here since": found.changed_here,
        "deleted here since": found.deleted_here,
        "newer in the export": found.differs,
        "missing": found.missing,
        "could not be read": found.rejected,
        "not current there": found.skipped,
    }
    for what, count in numbers.items():
        if count or what in {"in the table", "missing"}:
            yield Text(f"  {count:>9,}  {what}")
    yield Text.assemble(("  table     ", "dim"), table)
    for each in found.absent[:_SHOWN_ABSENT]:
        named = f"{plain(each.id)}: " if each.id else ""
        yield Text.assemble(
            ("  ! ", "yellow"),
            f"{plain(each.source)}:{each.line}  {named}{plain(each.reason)}",
        )
    if len(found.absent) > _SHOWN_ABSENT:
        more = len(found.absent) - _SHOWN_ABSENT
        yield Text(f"    … {more:,} more; --json lists all of them", style="dim")
