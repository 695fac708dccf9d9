"""What a memory table holds, as text for people: memories, histories, runs. Pure."""

from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from typing import Any

from rich.text import Text

from memorypipe.cli.output import counted, plain, shown_scope, shown_time

__all__ = ["MEMORY_COLUMNS", "history_lines", "memory_lines", "memory_value", "run_lines"]

#: What is told of a memory, and of each of its revisions.
MEMORY_COLUMNS = (
    *("memory_id", "revision", "event", "scope", "text", "context", "topics"),
    *("event_time", "created_at", "updated_at", "valid_from", "valid_to", "is_current", "deleted"),
    *("status", "run_id", "conversation_id", "source_ids", "rationale", "model"),
)

_EVENT_STYLES = {"ADD": "green", "UPDATE": "yellow", "DELETE": "red"}


def memory_value(row: Mapping[str, Any]) -> dict[str, Any]:
    """Give a row of the table as JSON values, `scope` as an object."""
    return {**{name: row[name] for name in MEMORY_COLUMNS}, "scope": dict(row["scope"])}


def memory_lines(memories: Sequence[Mapping[str, Any]], *, total: int) -> Iterator[Text]:
    """Show memories, those of one scope together.

    Args:
        memories: Rows of the table with `MEMORY_COLUMNS`, sorted by scope.
        total: How many there are, the ones not shown included.
    """
    for scope, group in groupby(memories, key=lambda row: shown_scope(row["scope"])):
        yield Text(scope, style="bold")
        for row in group:
            yield _memory(row)
    if total > len(memories):
        yield Text(f"… {total - len(memories):,} more; show them with --limit {total}", style="dim")
    if not memories:
        yield Text("no memories", style="dim")


def _memory(row: Mapping[str, Any]) -> Text:
    line = Text("  ").append(row["memory_id"], style="cyan")
    line.append(f"  {shown_time(row['event_time'] or row['updated_at']):<16}  ", style="dim")
    gone = _gone(row)
    line.append(plain(row["text"]), style="dim" if gone else "default")
    if row["revision"] > 1 or gone:
        line.append(f"  r{row['revision']}{gone}", style="dim")
    return line


def _gone(row: Mapping[str, Any]) -> str:
    if row["deleted"]:
        return " deleted"
    if not row["is_current"]:
        return " replaced"
    return "" if row["status"] == "valid" else f" {row['status']}"


def history_lines(revisions: Sequence[Mapping[str, Any]]) -> Iterator[Text]:
    """Show all revisions of one memory, oldest first.

    Args:
        revisions: Rows of the table with `MEMORY_COLUMNS`.
    """
    first = revisions[0]
    yield Text.assemble((first["memory_id"], "cyan"), f"  {shown_scope(first['scope'])}")
    for row in revisions:
        event = row["event"]
        line = Text(f"  r{row['revision']}  {shown_time(row['valid_from']):<16}  ")
        line.append(f"{event:<6}", style=_EVENT_STYLES.get(event, "default"))
        yield line.append(f"  {plain(row['text'])}")
        yield from _why(row)


def _why(row: Mapping[str, Any]) -> Iterator[Text]:
    said = shown_time(row["event_time"])
    facts = {
        "said": said and f"{said} in {plain(row['conversation_id'] or 'an unnamed conversation')}",
        "why": plain(row["rationale"] or ""),
        "run": " ".join(filter(None, [plain(row["run_id"]), row["model"] and f"({row['model']})"])),
    }
    for name, fact in facts.items():
        if fact:
            yield Text(f"      {name:<5}{fact}", style="dim")


def run_lines(runs: Sequence[Mapping[str, Any]]) -> Iterator[Text]:
    """Show what ran, oldest first.

    Args:
        runs: `run_id`, `status`, `at`, `added`, `updated`, `deleted`, `windows_failed`, `model`.
    """
    if not runs:
        yield Text("no runs", style="dim")
    for run in runs:
        line = Text.assemble((run["run_id"], "cyan"), f"  {shown_time(run['at']):<16}  ")
        line.append(f"{run['status']:<8}", style="green" if run["status"] == "done" else "yellow")
        line.append(f"  +{run['added']:,} ~{run['updated']:,} -{run['deleted']:,}")
        if run["windows_failed"]:
            line.append(f"  {counted(run['windows_failed'], 'window')} open", style="yellow")
        yield line.append(f"  {plain(run['model'] or '')}", style="dim")
