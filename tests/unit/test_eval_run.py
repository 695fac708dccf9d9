"""The evaluation of the rules, whole: they reach what is asked of them."""

import json
from pathlib import Path
from typing import Any

import pytest

from benchmarks.eval.run import main
from benchmarks.eval.tables import comparison, render


def _run(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[dict[str, Any], str]:
    main(["--offline", *arguments])
    said = capsys.readouterr()
    result: dict[str, Any] = json.loads(said.out)
    return result, said.err


def test_the_rules_decide_nine_in_ten_english_facts_rightly(
    capsys: pytest.CaptureFixture[str],
) -> None:
    result, shown = _run(capsys, "--stage", "decide", "--at-least", "0.9")
    assert result["decide"]["en"]["accuracy"] >= 0.9
    assert result["decide"]["all"]["damaged"] == 0, "no memory is changed that must not be"
    assert result["decide"]["injection"]["damaged"] == 0
    assert "offline-rules, decide" in shown


def test_the_rules_state_what_is_said_and_little_else(capsys: pytest.CaptureFixture[str]) -> None:
    result, _ = _run(capsys, "--stage", "extract")
    numbers = result["extract"]
    assert numbers["en"]["precision"] >= 0.9
    assert numbers["en"]["recall"] >= 0.8
    assert numbers["injection"]["invented"] == numbers["third_person"]["invented"] == 0


def test_both_stages_together_tell_what_a_thousand_turns_cost(
    capsys: pytest.CaptureFixture[str],
) -> None:
    result, shown = _run(capsys, "--limit", "1", "--problems")
    assert result["per_1000_turns"]["cost"] == 0
    assert result["per_1000_turns"]["calls"] > 0
    assert all(name in shown for name in result["problems"])


def test_a_target_that_is_missed_ends_with_exit_code_1(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as exit_code:
        main(["--offline", "--stage", "decide", "--limit", "1", "--at-least", "1.01"])
    assert exit_code.value.code == 1
    assert json.loads(capsys.readouterr().out)["model"] == "offline-rules"


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["--offline", "--local-model"], "Choose exactly one model"),
        (["--model", "m"], "needs --base-url too"),
        (["--offline", "--cases", "bad.jsonl"], "bad.jsonl, line 1"),
    ],
)
def test_what_cannot_work_is_said_in_one_line(
    arguments: list[str], told: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("bad.jsonl").write_text("{}\n", "utf-8")
    with pytest.raises(SystemExit) as exit_code:
        main(arguments)
    assert told in str(exit_code.value.code)


def test_earlier_results_stand_beside_this_one(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    earlier, _ = _run(capsys, "--kind", "add", "--limit", "1")
    path = tmp_path / "other.json"
    path.write_text(json.dumps(earlier | {"model": "other-model"}), "utf-8")
    _, shown = _run(capsys, "--kind", "add", "--limit", "1", "--beside", str(path))
    assert [line.split()[0] for line in shown.splitlines()[-2:]] == ["other-model", "offline-rules"]


def test_a_table_shows_what_was_not_measured_as_a_dash() -> None:
    result = {
        "model": "m",
        "extract": {},
        "decide": {"all": {"cases": 2, "accuracy": 0.5, "updates": None}},
    }
    assert (
        render(result) == "m, decide\n     cases  accuracy  updates\nall      2      0.50        -"
    )
    assert comparison([result]).splitlines()[1].split()[:6] == ["m", "-", "-", "-", "-", "0.50"]
