from datetime import UTC, datetime

import pytest

from memorypipe.llm.limits.rate_headers import RateReader, pause_wanted_s, read_rate_state
from memorypipe.llm.types import RateState

NOW = datetime(2026, 1, 1, 12, 0, tzinfo=UTC)


def test_the_headers_of_openai_are_read() -> None:
    headers = {
        "x-ratelimit-limit-requests": "60",
        "x-ratelimit-remaining-requests": "59",
        "x-ratelimit-reset-requests": "1s",
        "x-ratelimit-remaining-tokens": "149984",
        "x-ratelimit-reset-tokens": "6m0s",
    }
    assert read_rate_state(headers) == RateState(
        remaining_requests=59,
        reset_requests_s=1.0,
        remaining_tokens=149_984,
        reset_tokens_s=360.0,
    )


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("20ms", 0.02),
        ("1s", 1.0),
        ("1.5s", 1.5),
        ("6m0s", 360.0),
        ("1h2m3s", 3_723.0),
        ("2m59.56s", 179.56),
        ("7", 7.0),
        ("0", 0.0),
        ("1767268830", 30.0),
        ("2026-01-01T12:00:05Z", 5.0),
        ("2026-01-01t12:00:05z", 5.0),
        ("2026-01-01T13:00:05.500+01:00", 5.5),
        ("2025-12-31T00:00:00Z", 0.0),
        ("soon", None),
        ("", None),
        ("1s later", None),
        ("nan", None),
    ],
)
def test_a_reset_is_read_in_every_form_in_use(text: str, seconds: float | None) -> None:
    headers = {"x-ratelimit-remaining-requests": "0", "x-ratelimit-reset-requests": text}
    state = read_rate_state(headers, now=NOW)
    assert state is not None
    assert state.reset_requests_s == (None if seconds is None else pytest.approx(seconds))


def test_the_headers_of_anthropic_are_read() -> None:
    headers = {
        "anthropic-ratelimit-requests-remaining": "0",
        "anthropic-ratelimit-requests-reset": "2026-01-01T12:00:30Z",
        "anthropic-ratelimit-tokens-remaining": "8000",
        "anthropic-ratelimit-tokens-reset": "2026-01-01T12:00:10Z",
    }
    assert read_rate_state(headers, now=NOW) == RateState(
        remaining_requests=0, reset_requests_s=30.0, remaining_tokens=8_000, reset_tokens_s=10.0
    )


def test_the_headers_of_the_ietf_draft_are_read() -> None:
    headers = {"ratelimit-remaining": "0", "ratelimit-reset": "50"}
    assert read_rate_state(headers) == RateState(remaining_requests=0, reset_requests_s=50.0)


def test_a_count_that_cannot_be_read_is_none() -> None:
    headers = {"x-ratelimit-remaining-requests": "many", "x-ratelimit-remaining-tokens": "12.0"}
    assert read_rate_state(headers) == RateState(remaining_tokens=12)


def test_other_headers_tell_nothing() -> None:
    assert read_rate_state({"content-type": "application/json", "date": "now"}) is None


@pytest.mark.parametrize(
    ("rate", "wait_s"),
    [
        (RateState(remaining_requests=1, reset_requests_s=9.0), 0.0),
        (RateState(remaining_requests=0, reset_requests_s=9.0), 9.0),
        (RateState(remaining_requests=0), 0.0),
        (RateState(remaining_tokens=100, reset_tokens_s=9.0), 0.0),
        (RateState(remaining_tokens=99, reset_tokens_s=9.0), 9.0),
        (
            RateState(
                remaining_requests=0,
                reset_requests_s=2.0,
                remaining_tokens=0,
                reset_tokens_s=3.0,
            ),
            3.0,
        ),
    ],
)
def test_a_pause_is_wanted_where_a_call_would_be_refused(rate: RateState, wait_s: float) -> None:
    assert pause_wanted_s(rate, 100.0) == wait_s


def test_every_response_is_read_of_an_endpoint_that_tells_its_limits() -> None:
    reader = RateReader()
    headers = {"ratelimit-remaining": "3"}
    assert all(reader.read(headers) is not None for _ in range(40))


def test_an_endpoint_that_begins_to_tell_its_limits_is_noticed_soon() -> None:
    reader = RateReader()
    assert reader.read({}) is None
    states = [reader.read({"ratelimit-remaining": "3"}) for _ in range(20)]
    assert states[:15] == [None] * 15
    assert None not in states[15:]
