"""`ingest` and `flush`: what they take, what they tell, and that neither starts Ray for nothing."""

import io
import json
import sys
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from memorypipe.cli.exit_codes import ExitCode
from memorypipe.cli.main import main
from memorypipe.cli.output import Output
from memorypipe.cli.stream_commands import flush_lines, watch
from memorypipe.cli.stream_options import FlushOptions, run_options
from memorypipe.streams.flush import FlushedStream, FlushReport
from memorypipe.streams.streams import EventStreams
from tests.support.streams import event, rule, source


def request(name: str, **more: Any) -> str:
    value = {
        "scope": {"user_id": "u"},
        "direct_contents_source": source(event(f"text of {name}", name)),
        **more,
    }
    return json.dumps(value)


def flushed(**more: Any) -> FlushedStream:
    values: dict[str, Any] = {
        "scope": {"user_id": "u"},
        "stream_id": "s",
        "reason": "event_count",
        "events": 3,
        "operation": "op",
        "run_id": "flush_1",
    }
    return FlushedStream(**{**values, **more})


@pytest.fixture
def told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Any:
    def run(*words: str) -> tuple[int, dict[str, Any]]:
        code = main([*words, "--table", str(tmp_path / "table"), "--json"])
        return code, json.loads(capsys.readouterr().out)

    return run


def test_requests_of_a_file_are_stored_once(told: Any, tmp_path: Path) -> None:
    path = tmp_path / "requests.jsonl"
    lines = [request("a", generation_trigger_config=rule(event_count=3)), "", request("b")]
    path.write_text("\n".join(lines))
    code, value = told("ingest", str(path), "--batch", "1")
    assert code == ExitCode.DONE
    assert (value["requests"], value["events"], value["new"], value["due"]) == (2, 2, 2, 0)
    path.write_text("\n".join([request("b"), request("c")]))
    _, value = told("ingest", str(path))
    assert (value["new"], value["duplicates"], value["due"]) == (1, 1, 1)
    _, value = told("flush", "--dry-run")
    assert list(value["due"].values()) == ["event_count"]


def test_requests_come_from_standard_input(told: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(request("a").encode())))
    assert told("ingest", "-")[1]["new"] == 1


@pytest.mark.parametrize(
    ("last", "says"),
    [
        ("{", "Line 3 is no JSON"),
        ("[]", "Line 3 must be an object"),
        (request("c", scope={}), "Line 3: scope must be"),
        ("\n" + request("c", steam_id="x"), "Line 4: it must have the field scope, and of others"),
    ],
)
def test_a_bad_line_is_named_and_what_came_before_it_is_stored(
    told: Any, tmp_path: Path, last: str, says: str
) -> None:
    path = tmp_path / "requests.jsonl"
    path.write_text("\n".join([request("a"), request("b"), last]))
    code, value = told("ingest", str(path), "--batch", "2")
    assert code == ExitCode.USAGE
    assert says in value["error"]
    assert "What came before its batch is stored: 2 requests." in value["error"]
    assert EventStreams(tmp_path / "table").pending({"user_id": "u"}) == 2
    assert told("ingest", str(tmp_path / "none"))[0] == ExitCode.USAGE


def test_a_flush_of_what_is_not_due_starts_nothing(told: Any, tmp_path: Path) -> None:
    path = tmp_path / "requests.jsonl"
    path.write_text(request("a", generation_trigger_config=rule(event_count=3)))
    told("ingest", str(path))
    _, value = told("flush", "--dry-run")
    assert (value["due"], value["evaluated"]) == ({}, 1)
    code, value = told("flush", "--offline")
    assert code == ExitCode.DONE
    assert (value["status"], value["evaluated"]) == ("nothing", 1)


def test_a_flush_that_cannot_reach_its_model_leaves_the_events_pending(
    told: Any, tmp_path: Path
) -> None:
    path = tmp_path / "requests.jsonl"
    path.write_text(request("a"))
    told("ingest", str(path))
    words = ("flush", "--model", "m", "--base-url", "http://127.0.0.1:9/v1")
    code, value = told(*words)
    assert code == ExitCode.INCOMPLETE
    assert value["failed"] == 1
    assert "EndpointError" in value["streams"][0]["error"]
    assert EventStreams(tmp_path / "table").pending({"user_id": "u"}) == 1


def test_the_options_of_a_flush_are_those_of_a_run_without_its_log() -> None:
    run = run_options(FlushOptions(table="t", offline=True, window_tokens=500))
    assert (run.table, run.offline, run.window_tokens, run.logs) == ("t", True, 500, [])
    with pytest.raises(TypeError):
        FlushOptions(logs=["x"])


def test_a_watch_tells_of_each_flush_that_found_something() -> None:
    reports = iter(
        [
            FlushReport(evaluated=2),
            FlushReport(evaluated=2, streams=(flushed(),), run_ids=("flush_1",)),
            FlushReport(evaluated=2),
        ]
    )
    slept: list[float] = []

    def sleep(seconds: float) -> None:
        slept.append(seconds)
        if len(slept) == 3:
            raise KeyboardInterrupt

    out = io.StringIO()
    output = Output(as_json=True, stdout=out, stderr=io.StringIO())
    at = datetime(2026, 1, 1, tzinfo=UTC)
    code = watch(lambda: next(reports), output, every_s=7, sleep=sleep, clock=lambda: at)
    assert code == ExitCode.DONE
    assert slept == [7, 7, 7]
    (line,) = out.getvalue().splitlines()
    value = json.loads(line)
    assert (value["status"], value["run_ids"], value["at"]) == (
        "done",
        ["flush_1"],
        at.isoformat(),
    )


def shown(report: FlushReport) -> Iterator[str]:
    return (line.plain for line in flush_lines(report))


def test_a_report_shows_what_was_due_and_why_failures_first() -> None:
    good = flushed(created=2, updated=1)
    bad = flushed(stream_id="bad\x1b", error="the model\nis away")
    report = FlushReport(evaluated=9, streams=(good, bad), run_ids=("flush_1",))
    assert list(shown(report)) == [
        "partial  2 of 9 streams were due",
        "  +2 ~1 -0 memories, run flush_1",
        "  user_id=u / bad\ufffd: 3 events, event_count  failed, stays pending: the model is away",
        "  user_id=u / s: 3 events, event_count",
    ]
    assert list(shown(FlushReport(evaluated=9))) == ["nothing is due", "  of 9 streams"]
    many = FlushReport(evaluated=25, streams=tuple(flushed() for _ in range(25)))
    assert list(shown(many))[-1] == "  … and 5 more"


def test_a_stream_that_was_taken_over_and_due_again_counts_as_one() -> None:
    twice = (flushed(reason="taken_over"), flushed(), flushed(stream_id="other"))
    report = FlushReport(evaluated=2, streams=twice, run_ids=("flush_1", "flush_2"))
    assert next(shown(report)) == "done  2 of 2 streams were due"
