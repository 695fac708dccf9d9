"""An estimate as people read it."""

from dataclasses import replace
from typing import Any

import pytest

from memorypipe.cli.render_estimate import estimate_lines
from memorypipe.pipeline.estimates.behaviour import ASSUMED
from memorypipe.pipeline.estimates.calibration import Spent
from memorypipe.pipeline.estimates.estimate import Estimate, Range


def made(**changes: Any) -> Estimate:
    some = Range(low=10, mid=20, high=30)
    estimate = Estimate(
        conversations=5,
        windows=9,
        rejected_lines=0,
        journal_hits=0,
        calls_extract=9,
        facts=some,
        calls_decide=some,
        calls=some,
        tokens_in=Range(low=9_000, mid=10_000, high=11_000),
        tokens_out=some,
        cost=None,
        wall_s=Range(low=60, mid=90, high=200),
        longest_scope_calls=some,
        limit="max_qps",
        model="m",
        tokenizer="estimate",
        measured_calls=0,
        behaviour=ASSUMED,
        spent=Spent(),
    )
    return replace(estimate, **changes)


def text(**changes: Any) -> str:
    return "\n".join(line.plain for line in estimate_lines(made(**changes)))


def test_the_table_tells_numbers_with_ranges_and_what_they_rest_on() -> None:
    shown = text()
    assert "9 extract + 20 (10 - 30) decide" in shown
    assert "10,000 (9,000 - 11,000)" in shown
    assert "1 min 30 s (1 min 0 s - 3 min 20 s)" in shown
    assert "--max-qps" in shown
    assert "--calibrate N" in shown


def test_without_prices_it_says_how_to_give_them() -> None:
    assert "--price-in" in text()
    assert "1.5000 (1.0000 - 2.0000)" in text(cost=Range(low=1, mid=1.5, high=2))


def test_what_was_measured_and_spent_is_told() -> None:
    spent = Spent(calls=40, tokens_in=4_000, tokens_out=500, cost=0.01)
    shown = text(measured_calls=32, spent=spent)
    assert "on 32 replies" in shown
    assert "40 calls to calibrate, 4,000 + 500 tokens, cost 0.0100" in shown
    assert "assumed" not in shown


def test_a_log_without_anything_new_and_lines_that_cannot_be_read_are_told() -> None:
    assert "nothing new in it" in text(windows=0)
    assert "4 of them answered already" in text(journal_hits=4)
    assert "3 lines" in text(rejected_lines=3)


@pytest.mark.parametrize("cost", [None, Range(low=0.1, mid=0.2, high=0.3)])
def test_as_json_the_middle_stands_on_top_and_the_ends_below(cost: Range | None) -> None:
    value = made(cost=cost).to_dict()
    assert (value["status"], value["windows"], value["calls"]) == ("estimated", 9, 20)
    assert (value["low"]["calls"], value["high"]["tokens_in"]) == (10, 11_000)
    assert value["cost"] == (None if cost is None else 0.2)
    assert value["behaviour"]["facts_per_1000_tokens"] == ASSUMED.facts_per_1000_tokens
