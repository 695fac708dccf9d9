"""From the words of a command line to an exit code, without Ray."""

import json
from pathlib import Path

import pytest

from memorypipe.cli.main import _innermost, main


def test_no_words_ask_for_help(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([]) == 0
    assert "backfill" in capsys.readouterr().out


def test_the_version_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--version"]) == 0
    assert capsys.readouterr().out.startswith("memorypipe 0.")


@pytest.mark.parametrize(
    "words",
    [
        ["nonsense"],
        ["backfill"],
        ["backfill", "log", "--nonsense"],
        ["backfill", "log", "--workers", "0", "--offline"],
        ["backfill", "log", "--lookup", "best", "--offline"],
        ["backfill", "log"],
        ["plan", "log", "--offline", "--local-model"],
        ["plan", "no-such-log", "--offline"],
        ["apply", "run_1", "--max-failed", "many"],
        ["show", "--limit", "x"],
        ["history"],
        ["runs", "--json", "show", "run_1"],
    ],
)
def test_what_cannot_be_meant_is_a_usage_error_on_one_line(
    words: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(words) == 2
    told = capsys.readouterr()
    assert told.err.startswith("error: ")
    assert len(told.err.splitlines()) == 1


def test_a_choice_that_is_none_is_told_without_the_name_of_an_exception(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["import", "x", "--from", "json"]) == 2
    assert "Invalid value for '--from': 'json' is not one of" in capsys.readouterr().err


@pytest.mark.parametrize("bound", ["--max-calls", "--max-total-tokens", "--max-cost"])
def test_an_estimate_refuses_the_bounds_of_a_run_and_says_why(
    bound: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["estimate", "no-such-log", "--offline", "--calibrate", "5", bound, "3"]) == 2
    told = capsys.readouterr().err
    assert f"{bound} bounds a run" in told
    assert "--calibrate" in told
    main(["estimate", "--help"])
    assert bound not in capsys.readouterr().out


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["show"], "no memory table"),
        (["history", "mem_1"], "no memory table"),
        (["runs"], "no memory table"),
        (["runs", "show", "run_1"], "run_1"),
        (["apply", "run_1"], "run_1"),
    ],
)
def test_what_is_not_there_is_an_error_and_one_json_object(
    words: list[str], told: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([*words, "--table", str(tmp_path / "none"), "--json"]) == 1
    written = capsys.readouterr()
    value = json.loads(written.out)
    assert value["status"] == "failed"
    assert told in value["error"]
    assert "Traceback" not in written.err
    assert not (tmp_path / "none").exists()


def test_the_table_comes_from_the_environment_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("MEMORYPIPE_TABLE", str(tmp_path / "from-the-environment"))
    assert main(["show"]) == 1
    assert "from-the-environment" in capsys.readouterr().err


def test_a_traceback_is_shown_only_where_it_is_asked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("MEMORYPIPE_DEBUG", "1")
    assert main(["show", "--table", str(tmp_path / "none")]) == 1
    assert "Traceback" in capsys.readouterr().err


def test_the_help_of_a_command_shows_its_options_in_groups(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["backfill", "--help"]) == 0
    shown = capsys.readouterr().out
    groups = ["Arguments:", "Log:", "Options:", "Model (choose one):", "Limits of the whole run:"]
    places = [shown.index(f"\n{group}\n") for group in groups]
    assert places == sorted(places)
    assert "  --local-model [FILE.gguf]  " in shown


def test_of_an_error_that_nobody_foresaw_the_innermost_is_told() -> None:
    wrapped = RuntimeError("a hundred lines")
    wrapped.__cause__ = ValueError("between")
    wrapped.__cause__.cause = KeyError("what went wrong")  # type: ignore[attr-defined]  # as Ray's
    wrapped.__cause__.cause.__cause__ = RuntimeError()  # type: ignore[attr-defined]  # as Ray's
    assert repr(_innermost(wrapped)) == "KeyError('what went wrong')"
