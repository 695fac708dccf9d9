"""What is measured takes the place of what is assumed, with a range that holds the middle."""

from dataclasses import fields
from typing import Any

import pytest

from memorypipe.pipeline.estimates.behaviour import (
    ASSUMED,
    Behaviour,
    MeasuredDecision,
    MeasuredExtraction,
    assumed,
    measure_decisions,
    measure_extractions,
)


def extraction(facts: float, **changes: float) -> MeasuredExtraction:
    values: dict[str, Any] = {
        "new_tokens": 500,
        "facts": facts,
        "counted_tokens": 1000,
        "prompt_tokens": 1200,
        "completion_tokens": 6 + 20 * facts,
        "latency_s": 1.0,
    }
    return MeasuredExtraction(**{**values, **changes})


def test_what_is_assumed_has_a_range_around_it() -> None:
    guess = assumed()
    assert guess.mid == ASSUMED
    assert guess.low.facts_per_1000_tokens < ASSUMED.facts_per_1000_tokens
    assert guess.high.tokens_per_action > ASSUMED.tokens_per_action


def test_the_measured_rate_is_that_of_all_calls_together() -> None:
    calls = [extraction(2), extraction(6), extraction(1, new_tokens=1000)]
    mid = measure_extractions(assumed(), calls, seed=0).mid
    assert mid.facts_per_1000_tokens == pytest.approx(4.5)
    assert mid.tokens_per_fact == pytest.approx(20)
    assert mid.prompt_scale == pytest.approx(1.2)
    assert (mid.latency_s, mid.latency_per_token_s) == (1.0, 0.0)


def test_the_range_is_ordered_and_narrows_with_more_calls() -> None:
    few = measure_extractions(assumed(), [extraction(n) for n in (1, 3, 8)], seed=0)
    many = measure_extractions(assumed(), [extraction(n) for n in (1, 3, 8)] * 50, seed=0)

    def width(found: Any) -> float:
        return float(found.high.facts_per_1000_tokens - found.low.facts_per_1000_tokens)

    assert 0 < width(many) < width(few)
    for name in (field.name for field in fields(Behaviour)):
        low, mid, high = (getattr(end, name) for end in (few.low, few.mid, few.high))
        assert low is mid is high is None or low <= mid <= high, name


def test_equal_samples_give_equal_ranges() -> None:
    calls = [extraction(n) for n in (1, 3, 8)]
    assert measure_extractions(assumed(), calls, seed=3) == measure_extractions(
        assumed(), calls, seed=3
    )


def test_an_endpoint_that_tells_no_tokens_leaves_what_is_assumed_of_them() -> None:
    silent = extraction(4, prompt_tokens=0, completion_tokens=0)
    mid = measure_extractions(assumed(), [silent, silent], seed=0).mid
    assert (mid.prompt_scale, mid.tokens_per_fact) == (1.0, ASSUMED.tokens_per_fact)
    assert mid.facts_per_1000_tokens == pytest.approx(8.0)


def test_no_fact_at_all_is_a_rate_of_zero() -> None:
    found = measure_extractions(assumed(), [extraction(0), extraction(0)], seed=0)
    assert (found.low.facts_per_1000_tokens, found.high.facts_per_1000_tokens) == (0.0, 0.0)


def test_decisions_tell_the_share_of_adds_and_the_size_of_an_action() -> None:
    calls = [
        MeasuredDecision(facts=10, added=8, completion_tokens=306, latency_s=3.0),
        MeasuredDecision(facts=10, added=6, completion_tokens=306, latency_s=5.0),
    ]
    mid = measure_decisions(assumed(), calls, seed=0).mid
    assert (mid.add_share, mid.tokens_per_action, mid.decide_latency_s) == (0.7, 30.0, 4.0)


def test_a_value_that_is_known_for_sure_has_no_range() -> None:
    sure = assumed().change(latency_s=0.2)
    assert {sure.low.latency_s, sure.mid.latency_s, sure.high.latency_s} == {0.2}
