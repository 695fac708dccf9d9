"""Plans as text for people: their changes, what a filter took out, two beside each other. Pure."""

from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from typing import Any

from rich.text import Text

from memorypipe.cli.output import counted, plain, shown_scope, shown_time
from memorypipe.pipeline.plans.compare import Comparison
from memorypipe.pipeline.plans.diff import PlanDiff

__all__ = ["compare_lines", "diff_lines", "filter_lines"]

_MARKS = {"ADD": ("+", "green"), "UPDATE": ("~", "yellow"), "DELETE": ("-", "red")}
_WORDS = {"ADD": "added", "UPDATE": "updated", "DELETE": "deleted"}
_VERDICTS = {
    "same": ("=", "dim"),
    "reworded": ("~", "yellow"),
    "only_a": ("-", "red"),
    "only_b": ("+", "green"),
}


def diff_lines(
    diff: PlanDiff, rows: Sequence[Mapping[str, Any]], *, next_steps: Sequence[tuple[str, str]]
) -> Iterator[Text]:
    """Show what a plan changes, scope by scope, and what would be held back now.

    Args:
        diff: The plan against its table.
        rows: Changes to show, of all that there are.
        next_steps: Commands to try, each with what it does.
    """
    yield Text.assemble(("diff", "bold cyan"), f"  {diff.run_id}")
    yield _counts(diff)
    yield Text.assemble(("  table     ", "dim"), _versions(diff))
    yield from _state(diff)
    if rows:
        yield Text("")
    for scope_key, group in groupby(rows, key=lambda row: row["scope_key"]):
        yield from _scope_lines(list(group), diff.held_back.get(scope_key))
    if (more := diff.changes.num_rows - len(rows)) > 0:
        yield Text(f"    … {more:,} more; show them with --limit", style="dim")
    yield from _step_lines(next_steps)


def _counts(diff: PlanDiff) -> Text:
    line = Text("").append("  changes   ", style="dim")
    for event, (mark, style) in _MARKS.items():
        count = diff.count(event)
        line.append(f"{mark} {count:,} {_WORDS[event]}", style=style if count else "dim")
        line.append("   ")
    return line.append(_unchanged(diff.unchanged), style="dim")


def _unchanged(count: int) -> str:
    return "1 fact changes nothing" if count == 1 else f"{count:,} facts change nothing"


def _versions(diff: PlanDiff) -> str:
    if diff.version == diff.base_version:
        return f"version {diff.version}, as when the plan was made"
    return f"version {diff.version}; the plan was made on version {diff.base_version}"


def _state(diff: PlanDiff) -> Iterator[Text]:
    if diff.committed:
        yield Text.assemble(
            ("  ! ", "yellow"), f"committed already: {counted(diff.committed, 'scope')}"
        )
    if diff.duplicates:
        added = counted(diff.duplicates, "memory", "memories")
        yield Text.assemble(("  ! ", "yellow"), f"the table says by now: {added} of those to add")
    if diff.held_back:
        held = counted(len(diff.held_back), "scope")
        yield Text.assemble(("  ! ", "yellow"), f"would be held back now: {held}")


def _scope_lines(rows: Sequence[Mapping[str, Any]], held: str | None) -> Iterator[Text]:
    yield Text(f"  {shown_scope(rows[0]['scope'])}", style="bold")
    if held is not None:
        yield Text.assemble(("    ! ", "yellow"), plain(held))
    for row in rows:
        yield _change(row)
        if row["now"] is not None:
            now = plain(row["now"]) or "(deleted)"
            yield Text.assemble(("        now: ", "yellow"), now)


def _change(row: Mapping[str, Any]) -> Text:
    mark, style = _MARKS[row["event"]]
    line = Text("    ").append(f"{mark} ", style=style)
    old, new = plain(row["old"] or ""), plain(row["new"] or "")
    if row["event"] == "DELETE":
        line.append(old, style="strike")
    elif row["event"] == "UPDATE":
        line.append(old, style="dim").append(" → ").append(new)
    else:
        line.append(new)
    said = shown_time(row["event_time"])
    return line.append(f"  {said}", style="dim") if said else line


