"""The result goes to standard output, everything else to standard error."""

import io
import json
import logging
from datetime import UTC, datetime

import pytest
from rich.text import Text

from memorypipe.cli.output import Output, WarningsTo, plain, shown_scope, shown_time


def _output(*, as_json: bool) -> tuple[Output, io.StringIO, io.StringIO]:
    stdout, stderr = io.StringIO(), io.StringIO()
    return Output(as_json=as_json, stdout=stdout, stderr=stderr), stdout, stderr


def test_json_is_one_object_and_nothing_else() -> None:
    output, stdout, stderr = _output(as_json=True)
    output.note("beside")
    output.warn("careful")
    output.result({"at": datetime(2024, 1, 1, tzinfo=UTC), "text": "über"}, [Text("for people")])
    assert json.loads(stdout.getvalue()) == {"at": "2024-01-01T00:00:00+00:00", "text": "über"}
    assert stderr.getvalue() == "beside\nwarning: careful\n"


def test_people_get_lines_and_no_json() -> None:
    output, stdout, _ = _output(as_json=False)
    output.result({"a": 1}, [Text("one"), Text("two [not markup]")])
    assert stdout.getvalue() == "one\ntwo [not markup]\n"


def test_a_long_line_is_not_broken() -> None:
    output, stdout, stderr = _output(as_json=False)
    output.result({}, [Text("word " * 100)])
    output.fail("word " * 100)
    assert len(stdout.getvalue().splitlines()) == 1
    assert len(stderr.getvalue().splitlines()) == 1


def test_a_failure_is_one_line_and_where_json_is_wanted_an_object_too() -> None:
    output, stdout, stderr = _output(as_json=True)
    output.fail("It broke:\n  badly.")
    assert json.loads(stdout.getvalue()) == {"status": "failed", "error": "It broke: badly."}
    assert stderr.getvalue() == "error: It broke: badly.\n"


def test_a_failure_after_the_result_adds_no_second_object() -> None:
    output, stdout, _ = _output(as_json=True)
    output.result({"status": "done"}, ())
    output.fail("too late")
    assert json.loads(stdout.getvalue()) == {"status": "done"}


def test_warnings_of_the_package_are_told_while_the_command_runs() -> None:
    output, _, stderr = _output(as_json=True)
    log = logging.getLogger("memorypipe.logs.read")
    with WarningsTo(output):
        log.warning("%d times name no zone", 3)
    assert stderr.getvalue() == "warning: 3 times name no zone\n"
    assert not logging.getLogger("memorypipe").handlers


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("a\r\nb\tc", "a b c"),
        ("\x1b]0;title\x07x", "\ufffd]0;title\ufffdx"),
        ("a\x9bb\u202ec\x00", "a\ufffdb\ufffdc\ufffd"),
        ("naïve 喜欢 👩\u200d🚀", "naïve 喜欢 👩\u200d🚀"),
    ],
)
def test_a_memory_cannot_steer_the_terminal(text: str, wanted: str) -> None:
    assert plain(text) == wanted


def test_a_scope_is_shown_as_it_is_asked_for() -> None:
    assert shown_scope([("user_id", "u1"), ("agent_id", "a")]) == "agent_id=a user_id=u1"
    assert shown_scope([]) == "(no scope)"


def test_a_time_is_shown_to_the_minute_and_a_day_as_a_day() -> None:
    assert shown_time(datetime(2024, 5, 1, 9, 30, 7, tzinfo=UTC)) == "2024-05-01 09:30"
    assert shown_time(datetime(2024, 5, 1, tzinfo=UTC)) == "2024-05-01"
    assert shown_time(None) == ""
