"""A run as one page that needs nothing else: no script, no picture, no network. Pure."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any

from memorypipe.cli.output import counted, shown_scope, shown_time
from memorypipe.cli.report_chart import line_chart
from memorypipe.cli.report_html import Markup, element, join, table
from memorypipe.cli.report_style import STYLE

__all__ = ["RunPage", "run_page"]

_TEXT_CHARS = 500
_MARKS = {"ADD": "+", "UPDATE": "~", "DELETE": "−"}  # noqa: RUF001  # as wide as the plus
_SHOWN_REASONS = 20
_MS_PER_S = 1000
_NO_LOADING = "default-src 'none'; style-src 'unsafe-inline'"


@dataclass(frozen=True, kw_only=True)
class RunPage:
    """What a page tells of a run.

    Attributes:
        record: Its `run.json`, with the status as it is now.
        manifest: Its `manifest.json`; empty where it did not come to its end.
        changes: Changes to show, as of `memorypipe.pipeline.plans.changes.PLAN_CHANGES`.
        counts: How many changes there are, by scope and event.
        opened: Windows that stay open, as of `memorypipe.pipeline.runs.folder.OPEN_WINDOWS`.
        open_total: How many there are.
        reasons: Why windows stay open, and how many for each reason.
        table: The table's place.
        made_at: When the page was made, to be shown.
        made_by: Version of the library.
    """

    record: Mapping[str, Any]
    manifest: Mapping[str, Any]
    changes: Sequence[Mapping[str, Any]]
    counts: Mapping[str, Mapping[str, int]]
    opened: Sequence[Mapping[str, Any]]
    open_total: int
    reasons: Mapping[str, int]
    table: str
    made_at: str
    made_by: str


def run_page(page: RunPage) -> str:
    """Write the page.

    Args:
        page: What it tells.
    """
    sections = (_head, _numbers, _warnings, _changes, _stages, _in_flight, _open_windows, _settings)
    body = [*(section(page) for section in sections), _foot(page)]
    head = element(
        "head",
        Markup('<meta charset="utf-8">'),
        Markup('<meta name="viewport" content="width=device-width, initial-scale=1">'),
        Markup(f'<meta http-equiv="Content-Security-Policy" content="{_NO_LOADING}">'),
        Markup('<meta name="referrer" content="no-referrer">'),
        element("title", f"{page.record['run_id']} · memorypipe"),
        element("style", Markup(STYLE)),
    )
    return f"<!doctype html>\n{element('html', head, element('body', *body), lang='en')}\n"


def _section(title: str, *inside: object) -> Markup:
    return element("section", element("h2", title), *inside)


def _head(page: RunPage) -> Markup:
    record, manifest = page.record, page.manifest
    status = str(record["status"])
    told = {
        "kind": manifest.get("kind", "run"),
        "table": page.table,
        "model": record.get("model") or None,
        "started": _time(record.get("started_at")),
        "decided against version": manifest.get("base_version"),
        "committed": "yes" if record.get("committed") else "no",
    }
    return element(
        "header",
        element(
            "h1", element("span", status, class_=f"status {_class(status)}"), " ", record["run_id"]
        ),
        _pairs(told),
    )


def _class(status: str) -> str:
    return status if status in {"done", "planned", "failed", "crashed"} else "other"


def _time(written: Any) -> str | None:
    return str(written)[:19].replace("T", " ") + " UTC" if written else None


def _pairs(told: Mapping[str, object]) -> Markup:
    pairs = [(name, value) for name, value in told.items() if value not in {None, ""}]
    return element(
        "dl", *(element("div", element("dt", name), element("dd", value)) for name, value in pairs)
    )


def _numbers(page: RunPage) -> Markup:
    record = page.record
    cost = record.get("cost")
    tiles = [
        ("memories added", f"{record.get('added', 0):,}", "add"),
        ("updated", f"{record.get('updated', 0):,}", "update"),
        ("deleted", f"{record.get('deleted', 0):,}", "delete"),
        ("facts", f"{record.get('facts', 0):,}", None),
        ("windows", f"{record.get('windows', 0):,}", None),
        ("calls", f"{record.get('calls', 0):,}", None),
        ("from the journal", f"{record.get('journal_hits', 0):,}", None),
        ("prompt tokens", f"{record.get('tokens_in', 0):,}", None),
        ("reply tokens", f"{record.get('tokens_out', 0):,}", None),
        ("cost", "no prices" if cost is None else f"{cost:,.4f}", None),
        ("seconds", f"{record.get('wall_s', 0.0):,.1f}", None),
    ]
    shown = [
        element(
            "div", element("b", value), element("span", name), class_=f"tile {kind or ''}".strip()
        )
        for name, value, kind in tiles
    ]
    return element("section", *shown, class_="tiles")


def _warnings(page: RunPage) -> Markup:
    record = page.record
    said: list[object] = []
    if record.get("error"):
        said.append(f"It ended in the middle: {record['error']}")
    if stopped := record.get("stopped_by"):
        said.append(f"Stopped by {stopped.get('bound')}: {stopped.get('reason')}")
    for scope_key, reason in sorted((record.get("held_back") or {}).items()):
        said.append(
            join(["Held back, nothing committed: ", element("code", scope_key), f" {reason}"])
        )
    if record.get("rejected_lines"):
        said.append(f"{record['rejected_lines']:,} lines of the log could not be read.")
    checks = {
        "unsupported": "facts that no word of their messages supports",
        "instructions": "facts left out as orders to the memory system",
        "unverified": "decisions that did not stand the checks",
        "fallback": "facts without a valid decision",
    }
    said += [f"{record[name]:,} {what}" for name, what in checks.items() if record.get(name)]
    for kind, count in sorted((record.get("failures") or {}).items()):
        said.append(f"{count:,} × {kind}")  # noqa: RUF001  # times
    if not said:
        return Markup("")
    return _section("To look at", element("ul", *(element("li", each) for each in said)))


def _changes(page: RunPage) -> Markup:
    if not page.counts:
        return _section("Changes", element("p", "No memory changes.", class_="dim"))
    total = sum(sum(counts.values()) for counts in page.counts.values())
    told = f"{counted(total, 'change')} in {counted(len(page.counts), 'scope')}"
    if len(page.changes) < total:
        told += f"; {len(page.changes):,} of them are shown"
    shown = [
        _scope_changes(list(rows), page.counts.get(key, {}))
        for key, rows in groupby(page.changes, key=lambda row: str(row["scope_key"]))
    ]
    return _section("Changes", element("p", told + ".", class_="dim"), *shown)


def _scope_changes(rows: Sequence[Mapping[str, Any]], counts: Mapping[str, int]) -> Markup:
    numbers = " ".join(
        f"{mark} {counts[event]:,}" for event, mark in _MARKS.items() if counts.get(event)
    )
    summary = element(
        "summary", element("b", shown_scope(rows[0]["scope"])), " ", element("span", numbers)
    )
    return element("details", summary, *map(_change, rows), open="")


def _change(row: Mapping[str, Any]) -> Markup:
    event = str(row["event"])
    pieces: list[object] = [element("span", _MARKS[event], class_="mark", title=event)]
    if row["old"] is not None:
        pieces.append(element("del", _cut(row["old"])))
    if row["new"] is not None:
        pieces.append(element("ins", _cut(row["new"])))
    if row["event_time"] is not None:
        pieces.append(element("time", shown_time(row["event_time"])))
    if row["rationale"]:
        pieces.append(element("small", _cut(row["rationale"])))
    pieces.append(element("code", row["memory_id"]))
    return element("div", *_spaced(pieces), class_=f"change {event.lower()}")


def _spaced(pieces: Iterable[object]) -> Iterator[object]:
    for piece in pieces:
        yield piece
        yield " "


def _cut(said: str) -> str:
    return said if len(said) <= _TEXT_CHARS else f"{said[:_TEXT_CHARS]}…"


def _stages(page: RunPage) -> Markup:
    stages = page.record.get("stages") or {}
    if not stages:
        return Markup("")
    heads = (
        *("stage", "calls", "requests", "from the journal", "failed attempts", "tokens in"),
        *("tokens out", "cost", "p50", "p90", "p99", "max"),
    )
    rows = [_stage_row(name, numbers) for name, numbers in stages.items()]
    told_by = stages
    if any("waited_s" in numbers and numbers["waited_s"] is None for numbers in stages.values()):
        told_by = {"both": page.record}  # they went on at the same time
    waits = [
        f"{name}: waited {seconds:,.1f} s for {limit}"
        for name, numbers in told_by.items()
        for limit, seconds in (numbers.get("waited_s") or {}).items()
        if seconds >= 1
    ]
    told = element("p", " · ".join(waits), class_="dim") if waits else ""
    return _section("Calls", table(heads, rows, numbers=len(heads) - 1), told)


def _stage_row(name: str, numbers: Mapping[str, Any]) -> list[object]:
    cost, latency = numbers.get("cost"), numbers.get("latency_ms") or {}
    counts = ("calls", "attempts", "journal_hits")
    return [
        name,
        *(f"{numbers.get(count, 0):,}" for count in counts),
        f"{sum((numbers.get('failures') or {}).values()):,}",
        f"{numbers.get('tokens_in', 0):,}",
        f"{numbers.get('tokens_out', 0):,}",
        "–" if cost is None else f"{cost:,.4f}",  # noqa: RUF001  # a dash for nothing
        *(_latency(latency.get(point)) for point in ("p50", "p90", "p99", "max")),
    ]


def _latency(milliseconds: float | None) -> str:
    if milliseconds is None:
        return "–"  # noqa: RUF001  # as above
    if milliseconds < _MS_PER_S:
        return f"{milliseconds:,.0f} ms"
    return f"{milliseconds / _MS_PER_S:,.1f} s"


def _in_flight(page: RunPage) -> Markup:
    points = [(float(at_s), float(count)) for at_s, count in page.record.get("in_flight") or ()]
    if not points:
        return Markup("")
    most = f"{page.record.get('max_in_flight', 0):,}"
    label = f"Requests in flight over time, at most {most}"
    return _section("Requests in flight", line_chart(points, label=label))


def _open_windows(page: RunPage) -> Markup:
    if not page.open_total:
        return Markup("")
    grouped = Counter(page.reasons).most_common(_SHOWN_REASONS)
    reasons = table(("reason", "windows"), [(why, f"{n:,}") for why, n in grouped], numbers=1)
    rows = [
        (w["scope_key"], w["conversation_id"], element("code", w["window_id"]), _cut(w["reason"]))
        for w in page.opened
    ]
    listed = table(("scope", "conversation", "window", "reason"), rows)
    more = page.open_total - len(rows)
    told = f"{page.open_total:,} windows stay open: the next run takes them up."
    return _section(
        "Open windows",
        element("p", told, class_="dim"),
        reasons,
        element("details", element("summary", f"{len(rows):,} of them"), listed) if rows else "",
        element("p", f"… {more:,} more", class_="dim") if more > 0 and rows else "",
    )


def _settings(page: RunPage) -> Markup:
    told = {
        name: page.manifest[name]
        for name in ("stages", "decide", "settings", "request", "source", "embedder", "versions")
        if page.manifest.get(name)
    }
    rows = [
        (name, element("code", value))
        for key, values in told.items()
        for name, value in _flat(key, values)
    ]
    if not rows:
        return Markup("")
    return _section("Settings", table(("name", "value"), rows))


def _flat(name: str, value: Any) -> Iterator[tuple[str, str]]:
    """Lay nested values out, each under its whole name."""
    if not isinstance(value, Mapping):
        yield name, _cut("none" if value is None else str(value))
        return
    for key, inner in value.items():
        yield from _flat(f"{name}.{key}", inner)


def _foot(page: RunPage) -> Markup:
    told = f"Made {page.made_at} by memorypipe {page.made_by}. This page loads nothing."
    return element("footer", told)