def filter_lines(
    run_id: str, filtered: Mapping[str, Any], *, next_steps: Sequence[tuple[str, str]]
) -> Iterator[Text]:
    """Show what a filter left of a plan.

    Args:
        run_id: Of the new plan.
        filtered: Of its manifest.
        next_steps: Commands to try, each with what it does.
    """
    yield Text.assemble(("planned", "bold cyan"), f"  {run_id}")
    part_of = plain(str(filtered["parent"]))
    yield Text.assemble(("  part of   ", "dim"), f"{part_of} where {plain(filtered['where'])}")
    kept = counted(filtered["kept"], "action")
    dropped = _by_event(filtered["dropped"])
    yield Text.assemble(("  actions   ", "dim"), f"{kept} kept · {dropped or 'none'} dropped")
    if lost := _by_event(filtered["dropped_with"]):
        yield Text.assemble(
            ("  ! ", "yellow"), f"dropped too, as they build on dropped ones: {lost}"
        )
    if not filtered["kept"]:
        yield Text.assemble(("  ! ", "yellow"), "nothing is kept: to apply it changes no memory")
    windows = counted(filtered["windows_opened"], "window")
    left = "count as done; --leave-open lets the next run take them up"
    if filtered["leave_open"]:
        left = f"{windows} left open for the next run"
    yield Text.assemble(("  windows   ", "dim"), f"of dropped actions: {left}")
    yield from _step_lines(next_steps)


def _by_event(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{count:,} {event}" for event, count in counts.items())


def compare_lines(found: Comparison, rows: Sequence[Mapping[str, Any]]) -> Iterator[Text]:
    """Show two plans beside each other, then the facts in which they differ.

    Args:
        found: The comparison.
        rows: Facts to show, of those that differ.
    """
    yield Text.assemble(("compare", "bold cyan"), f"  A {found.a.run_id}  B {found.b.run_id}")
    windows = [
        f"{found.count_windows('both'):,} in both",
        f"{found.count_windows('a'):,} only in A",
        f"{found.count_windows('b'):,} only in B",
    ]
    if different := found.different_status():
        windows.append(f"{different:,} with another status")
    yield Text.assemble(("  windows   ", "dim"), " · ".join(windows))
    facts = Text("").append("  facts     ", style="dim")
    words = {"same": "same", "reworded": "reworded", "only_a": "only in A", "only_b": "only in B"}
    for verdict, (mark, style) in _VERDICTS.items():
        facts.append(f"{mark} {found.count(verdict):,} {words[verdict]}   ", style=style)
    yield facts
    yield from _table(found)
    if rows:
        yield Text("")
    for conversation, group in groupby(rows, key=lambda row: row["conversation_id"]):
        yield Text(f"  {plain(conversation)}", style="bold")
        for row in group:
            yield _difference(row)
    total = sum(found.count(verdict) for verdict in _VERDICTS if verdict != "same")
    if total > len(rows):
        yield Text(f"    … {total - len(rows):,} more; show them with --limit", style="dim")


def _table(found: Comparison) -> Iterator[Text]:
    """Show the numbers of both plans in two columns."""
    names = {
        "model": "model",
        "calls": "calls",
        "tokens_in": "tokens in",
        "tokens_out": "tokens out",
        "cost": "cost",
        "added": "added",
        "updated": "updated",
        "deleted": "deleted",
        "none": "no change",
    }
    rows = [
        (title, _value(getattr(found.a, name)), _value(getattr(found.b, name)))
        for name, title in names.items()
    ]
    rows = [row for row in rows if (row[1], row[2]) != ("–", "–")]  # noqa: RUF001  # a dash for no value
    widths = [max(len(row[n]) for row in (*rows, ("", "A", "B"))) for n in (1, 2)]
    yield Text(f"  {'':<10}{'A':>{widths[0]}}  {'B':>{widths[1]}}", style="bold")
    for title, a, b in rows:
        numbers = f"{a:>{widths[0]}}  {b:>{widths[1]}}"
        yield Text.assemble((f"  {title:<10}", "dim"), (numbers, "" if a == b else "yellow"))


def _value(value: Any) -> str:
    if value in {None, ""}:
        return "–"  # noqa: RUF001  # a dash for no value
    if isinstance(value, float):
        return f"{value:,.4f}"
    return f"{value:,}" if isinstance(value, int) else plain(str(value))


def _difference(row: Mapping[str, Any]) -> Text:
    mark, style = _VERDICTS[row["verdict"]]
    line = Text("    ").append(f"{mark} ", style=style)
    texts = [plain(text) for text in (row["text_a"], row["text_b"]) if text is not None]
    return line.append(" → ".join(texts))


def _step_lines(steps: Sequence[tuple[str, str]]) -> Iterator[Text]:
    if steps:
        yield Text("")
        width = max(len(command) for command, _ in steps)
        for command, what in steps:
            yield Text.assemble("  ", (f"{command:<{width}}", "cyan"), (f"  {what}", "dim"))
