"""Facts are checked beside this process or in it, with the same result."""

import os
import signal
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from memorypipe.expressions.results import STATUS
from memorypipe.pipeline import checking
from memorypipe.pipeline.checking import Checker
from memorypipe.pipeline.extracted import EXTRACTED, facts_table
from memorypipe.schema import WINDOWS


def asked(*numbers: int) -> pa.Table:
    rows = [
        {
            "scope": [("user_id", "u")],
            "scope_key": "s",
            "conversation_id": f"c{number}",
            "window_id": f"w{number}",
            "window_index": 0,
            "messages": [
                {
                    "role": "user",
                    "content": f"I own {number} lamps.",
                    "id": f"m{number}",
                    "background": False,
                }
            ],
        }
        for number in numbers
    ]
    told: list[dict[str, Any]] = [
        {
            **dict.fromkeys(field.name for field in STATUS),
            "value": f'{{"memories":[{{"text":"Owns {number} lamps"}},{{"text":"Hates rain"}}]}}',
            "status": "ok",
            **dict.fromkeys(("attempts", "prompt_tokens", "completion_tokens", "repaired"), 1),
            "dropped_items": 0,
            "latency_ms": 1.0,
            "cached": False,
        }
        for number in numbers
    ]
    windows = pa.Table.from_pylist(rows, schema=WINDOWS)
    return windows.append_column(EXTRACTED, pa.array(told, STATUS))


@pytest.fixture(name="checker")
def _checker(monkeypatch: pytest.MonkeyPatch) -> Iterator[Checker]:
    monkeypatch.setattr("os.cpu_count", lambda: 2)
    checker = Checker()
    yield checker
    checker.close()


def _ready(checker: Checker) -> Any:
    """Wait until the process beside this one has come up; gives it."""
    checker.expect(64)
    child = checker._child
    assert child is not None
    (connecting,) = (t for t in threading.enumerate() if t.name == "memorypipe-checks")
    connecting.join(60)
    assert child.is_ready
    return child


def test_a_process_beside_this_one_finds_what_this_one_does(
    checker: Checker, monkeypatch: pytest.MonkeyPatch
) -> None:
    tables = [asked(1, 2, 3), asked(4), pa.concat_tables([asked(5), asked(6)])]
    wanted = [facts_table(table) for table in tables]
    assert wanted[0]["flags"][0].as_py() == [{"fact": 1, "flag": "unsupported"}]
    _ready(checker)
    monkeypatch.setattr(checking, "facts_table", None)
    assert [checker.check(table) for table in tables] == wanted


def test_where_it_is_lost_the_rest_is_checked_here(checker: Checker) -> None:
    child = _ready(checker)
    first = checker.check(asked(1))
    os.kill(child._process.pid, signal.SIGKILL)
    assert [first, checker.check(asked(2)), checker.check(asked(3))] == [
        facts_table(asked(number)) for number in (1, 2, 3)
    ]


def test_it_ends_at_once_and_is_waited_for(checker: Checker) -> None:
    child = _ready(checker)
    checker.close()
    assert child._process.returncode == -signal.SIGKILL
    assert not child._connecting.is_alive()
    assert checker.check(asked(1)) == facts_table(asked(1))


def test_it_ends_when_nobody_asks_any_more(checker: Checker) -> None:
    child = _ready(checker)
    checker.check(asked(1))
    child._process.stdin.close()
    assert child._process.wait(60) == 0


def test_before_it_is_ready_facts_are_checked_here(checker: Checker) -> None:
    checker.expect(64)
    assert checker.check(asked(1)) == facts_table(asked(1))


def test_few_windows_and_a_single_core_are_not_worth_a_process(
    checker: Checker, monkeypatch: pytest.MonkeyPatch
) -> None:
    checker.expect(63)
    monkeypatch.setattr("os.cpu_count", lambda: 1)
    checker.expect(2_000)
    assert checker._child is None


@pytest.mark.parametrize(("name", "value"), [("frozen", True), ("executable", None)])
def test_a_program_that_is_no_python_is_not_started_again(
    checker: Checker, monkeypatch: pytest.MonkeyPatch, name: str, value: object
) -> None:
    monkeypatch.setattr(sys, name, value, raising=False)
    checker.expect(2_000)
    assert checker._child is None


def test_where_no_thread_can_be_started_facts_are_checked_here_and_nothing_is_left(
    checker: Checker, monkeypatch: pytest.MonkeyPatch
) -> None:
    ended: list[int] = []
    end = checking._Child.end

    def noted(child: Any) -> None:
        end(child)
        ended.append(child._process.returncode)

    monkeypatch.setattr(threading.Thread, "start", _no_thread)
    monkeypatch.setattr(checking._Child, "end", noted)
    checker.expect(64)
    assert checker.check(asked(1)) == facts_table(asked(1))
    assert ended == [-signal.SIGKILL]


def _no_thread(_thread: threading.Thread) -> None:
    raise RuntimeError("can't start new thread")


def test_places_of_modules_may_be_paths(checker: Checker, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "path", [*sys.path, Path("/there/is/nothing")])
    _ready(checker)
    assert checker.check(asked(1)) == facts_table(asked(1))


def test_where_no_process_can_be_started_facts_are_checked_here(
    checker: Checker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.executable", "/there/is/no/python")
    checker.expect(64)
    assert checker.check(asked(1)) == facts_table(asked(1))
