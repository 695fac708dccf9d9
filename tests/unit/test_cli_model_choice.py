"""Exactly one model answers a run, and its workers share the limits of the run."""

from typing import Any

import pytest

from memorypipe.cli.model_choice import (
    EndpointModel,
    LocalModel,
    OfflineModel,
    RunLimits,
    choose_model,
)
from memorypipe.errors import InvalidArgumentError

_NOTHING = {"model": None, "base_url": None, "offline": False, "local_model": None}


@pytest.mark.parametrize(
    ("given", "wanted"),
    [
        ({"model": "m", "base_url": "u"}, EndpointModel(model="m", base_url="u")),
        ({"offline": True}, OfflineModel()),
        ({"local_model": ""}, LocalModel(path=None)),
        ({"local_model": "m.gguf"}, LocalModel(path="m.gguf")),
    ],
)
def test_each_way_chooses_its_model(given: dict[str, Any], wanted: Any) -> None:
    assert choose_model(**{**_NOTHING, **given}) == wanted


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({}, "got none"),
        ({"offline": True, "model": "m"}, "got --model/--base-url and --offline"),
        ({"offline": True, "local_model": ""}, "got --offline and --local-model"),
        ({"model": "m"}, "needs --base-url too"),
        ({"base_url": "u"}, "needs --model too"),
    ],
)
def test_no_way_or_two_ways_is_an_error_that_shows_the_three(
    given: dict[str, Any], told: str
) -> None:
    with pytest.raises(InvalidArgumentError, match=told) as caught:
        choose_model(**{**_NOTHING, **given})
    for way in ("--model NAME --base-url URL", "--offline", "--local-model [FILE.gguf]"):
        assert way in str(caught.value)


def test_limits_are_shared_out_among_the_workers() -> None:
    limits = RunLimits(workers=4, max_qps=10.0, max_concurrency=64, max_tokens_per_minute=1001)
    assert limits.per_worker() == RunLimits(
        workers=4, max_qps=2.5, max_concurrency=16, max_tokens_per_minute=250
    )


def test_no_limit_stays_no_limit() -> None:
    assert RunLimits(workers=3).per_worker() == RunLimits(workers=3)


@pytest.mark.parametrize("limit", ["max_concurrency", "max_tokens_per_minute"])
def test_there_are_no_more_workers_than_a_limit_can_be_shared_out_to(limit: str) -> None:
    shared = RunLimits(**{"workers": 8, limit: 3}).per_worker()
    assert shared.workers == 3
    assert getattr(shared, limit) == 1
