"""Memories, histories and runs as people read them."""

from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Any

from rich.text import Text

from memorypipe.cli.render_table import history_lines, memory_lines, memory_value, run_lines
from memorypipe.schema import table_schema

_MAY = datetime(2024, 5, 1, 9, 30, tzinfo=UTC)


def _row(memory_id: str = "mem_1", *, user: str = "u1", **values: Any) -> dict[str, Any]:
    return {
        **dict.fromkeys(table_schema().names),
        "memory_id": memory_id,
        "revision": 1,
        "event": "ADD",
        "scope": [("user_id", user)],
        "text": "Likes tea",
        "event_time": _MAY,
        "updated_at": _MAY,
        "valid_from": _MAY,
        "is_current": True,
        "deleted": False,
        "status": "valid",
        "run_id": "run_1",
        **values,
    }


def _plain(lines: Iterable[Text]) -> list[str]:
    return [line.plain.rstrip() for line in lines]


def test_memories_stand_under_their_scope() -> None:
    rows = [_row(), _row("mem_2", text="Has\na cat"), _row("mem_3", user="u2")]
    assert _plain(memory_lines(rows, total=3)) == [
        "user_id=u1",
        "  mem_1  2024-05-01 09:30  Likes tea",
        "  mem_2  2024-05-01 09:30  Has a cat",
        "user_id=u2",
        "  mem_3  2024-05-01 09:30  Likes tea",
    ]


def test_an_undated_memory_shows_when_it_was_written() -> None:
    june = datetime(2024, 6, 1, tzinfo=UTC)
    assert (
        "2024-06-01" in _plain(memory_lines([_row(event_time=None, updated_at=june)], total=1))[1]
    )


def test_what_no_longer_stands_says_so() -> None:
    rows = [
        _row(is_current=False),
        _row(revision=2),
        _row(revision=3, deleted=True),
        _row(status="invalid"),
    ]
    ends = [line.partition("tea")[2] for line in _plain(memory_lines(rows, total=4))[1:]]
    assert ends == ["  r1 replaced", "  r2", "  r3 deleted", "  r1 invalid"]


def test_memories_that_are_not_shown_are_counted() -> None:
    assert _plain(memory_lines([_row()], total=4))[-1] == "… 3 more; show them with --limit 4"
    assert _plain(memory_lines([], total=0)) == ["no memories"]


def test_a_history_tells_what_happened_when_and_why() -> None:
    rows = [
        _row(conversation_id="c1", model="m"),
        _row(revision=2, event="UPDATE", text="Likes green tea", rationale="said so"),
    ]
    assert _plain(history_lines(rows)) == [
        "mem_1  user_id=u1",
        "  r1  2024-05-01 09:30  ADD     Likes tea",
        "      said 2024-05-01 09:30 in c1",
        "      run  run_1 (m)",
        "  r2  2024-05-01 09:30  UPDATE  Likes green tea",
        "      said 2024-05-01 09:30 in an unnamed conversation",
        "      why  said so",
        "      run  run_1",
    ]


def test_a_memory_as_json_has_its_scope_as_an_object_and_no_vector() -> None:
    value = memory_value(_row())
    assert value["scope"] == {"user_id": "u1"}
    assert "vector" not in value
    assert "search_text" not in value


def test_runs_tell_status_changes_and_open_windows() -> None:
    run = {
        "run_id": "run_1",
        "status": "partial",
        "at": _MAY,
        "added": 1200,
        "updated": 1,
        "deleted": 0,
        "windows_failed": 2,
        "model": "m",
    }
    assert _plain(run_lines([run])) == [
        "run_1  2024-05-01 09:30  partial   +1,200 ~1 -0  2 windows open  m"
    ]
    assert _plain(run_lines([])) == ["no runs"]
