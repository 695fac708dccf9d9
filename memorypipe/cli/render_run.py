"""A run as text for people: the changes of a plan, the closing summary. Pure."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from typing import Any

from rich.text import Text

from memorypipe.cli.output import counted, plain, shown_scope, shown_time
from memorypipe.pipeline.runs.bounds import BOUND_OPTIONS
from memorypipe.pipeline.runs.summary import RunSummary

__all__ = [
    "change_lines",
    "choose_changes",
    "count_line",
    "open_window_lines",
    "stopped_message",
    "summary_lines",
]

_MARKS = {"ADD": ("+", "green"), "UPDATE": ("~", "yellow"), "DELETE": ("-", "red")}
_STATUS_STYLES = {
    "done": "bold green",
    "planned": "bold cyan",
    "failed": "bold red",
    "crashed": "bold red",
}
_SHOWN_REASONS = 5
_MS_PER_S = 1000


def choose_changes(actions: Sequence[Mapping[str, Any]], limit: int) -> list[Mapping[str, Any]]:
    """Choose changes to show, some of each kind where there are too many, in their order.

    Args:
        actions: Rows of `memorypipe.schema.ACTIONS`; NONE is left out.
        limit: At most this many.
    """
    by_event: dict[str, list[int]] = {event: [] for event in _MARKS}
    for place, action in enumerate(actions):
        if action["event"] in by_event:
            by_event[action["event"]].append(place)
    chosen: list[int] = []
    # The rarest kind first: what it leaves of its share is there for the others.
    for kinds_before, places in enumerate(sorted(by_event.values(), key=len)):
        share = (limit - len(chosen)) // (len(by_event) - kinds_before)
        chosen += places[:share]
    return [actions[place] for place in sorted(chosen)]


def change_lines(actions: Sequence[Mapping[str, Any]]) -> Iterator[Text]:
    """Show changes, those of one scope together.

    Args:
        actions: Rows of `memorypipe.schema.ACTIONS`, sorted by scope.
    """
    for _, group in groupby(actions, key=lambda action: action["scope_key"]):
        rows = list(group)
        yield Text(f"  {shown_scope(rows[0]['scope'])}", style="bold")
        for row in rows:
            yield _change(row)


def _change(action: Mapping[str, Any]) -> Text:
    mark, style = _MARKS[action["event"]]
    old = plain(action["old_memory"] or "")
    line = Text("    ").append(f"{mark} ", style=style)
    if action["event"] == "DELETE":
        line.append(old or plain(action["text"]), style="strike")
    elif action["event"] == "UPDATE":
        line.append(old, style="dim").append(" → ").append(plain(action["text"]))
    else:
        line.append(plain(action["text"]))
    said = shown_time(action["event_time"])
    return line.append(f"  {said}", style="dim") if said else line


def count_line(summary: RunSummary) -> Text:
    """Show how many memories a run adds, updates and deletes."""
    changes = (("ADD", summary.added), ("UPDATE", summary.updated), ("DELETE", summary.deleted))
    words = {"ADD": "added", "UPDATE": "updated", "DELETE": "deleted"}
    line = Text("").append("  memories  ", style="dim")
    for event, count in changes:
        mark, style = _MARKS[event]
        line.append(f"{mark} {count:,} {words[event]}", style=style if count else "dim")
        line.append("   ")
    return line.append(f"{counted(summary.none, 'fact')} changed nothing", style="dim")


def summary_lines(
    summary: RunSummary,
    changes: Sequence[Mapping[str, Any]],
    *,
    table: str,
    next_steps: Sequence[tuple[str, str]],
    open_reasons: Sequence[str] = (),
) -> Iterator[Text]:
    """Show what a run did.

    Args:
        summary: Its numbers.
        changes: Changes to show, of all that there are.
        table: Where the memories are.
        next_steps: Commands to try, each with what it does.
        open_reasons: Why windows stay open, one reason per window.
    """
    style = _STATUS_STYLES.get(summary.status, "bold yellow")
    yield Text.assemble((summary.status, style), f"  {summary.run_id}")
    yield _log_line(summary)
    yield count_line(summary)
    yield _call_line(summary)
    yield from _batch_lines(summary)
    yield from _effort_lines(summary)
    yield from _check_lines(summary)
    yield from _request_lines(summary)
    yield Text.assemble(("  table     ", "dim"), table)
    if changes:
        yield Text("")
        yield from change_lines(changes)
        total = summary.added + summary.updated + summary.deleted
        if total > len(changes):
            yield Text(f"    … {total - len(changes):,} more", style="dim")
    yield from _problem_lines(summary, open_reasons, table)
    if next_steps:
        yield Text("")
        width = max(len(command) for command, _ in next_steps)
        for command, what in next_steps:
            yield Text.assemble("  ", (f"{command:<{width}}", "cyan"), (f"  {what}", "dim"))


def _log_line(summary: RunSummary) -> Text:
    nothing = "nothing new in it" if summary.conversations else "nothing in it"
    parts = [
        counted(summary.conversations, "conversation"),
        counted(summary.windows, "new window") if summary.windows else nothing,
        counted(summary.facts, "fact"),
    ]
    return Text.assemble(("  log       ", "dim"), " · ".join(parts))


def _call_line(summary: RunSummary) -> Text:
    tokens = f"{summary.tokens_in:,} + {summary.tokens_out:,} tokens"
    parts = [
        counted(summary.calls, "call"),
        f"{summary.journal_hits:,} of them from the journal" if summary.journal_hits else "",
        f"{summary.attempts:,} requests sent" if summary.attempts != summary.calls else "",
        tokens,
        f"cost {summary.cost:.4f}" if summary.cost is not None else "",
        f"{summary.wall_s:.1f} s",
        plain(summary.model),
    ]
    return Text.assemble(("  model     ", "dim"), " · ".join(part for part in parts if part))


def _batch_lines(summary: RunSummary) -> Iterator[Text]:
    """Show what was asked in batches; the line of calls counts none of it as sent."""
    if (batch := summary.batch) is None:
        return
    tokens = f"{batch['prompt_tokens']:,} + {batch['completion_tokens']:,} tokens at batch prices"
    asked = f"{counted(batch['requests'], 'request')} in {batch['batches']:,}"
    names = ("answered", "unusable", "failed", "expired", "lost")
    shown = [f"{batch[name]:,} {name}" for name in names if batch.get(name)]
    yield Text.assemble(("  batches   ", "dim"), " · ".join([asked, *shown, tokens]))


def _effort_lines(summary: RunSummary) -> Iterator[Text]:
    """Show how long the endpoint took, and what failed on the way."""
    if latency_ms := summary.latency_ms:
        waited = [f"waited {s:,.1f} s for {k}" for k, s in summary.waited_s.items() if s >= 1]
        shown = [f"{name} {_duration(ms)}" for name, ms in latency_ms.items()]
        at_once = f"at most {summary.max_in_flight:,} at a time" if summary.max_in_flight else ""
        parts = [", ".join(shown), at_once, *waited]
        yield Text.assemble(("  requests  ", "dim"), " · ".join(part for part in parts if part))
    if summary.failures:
        counts = sorted(summary.failures.items(), key=lambda item: (-item[1], item[0]))
        shown = [f"{plain(kind)}: {count:,}" for kind, count in counts]
        yield Text.assemble(("  failures  ", "dim"), " · ".join(shown))


def _check_lines(summary: RunSummary) -> Iterator[Text]:
    """Show what did not stand the checks of facts and decisions."""
    counts = {
        "unsupported by sources": summary.unsupported,
        "left out as orders to the memory system": summary.instructions,
        "decided otherwise than the model did, see rationale": summary.unverified,
    }
    shown = [f"{counted(count, 'fact')} {what}" for what, count in counts.items() if count]
    if shown:
        yield Text.assemble(("  checks    ", "dim"), " · ".join(shown))


def _request_lines(summary: RunSummary) -> Iterator[Text]:
    """Show what was asked of the run beside the log, and what is not as in the run before."""
    asked = summary.request
    selection = dict(asked.get("selection", {}))
    if "sample" in selection:
        selection["sample"] = f"{100 * selection['sample']:g} % of the scopes"
    labels = {f"label {name}": value for name, value in asked.get("labels", {}).items()}
    again = asked.get("reprocess")
    if again is not None:
        where = [f"{name} {plain(str(value))}" for name, value in again.items()]
        labels["again"] = ", ".join(where) or "everything"
    shown = [
        f"{plain(name)} {plain(str(value))}" for name, value in {**selection, **labels}.items()
    ]
    if summary.budget is not None:
        spent = f"{summary.budget['calls']:,} calls · {summary.budget['tokens']:,.0f} tokens"
        name = plain(str(summary.budget["id"]))
        yield Text.assemble(("  budget    ", "dim"), f"{name}: {spent} so far, all its runs")
    if shown:
        yield Text.assemble(("  asked     ", "dim"), " · ".join(shown))
    if summary.changed:
        what = [
            f"{name.replace('_', ' ')} {plain(before)} → {plain(now)}"
            for name, (before, now) in summary.changed.items()
        ]
        yield Text.assemble(
            ("  changed   ", "dim"),
            " · ".join(what),
            ("  for new messages only; --reprocess takes old ones again", "dim"),
        )


def _duration(milliseconds: float) -> str:
    """Show a duration.

    Example:
        >>> _duration(74.6), _duration(1250)
        ('75 ms', '1.2 s')
    """
    if milliseconds < _MS_PER_S:
        return f"{milliseconds:.0f} ms"
    return f"{milliseconds / _MS_PER_S:,.1f} s"


def _problem_lines(summary: RunSummary, reasons: Sequence[str], table: str) -> Iterator[Text]:
    folder = f"{table.rstrip('/')}/runs/{summary.run_id}"
    told = (summary.windows_failed, summary.rejected_lines, summary.undated, summary.scopes_left)
    if summary.stopped_by or any(told):
        yield Text("")
    if summary.scopes_left:
        yield Text.assemble(
            ("  ! ", "yellow"),
            f"only a sample is committed: {counted(summary.scopes_left, 'scope')} of "
            f"{summary.scopes:,} left",
        )
    if summary.stopped_by:
        yield Text.assemble(("  ! ", "yellow"), stopped_message(summary))
    if summary.windows_failed:
        yield Text.assemble(
            ("  ! ", "yellow"),
            f"open for the next run: {counted(summary.windows_failed, 'window')}",
        )
        yield from _reason_lines(reasons)
    if summary.undated:
        yield Text.assemble(
            ("  ! ", "yellow"),
            f"left out, as nothing dates them: {counted(summary.undated, 'conversation')}; a run "
            "without --since and --until takes them",
        )
    if summary.rejected_lines:
        yield Text.assemble(
            ("  ! ", "yellow"),
            f"could not be read: {counted(summary.rejected_lines, 'line')}, listed in ",
            f"{folder}/rejects.jsonl",
        )


def stopped_message(summary: RunSummary) -> str:
    """Say which bound stopped a run, what is left, and how to go on.

    Args:
        summary: Of a run with `stopped_by`.
    """
    by = summary.stopped_by or {}
    if by["bound"] == "failures":
        return f"stopped, as most calls fail: {plain(by['reason'])} The same command goes on."
    option = BOUND_OPTIONS.get(by["bound"], by["bound"])
    spent = by["used"]
    if summary.budget is not None:
        option += f" of budget {plain(str(summary.budget['id']))}"
        spent = summary.budget.get(by["bound"].removeprefix("max_"))
    used = f"{spent:,} of {by['limit']:,} used; " if by["limit"] and spent else ""
    return (
        f"stopped by {option}: {used}{counted(summary.windows_failed, 'window')} left. The same "
        f"command goes on from here, as far as its bound allows; what was answered is not paid "
        f"again."
    )


def _reason_lines(reasons: Sequence[str]) -> Iterator[Text]:
    for reason, count in Counter(reasons).most_common(_SHOWN_REASONS):
        yield Text(f"      {count:,} of them: {plain(reason)}")
    hidden = len(set(reasons)) - _SHOWN_REASONS
    if hidden > 0:
        yield Text(f"      … {counted(hidden, 'other reason')}", style="dim")


def open_window_lines(windows: Sequence[Mapping[str, Any]]) -> Iterator[Text]:
    """Show the windows that stay open, with the reason.

    Args:
        windows: Rows of `memorypipe.pipeline.runs.folder.OPEN_WINDOWS`.
    """
    if not windows:
        yield Text("  no window stays open", style="dim")
    for window in windows:
        named = f"  {plain(window['scope_key'])} {plain(window['conversation_id'])}"
        yield Text.assemble((named, "bold"), (f"  {window['window_id']}", "dim"))
        yield Text(f"      {plain(window['reason'])}")
