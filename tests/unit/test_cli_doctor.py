"""`doctor` tells what is missing, with the next step, and never a secret."""

import json
import urllib.error
from datetime import UTC, datetime
from email.message import Message
from pathlib import Path
from typing import Any

import pytest

from memorypipe.cli.doctor_endpoint import check_address, check_models, check_replies
from memorypipe.cli.doctor_machine import check_disk, check_versions, supported
from memorypipe.cli.doctor_report import Finding, doctor_lines, fail
from memorypipe.cli.doctor_table import (
    check_embedder,
    check_journal_health,
    check_runs,
    check_table,
)
from memorypipe.cli.main import main
from memorypipe.llm.keys import NO_KEY
from memorypipe.llm.spec import ModelSpec
from memorypipe.llm.stage import Outcome
from memorypipe.table.table import MemoryTable

_SECRET = "sk-very-secret"
_NOW = datetime(2025, 1, 1, 12, tzinfo=UTC)


def states(findings: Any) -> dict[str, str]:
    return {finding.check: finding.state for finding in findings}


def spec(**changes: Any) -> ModelSpec:
    given = {"base_url": "http://127.0.0.1:9/v1", "model": "m", "api_key": "env:KEY"}
    return ModelSpec(**{**given, **changes})


@pytest.mark.parametrize(
    ("installed", "state"), [("2.60.3", "ok"), ("2.61.0", "fail"), ("2.9", "fail"), (None, "fail")]
)
def test_a_library_must_be_of_a_supported_version(installed: str | None, state: str) -> None:
    found = check_versions({"ray": ">=2.60,<2.61"}, lambda _: installed)
    assert states(found)["ray"] == state


def test_the_supported_versions_are_those_that_the_package_declares() -> None:
    assert ">=2.60" in supported()["ray"]
    assert "hypothesis" not in supported()
    assert "fail" not in states(check_versions(supported())).values()


@pytest.mark.parametrize(("free", "state"), [(10**11, "ok"), (10**9, "warn"), (10**8, "fail")])
def test_little_room_on_the_disk_is_told(free: int, state: str) -> None:
    found = list(check_disk("/nowhere/table", lambda _: free))
    assert states(found) == {"disk": state, "temporary files": state}
    assert "free at /" in found[0].told


def test_a_table_that_is_not_there_is_no_fault(tmp_path: Path) -> None:
    assert states(check_table(str(tmp_path))) == {"table": "skip"}
    assert states(check_embedder(str(tmp_path), None, asks=False)) == {"embedder": "skip"}
    assert states(check_runs(str(tmp_path), now=_NOW)) == {"runs": "skip"}
    assert states(check_journal_health(str(tmp_path / "journal"))) == {"journal": "skip"}


def test_a_table_and_its_embedder_are_looked_at(tmp_path: Path) -> None:
    uri = str(tmp_path)
    MemoryTable.open(uri, backend="parquet", embedder="wordllama")
    assert states(check_table(uri)) == {"table": "ok"}
    assert states(check_embedder(uri, None, asks=False)) == {"embedder": "ok"}
    assert states(check_embedder(uri, "none", asks=False)) == {"embedder": "fail"}


def test_a_run_that_ended_in_the_middle_is_told(tmp_path: Path) -> None:
    for name, status in (("good", "done"), ("bad", "running")):
        folder = tmp_path / "runs" / name
        folder.mkdir(parents=True)
        record = {"status": status, "heartbeat_at": "2025-01-01T10:00:00+00:00"}
        (folder / "run.json").write_text(json.dumps(record))
    [found] = check_runs(str(tmp_path), now=_NOW)
    assert (found.state, found.told) == ("warn", "1 crashed, 1 done")
    assert "runs show bad" in (found.next_step or "")


def test_a_journal_with_lines_that_cannot_be_read_is_told(tmp_path: Path) -> None:
    (tmp_path / "w-00000001.jsonl").write_text('{"torn\n')
    found = list(check_journal_health(str(tmp_path)))
    assert [finding.check for finding in found] == ["journal"]


