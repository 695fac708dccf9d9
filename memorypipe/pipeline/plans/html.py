"""A plan as a table of changes, for notebooks. Pure."""

from collections.abc import Iterator, Mapping, Sequence
from html import escape
from itertools import groupby
from typing import Any

from memorypipe.pipeline.runs.summary import RunSummary

__all__ = ["plan_html"]

_STYLES = {
    "ADD": ("+", "color:#1a7f37"),
    "UPDATE": ("~", "color:#9a6700"),
    "DELETE": ("−", "color:#cf222e"),  # noqa: RUF001  # a minus sign, as wide as the plus
}
_CELL = "text-align:left;vertical-align:top;padding:2px 10px 2px 0"
_NUMBER = f"{_CELL};white-space:nowrap"
_WORDS = f"{_CELL};white-space:pre-wrap;overflow-wrap:anywhere"


def plan_html(summary: RunSummary, rows: Sequence[Mapping[str, Any]], *, total: int) -> str:
    """Write a plan as HTML: its numbers, and a table of changes by scope.

    Args:
        summary: The numbers of the run.
        rows: Changes to show, as of `memorypipe.pipeline.plans.changes.PLAN_CHANGES`.
        total: How many there are.
    """
    return "".join(_pieces(summary, rows, total))


def _pieces(summary: RunSummary, rows: Sequence[Mapping[str, Any]], total: int) -> Iterator[str]:
    yield '<div class="memorypipe-plan"><p>'
    yield f"<b>{escape(summary.status)}</b> <code>{escape(summary.run_id)}</code> · "
    counts = (("ADD", summary.added), ("UPDATE", summary.updated), ("DELETE", summary.deleted))
    for event, count in counts:
        mark, style = _STYLES[event]
        yield f'<span style="{style}">{mark} {count:,}</span> '
    yield f"· {summary.none:,} facts change nothing"
    if summary.windows_failed:
        yield f" · {summary.windows_failed:,} windows stay open"
    yield "</p>"
    if rows:
        yield from _table(rows)
    if total > len(rows):
        yield f"<p>… {total - len(rows):,} more changes</p>"
    yield "</div>"


def _table(rows: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    names = ("", "memory", "before", "said")
    head = "".join(f'<th scope="col" style="{_CELL}">{name}</th>' for name in names)
    yield f"<table><thead><tr>{head}</tr></thead>"
    for _, group in groupby(rows, key=lambda row: row["scope_key"]):
        changes = list(group)
        pairs = sorted(dict(changes[0]["scope"]).items())
        scope = " ".join(f"{name}={value}" for name, value in pairs) or "(no scope)"
        yield f'<tbody><tr><th colspan="4" scope="rowgroup" style="{_CELL}">{escape(scope)}</th>'
        yield "</tr>"
        for row in changes:
            yield _row(row)
        yield "</tbody>"
    yield "</table>"


def _row(row: Mapping[str, Any]) -> str:
    mark, style = _STYLES[row["event"]]
    new = escape(row["new"] or "")
    old = escape(row["old"] or "")
    said = "" if row["event_time"] is None else f"{row['event_time']:%Y-%m-%d %H:%M}"
    before = f"<del>{old}</del>" if old else ""
    return (
        f'<tr><td style="{_NUMBER};{style}" title="{row["event"]}">{mark}</td>'
        f'<td style="{_WORDS}">{new}</td><td style="{_WORDS}">{before}</td>'
        f'<td style="{_NUMBER}">{said}</td></tr>'
    )
