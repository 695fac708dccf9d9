import random

import pytest

from memorypipe.errors import EndpointError, RejectedRequestError, RetryableModelError
from memorypipe.llm.retry import EndpointHealth, is_retryable, next_wait_s

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


def test_an_endpoint_that_never_answered_is_under_full_strain() -> None:
    health = EndpointHealth()
    assert health.strain == 1.0
    health.success(10.0)
    assert health.strain == 0.0


@pytest.mark.parametrize(("share", "at_least"), [(0.0, 3), (1 / 3, 8), (0.9, 70)])
def test_more_failures_in_a_row_than_chance_explains_are_full_strain(
    share: float, at_least: int
) -> None:
    health = EndpointHealth()
    health.success(0.0)
    dice = random.Random(7)  # noqa: S311  # which attempts fail
    for number in range(1_000):
        if dice.random() < share:
            health.failure(BUSY, number * 0.01)
        else:
            health.success(number * 0.01)
    health.success(10.0)
    in_a_row = 0
    while health.strain < 1.0:
        health.failure(BUSY, 10.0)
        in_a_row += 1
    assert at_least <= in_a_row <= 2 * at_least
    health.success(10.0)
    assert health.strain < 1.0, "one reply shows that it is at work"


@pytest.mark.parametrize("error", [BUSY, WRONG_KEY])
def test_a_row_outlives_an_endpoint_that_refuses_the_few_calls_it_gets_for_seconds(
    error: RetryableModelError | EndpointError,
) -> None:
    """One call at a time, refused at once, or while a key is exchanged: attempts last a while."""
    health, waited = EndpointHealth(), 0.0
    health.success(0.0)
    rng = random.Random(7)  # noqa: S311  # jitter
    for attempt in range(1, 7):
        health.failure(error, waited)
        waited += next_wait_s(error, attempt, rng=rng, strain=health.strain)
    assert waited > 3.0


def test_what_a_slow_refusal_took_counts_as_waited_but_where_nobody_is_answered() -> None:
    def waits(strain: float, taken_s: float) -> list[float]:
        rng = random.Random(7)  # noqa: S311  # jitter
        return [next_wait_s(BUSY, 3, rng=rng, strain=strain, taken_s=taken_s) for _ in range(100)]

    assert waits(0.5, 0.2) == [max(0.0, wait_s - 0.2) for wait_s in waits(0.5, 0.0)]
    assert waits(0.5, 60.0) == [0.0] * 100
    assert waits(1.0, 60.0) == waits(1.0, 0.0)
    busy = RetryableModelError("busy", "http_429", 7.0)
    rng = random.Random(7)  # noqa: S311  # jitter
    assert next_wait_s(busy, 1, rng=rng, strain=0.5, taken_s=60.0) == 7.0, "obeyed"


def test_the_strain_is_the_share_of_attempts_that_fail() -> None:
    health = EndpointHealth()
    dice = random.Random(7)  # noqa: S311  # which attempts fail
    seen = []
    for number in range(2_000):
        if dice.random() < 1 / 3:
            health.failure(BUSY, number * 0.01)
        else:
            health.success(number * 0.01)
        seen.append(health.strain)
    assert sum(seen[200:]) / len(seen[200:]) == pytest.approx(1 / 3, abs=0.03)


def test_what_is_rejected_for_good_is_no_strain() -> None:
    health = EndpointHealth()
    health.success(0.0)
    health.failure(RejectedRequestError("no"), 0.1)
    assert health.strain == 0.0


@pytest.mark.parametrize(
    ("strain", "first_s", "longest_s"),
    [(0.0, 0.02, 0.02), (1 / 3, 0.5 / 9, 30 / 81), (0.5, 0.125, 1.875), (1.0, 0.5, 30.0)],
)
def test_waits_are_short_while_most_are_answered(
    strain: float, first_s: float, longest_s: float
) -> None:
    rng = random.Random(7)  # noqa: S311  # jitter
    for attempt, upper_s in ((1, first_s), (1_000, longest_s)):
        waits = [next_wait_s(BUSY, attempt, rng=rng, strain=strain) for _ in range(500)]
        assert upper_s * 0.95 < max(waits) <= upper_s


def test_an_endpoint_that_turns_a_third_away_costs_little_more_than_half_as_many_again() -> None:
    """Each request is sent 1.5 times; all waits together stay a small part of a run."""
    rng = random.Random(7)  # noqa: S311  # jitter
    busy, waited, sent = RetryableModelError("busy", "http_429"), 0.0, 0
    for _ in range(5_000):
        attempt = 1
        while rng.random() < 1 / 3:
            waited += next_wait_s(busy, attempt, rng=rng, strain=1 / 3)
            attempt += 1
        sent += attempt
    assert sent / 5_000 == pytest.approx(1.5, rel=0.03)
    # With calls of a second the run takes a thirtieth longer than the sendings themselves.
    assert waited / 5_000 < 0.05
