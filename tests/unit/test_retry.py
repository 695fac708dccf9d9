import random

import pytest

from memorypipe.errors import EndpointError, RejectedRequestError, RetryableModelError
from memorypipe.llm.retry import EndpointHealth, is_retryable, next_wait_s, wait_base_s

BUSY = RetryableModelError("busy", "http_503")
WRONG_KEY = EndpointError("wrong key", status=401)


def _waits(attempt: int, count: int = 2_000) -> list[float]:
    rng = random.Random(7)  # noqa: S311  # jitter
    return [next_wait_s(BUSY, attempt, rng=rng) for _ in range(count)]


@pytest.mark.parametrize(
    ("attempt", "upper_s"), [(1, 0.5), (2, 1.0), (3, 2.0), (7, 30.0), (5_000, 30.0)]
)
def test_waits_are_spread_evenly_below_a_bound_that_doubles(attempt: int, upper_s: float) -> None:
    waits = _waits(attempt)
    assert 0 <= min(waits) <= max(waits) <= upper_s
    assert sum(waits) / len(waits) == pytest.approx(upper_s / 2, rel=0.05)


def test_the_same_dice_give_the_same_waits() -> None:
    assert _waits(3) == _waits(3)


@pytest.mark.parametrize(
    ("asked_s", "wait_s"), [(0.0, 0.0), (0.25, 0.25), (90.0, 90.0), (86_400.0, 300.0), (-5.0, 0.0)]
)
def test_what_the_endpoint_asks_for_is_obeyed_up_to_five_minutes(
    asked_s: float, wait_s: float
) -> None:
    error = RetryableModelError("busy", "http_429", asked_s)
    assert next_wait_s(error, 1, rng=random.Random(0)) == wait_s  # noqa: S311  # jitter


def test_only_retryable_errors_are_retried() -> None:
    assert is_retryable(BUSY)
    assert not is_retryable(WRONG_KEY)
    assert not is_retryable(RejectedRequestError("no"))
    assert not is_retryable(KeyError("no"))


def test_an_endpoint_that_never_answered_stops_the_job_at_once() -> None:
    assert EndpointHealth().failure(WRONG_KEY, 0.0) == "stop"


def test_an_endpoint_that_has_answered_gets_sixty_seconds() -> None:
    health = EndpointHealth()
    health.success(0.0)
    assert health.failure(WRONG_KEY, 100.0) == "retry", "idle time does not count"
    assert health.failure(WRONG_KEY, 159.9) == "retry"
    assert health.failure(WRONG_KEY, 160.0) == "stop"


def test_a_success_begins_the_sixty_seconds_anew() -> None:
    health = EndpointHealth()
    health.success(0.0)
    assert health.failure(WRONG_KEY, 1.0) == "retry"
    health.success(50.0)
    assert health.failure(WRONG_KEY, 62.0) == "retry"
    assert health.failure(WRONG_KEY, 121.9) == "retry"
    assert health.failure(WRONG_KEY, 122.0) == "stop"


def test_failures_that_say_nothing_about_key_and_address_never_stop_the_job() -> None:
    health = EndpointHealth()
    assert health.failure(BUSY, 0.0) == "retry"
    assert health.failure(RejectedRequestError("no"), 1_000.0) == "retry"
    assert health.failure(WRONG_KEY, 1_001.0) == "stop"


def test_an_endpoint_answers_while_its_last_reply_is_younger_than_a_second() -> None:
    health = EndpointHealth()
    assert not health.answers(0.0)
    health.success(10.0)
    assert health.answers(10.9)
    assert not health.answers(11.0)


@pytest.mark.parametrize(
    ("kind", "answering", "base_s"),
    [
        ("http_429", True, 0.1),
        ("http_429", False, 0.5),
        ("http_503", True, 0.5),
        ("connection", True, 0.5),
    ],
)
def test_who_is_turned_away_by_an_endpoint_at_work_waits_little(
    kind: str, *, answering: bool, base_s: float
) -> None:
    assert wait_base_s(RetryableModelError("x", kind), answering=answering) == base_s
    assert wait_base_s(WRONG_KEY, answering=answering) == 0.5


def test_the_first_wait_begins_at_the_base_given() -> None:
    rng = random.Random(7)  # noqa: S311  # jitter
    waits = [next_wait_s(BUSY, 1, rng=rng, base_s=0.1) for _ in range(500)]
    assert 0.09 < max(waits) <= 0.1


def test_an_endpoint_that_turns_a_third_away_costs_little_more_than_half_as_many_again() -> None:
    """Each request is sent 1.5 times; all waits together stay a small part of a run."""
    rng = random.Random(7)  # noqa: S311  # jitter
    busy, waited, sent = RetryableModelError("busy", "http_429"), 0.0, 0
    base_s = wait_base_s(busy, answering=True)
    for _ in range(5_000):
        attempt = sent_now = 1
        while rng.random() < 1 / 3:
            waited += next_wait_s(busy, attempt, rng=rng, base_s=base_s)
            attempt, sent_now = attempt + 1, sent_now + 1
        sent += sent_now
    assert sent / 5_000 == pytest.approx(1.5, rel=0.03)
    # With calls of a second the run takes a twentieth longer than the sendings themselves.
    assert waited / 5_000 < 0.075
