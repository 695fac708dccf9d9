"""The closing summary says what was asked of a run, what has changed, and why it stopped."""

from typing import Any

from memorypipe.cli.render_run import stopped_message, summary_lines
from memorypipe.pipeline.runs.summary import RunSummary


def shown(**values: Any) -> str:
    summary = RunSummary(run_id="r", status="done", **values)
    return "\n".join(line.plain for line in summary_lines(summary, (), table="t", next_steps=()))


def test_a_plain_run_says_nothing_of_it() -> None:
    heads = {line.split()[0] for line in shown().splitlines()}
    assert heads == {"done", "log", "memories", "model", "table"}


def test_what_was_asked_beside_the_log() -> None:
    asked = {
        "selection": {"since": "2025-01-01T00:00:00+00:00", "sample": 0.005, "seed": 1},
        "labels": {"night": "2"},
        "reprocess": {},
    }
    text = shown(request=asked)
    for part in ("since 2025-01-01", "0.5 % of the scopes", "label night 2", "again everything"):
        assert part in text
    assert "again model m" in shown(request={"reprocess": {"model": "m"}})


def test_a_changed_model_is_told_with_what_it_means() -> None:
    text = shown(changed={"extract_model": ["a", "b"]})
    assert "extract model a → b" in text
    assert "new messages only; --reprocess" in text


def test_conversations_that_a_period_left_out_are_told() -> None:
    assert "nothing dates them: 3 conversations" in shown(undated=3)


def test_a_budget_tells_what_all_of_its_runs_have_spent() -> None:
    budget = {"id": "jan", "calls": 1_200, "tokens": 5_000.0, "cost": 0.0}
    assert "jan: 1,200 calls · 5,000 tokens so far, all its runs" in shown(budget=budget)
    by = {"bound": "max_calls", "limit": 1_200, "used": 7, "reason": "…"}
    summary = RunSummary(run_id="r", status="stopped", stopped_by=by, budget=budget)
    assert "--max-calls of budget jan: 1,200 of 1,200 used" in stopped_message(summary)


def test_a_run_that_gave_up_says_that_most_calls_fail() -> None:
    by = {"bound": "failures", "limit": None, "used": None, "reason": "190 of 200 have failed."}
    summary = RunSummary(run_id="r", status="stopped", stopped_by=by)
    assert "most calls fail: 190 of 200 have failed. The same command" in stopped_message(summary)
