from datetime import UTC, datetime

import pytest

from memorypipe.cells.metadata import applied_metadata, metadata_key, timestamp_value
from memorypipe.errors import InvalidArgumentError


def test_metadata_is_compared_by_keys_types_and_values() -> None:
    base = metadata_key('{"a":1.0,"b":"x"}')
    assert metadata_key('{"b":"x","a":1}') == base
    assert metadata_key('{"a":"1.0","b":"x"}') != base
    assert metadata_key('{"a":true,"b":"x"}') != base
    assert metadata_key('{"a":1.0}') != base
    assert metadata_key("{}") == metadata_key(None) != base


def test_times_are_compared_to_the_second_and_are_no_strings() -> None:
    at = '{"t":{"timestamp_value":"2026-01-01T00:00:00.900000+00:00"}}'
    same = '{"t":{"timestamp_value":"2026-01-01T01:00:00+01:00"}}'
    assert metadata_key(at) == metadata_key(same)
    assert metadata_key('{"t":"2026-01-01T00:00:00+00:00"}') != metadata_key(at)
    moment = datetime(2026, 1, 1, tzinfo=UTC)
    assert timestamp_value(moment) == {"timestamp_value": "2026-01-01T00:00:00+00:00"}


@pytest.mark.parametrize(
    ("before", "given", "strategy", "after"),
    [
        ('{"a":1}', None, "OVERWRITE", '{"a":1}'),
        ('{"a":1}', "{}", "OVERWRITE", "{}"),
        ('{"a":1}', '{"b":2}', "OVERWRITE", '{"b":2}'),
        ('{"a":1,"b":1}', '{"b":2}', "MERGE", '{"a":1,"b":2}'),
        ('{"a":1}', None, "MERGE", '{"a":1}'),
        (None, '{"b":2}', "MERGE", '{"b":2}'),
        ('{"a":1}', '{"a":1}', "REQUIRE_EXACT_MATCH", '{"a":1}'),
    ],
)
def test_each_strategy_gives_its_metadata(
    before: str | None, given: str | None, strategy: str, after: str | None
) -> None:
    assert applied_metadata(before, given, strategy) == after


def test_metadata_that_is_no_object_is_refused() -> None:
    with pytest.raises(InvalidArgumentError, match="list"):
        metadata_key("[1]")
