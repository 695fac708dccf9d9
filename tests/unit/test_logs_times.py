import math
from datetime import UTC, date, datetime, timedelta, timezone

import pytest

from memorypipe.logs.times import parse_time

pd = pytest.importorskip("pandas")

NOON = datetime(2025, 1, 1, 12, tzinfo=UTC)


@pytest.mark.parametrize(
    "value",
    [
        "2025-01-01T12:00:00Z",
        "2025-01-01T14:00:00+02:00",
        "2025-01-01 12:00:00 UTC",
        NOON,
        NOON.astimezone(timezone(timedelta(hours=-5))),
        pd.Timestamp("2025-01-01T12:00:00Z"),
        1735732800,
        1735732800.0,
        "1735732800",
        1735732800000,
        "1735732800000",
        1735732800000000,
        1735732800000000000,
    ],
)
def test_every_spelling_of_an_instant_gives_the_same_utc_time(value: object) -> None:
    parsed = parse_time(value)
    assert parsed.at == NOON
    assert parsed.at.tzinfo is UTC
    assert not parsed.naive


@pytest.mark.parametrize(
    "value",
    ["2025-01-01T12:00:00", "2025-01-01 12:00", datetime(2025, 1, 1, 12)],  # noqa: DTZ001
)
def test_a_time_without_a_zone_is_utc_and_reported(value: object) -> None:
    assert parse_time(value) == (NOON, True, False)


@pytest.mark.parametrize("value", ["2025-01-01", "20250101", date(2025, 1, 1)])
def test_a_day_begins_at_midnight_utc(value: object) -> None:
    assert parse_time(value).at == datetime(2025, 1, 1, tzinfo=UTC)


def test_milliseconds_keep_their_fraction() -> None:
    assert parse_time(1735732800123).at == NOON + timedelta(milliseconds=123)


@pytest.mark.parametrize("value", [None, "", "  ", math.nan, pd.NaT])
def test_a_missing_time_is_neither_naive_nor_unreadable(value: object) -> None:
    assert parse_time(value) == (None, False, False)


@pytest.mark.parametrize(
    "value", ["yesterday", "2025-13-01", math.inf, 1e30, True, ["x"], "9" * 40]
)
def test_a_value_that_is_no_time_is_reported(value: object) -> None:
    assert parse_time(value) == (None, False, True)