def test_a_key_that_is_not_set_and_an_address_where_nobody_is_are_told() -> None:
    found = check_address(spec(), {})
    assert states(found) == {"key": "fail", "endpoint": "fail"}
    assert states(check_address(spec(), {"KEY": _SECRET}))["key"] == "ok"


def test_a_key_that_nobody_gave_is_not_said_to_be_needless() -> None:
    [key, _] = check_address(spec(api_key=NO_KEY), {})
    assert (key.check, key.state, key.told) == ("key", "skip", "none is given")
    assert "--key-env" in (key.next_step or "")


def refuse(code: int) -> Any:
    def ask(*_: Any) -> list[str]:
        raise urllib.error.HTTPError(f"http://h/?key={_SECRET}", code, _SECRET, Message(), None)

    return ask


@pytest.mark.parametrize(
    ("ask", "state"),
    [
        (lambda *_: ["x", "m"], "ok"),
        (lambda *_: ["x"], "warn"),
        (lambda *_: [], "warn"),
        (refuse(401), "fail"),
        (refuse(404), "warn"),
    ],
)
def test_the_model_is_looked_for_in_the_list_of_its_endpoint(ask: Any, state: str) -> None:
    [found] = check_models(spec(), {"KEY": _SECRET}, ask)
    assert found.state == state
    assert _SECRET not in repr(found)


def test_every_replica_is_asked_with_the_key() -> None:
    asked: list[tuple[str, str]] = []

    def ask(_: ModelSpec, url: str, key: str) -> list[str]:
        asked.append((url, key))
        return ["m"]

    both = spec(replicas=("http://127.0.0.1:8/v1",))
    assert len(list(check_models(both, {"KEY": "k"}, ask))) == 2
    assert asked == [("http://127.0.0.1:9/v1", "k"), ("http://127.0.0.1:8/v1", "k")]


def test_nothing_is_listed_without_a_key_that_is_wanted() -> None:
    [found] = check_models(spec(), {}, lambda *_: pytest.fail("asked"))
    assert found.state == "skip"


@pytest.mark.parametrize(
    ("outcome", "state"),
    [
        (Outcome(value=1, status="ok"), "ok"),
        (Outcome(value=1, status="ok", repaired=1), "warn"),
        (Outcome(value=None, status="parse_error", error="no JSON"), "fail"),
    ],
)
def test_a_reply_must_follow_the_schema(outcome: Outcome[Any], state: str) -> None:
    [found] = check_replies(spec(), lambda: outcome)
    assert found.state == state


def test_nothing_is_paid_unless_asked_for() -> None:
    [found] = check_replies(spec(), None)
    assert (found.state, found.next_step) == ("skip", "--ask sends one short request.")


def test_every_line_has_its_next_step() -> None:
    lines = [line.plain for line in doctor_lines([fail("disk", "full\x1b[31m", "Make room.")])]
    assert lines[0].startswith("  fail  disk  full")
    assert "\x1b" not in lines[0]
    assert lines[1].endswith("→ Make room.")
    assert "1 wrong" in lines[-1]


def test_the_command_ends_with_1_where_anything_is_wrong(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    table = str(tmp_path / "table")
    assert main(["doctor", "--offline", "--table", table]) == 0
    assert "rules instead of a model" in capsys.readouterr().out
    assert main(["doctor", "--table", table, "--json"]) == 0
    value = json.loads(capsys.readouterr().out)
    assert {"check": "endpoint", "state": "skip"}.items() <= value["checks"][-1].items()
    words = ["--model", "m", "--base-url", "http://127.0.0.1:9/v1", "--key-env", "NO_SUCH_KEY"]
    assert main(["doctor", "--table", table, *words]) == 1
    assert "fail  endpoint" in capsys.readouterr().out


def test_an_endpoint_that_cannot_be_reached_is_told_once(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    words = ["--model", "m", "--base-url", "http://127.0.0.1:9/v1"]
    assert main(["doctor", "--table", str(tmp_path / "table"), *words]) == 1
    told = capsys.readouterr().out
    assert "fail  endpoint" in told
    assert "gave no list of models" not in told


def test_a_finding_is_plain_data() -> None:
    assert Finding(check="a", state="ok", told="b").next_step is None
