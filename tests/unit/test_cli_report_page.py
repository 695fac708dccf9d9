"""A run's page tells all, escapes what it tells, and loads nothing."""

import re
from datetime import UTC, datetime
from html.parser import HTMLParser
from typing import Any

from memorypipe.cli.report_html import element, text
from memorypipe.cli.report_page import RunPage, run_page

_EVIL = "<script>alert(1)</script><img src=x onerror=alert(1)>\"'&\u202e"
_KEY = '[["user_id","u1"]]'


def change(event: str, old: str | None, new: str | None, **more: Any) -> dict[str, Any]:
    row = {"scope": [("user_id", "u1")], "scope_key": _KEY, "event": event, "memory_id": "mem_1"}
    times = {"event_time": datetime(2025, 1, 2, tzinfo=UTC), "rationale": None}
    return {**row, **times, "old": old, "new": new, **more}


def page(**changes: Any) -> RunPage:
    record = {"run_id": "run_1", "status": "done", "added": 1, "calls": 1234, "cost": 0.5}
    given: dict[str, Any] = {
        "record": {**record, **changes.pop("record", {})},
        "manifest": {},
        "changes": (),
        "counts": {},
        "opened": (),
        "open_total": 0,
        "reasons": {},
        "table": "./memories",
        "made_at": "2025-01-03",
        "made_by": "1.2.3",
    }
    return RunPage(**{**given, **changes})


class Reader(HTMLParser):
    """Collects the elements and attributes of a page, and checks that they are closed."""

    def __init__(self) -> None:
        super().__init__()
        self.names: list[str] = []
        self.attributes: list[str] = []
        self.open: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.names.append(tag)
        self.attributes += [name for name, _ in attrs]
        if tag != "meta":
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


def full_page(said: str = "said") -> str:
    record = {
        "status": "held",
        "model": said,
        "error": said,
        "stopped_by": {"bound": said, "reason": said},
        "held_back": {said: said},
        "failures": {said: 2},
        "in_flight": [[0.0, 1], [0.5, 64], [90.0, 3]],
        "max_in_flight": 64,
        "stages": {said: {"calls": 3, "latency_ms": {"p50": 20.5, "max": 2500.0}}},
    }
    opened = {"scope_key": said, "conversation_id": said, "window_id": said, "reason": said}
    rows = [
        change("ADD", None, said, rationale=said, memory_id=said, scope=[(said, said)]),
        change("UPDATE", said, said),
        change("DELETE", said, None),
    ]
    return run_page(
        page(
            record={**record, "run_id": said},
            manifest={"settings": {said: {said: said}}, "versions": {"ray": "2"}},
            changes=rows,
            counts={_KEY: {"ADD": 1, "UPDATE": 1, "DELETE": 1}},
            opened=[opened],
            open_total=9,
            reasons={said: 9},
            table=said,
        )
    )


def test_what_others_wrote_is_text_and_nothing_else() -> None:
    plain, evil = Reader(), Reader()
    plain.feed(full_page())
    evil.feed(full_page(_EVIL))
    assert evil.names == plain.names
    assert evil.attributes == plain.attributes
    assert evil.open == []
    assert "script" not in evil.names
    assert not any(name.startswith("on") for name in evil.attributes)
    assert "\u202e" not in full_page(_EVIL)


def test_a_page_loads_nothing() -> None:
    written = full_page()
    assert "default-src 'none'" in written
    assert not re.search(r"\ssrc=|href=|url\(|@import|https?://", written)


def test_before_and_after_are_told_by_scope() -> None:
    written = run_page(
        page(
            changes=[change("UPDATE", "Lives in Rome", "Lives in Oslo")],
            counts={_KEY: {"UPDATE": 2}, "[]": {"ADD": 1}},
        )
    )
    assert "<del>Lives in Rome</del> <ins>Lives in Oslo</ins>" in written
    assert "3 changes in 2 scopes; 1 of them are shown." in written
    assert "<b>user_id=u1</b> <span>~ 2</span>" in written


def test_long_texts_are_cut() -> None:
    written = run_page(page(changes=[change("ADD", None, "x" * 900)], counts={_KEY: {"ADD": 1}}))
    assert "x" * 500 + "…" in written
    assert "x" * 501 not in written


def test_a_run_without_anything_has_a_page_too() -> None:
    written = run_page(page())
    assert "No memory changes." in written
    assert "<b>1,234</b><span>calls</span>" in written
    assert "<svg" not in written
    assert "Open windows" not in written


def test_requests_over_time_are_drawn() -> None:
    written = full_page()
    assert 'aria-label="Requests in flight over time, at most 64"' in written
    assert "1.5 min" in written


def test_elements_escape_what_stands_in_them() -> None:
    assert (
        element("p", "<", element("b", ">"), title='"') == '<p title="&quot;">&lt;<b>&gt;</b></p>'
    )
    assert text("a\x00b") == "a\ufffdb"
