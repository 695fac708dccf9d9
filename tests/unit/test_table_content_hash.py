"""The hash of Arrow values."""

from datetime import UTC, datetime
from typing import Any

import pyarrow as pa
import pytest

from memorypipe.table.content_hash import content_hash

STRINGS, LISTS = pa.string(), pa.list_(pa.string())

COLUMNS = [
    pa.array(["ab", "c"], STRINGS),
    pa.array(["a", "bc"], STRINGS),
    pa.array(["ab", "c", None], STRINGS),
    pa.array(["ab", "c", ""], STRINGS),
    pa.array([None, "ab", "c"], STRINGS),
    pa.array([["a"], ["b"]], LISTS),
    pa.array([["a", "b"], []], LISTS),
    pa.array([["a", "b"], None], LISTS),
    pa.array([["a", None], []], LISTS),
    pa.array([1, 2]),
    pa.array([1, None]),
    pa.array([datetime(2024, 1, 1, tzinfo=UTC), None], pa.timestamp("us", "UTC")),
]


def test_different_values_have_different_hashes() -> None:
    hashes = [content_hash(pa.table({"a": column})) for column in COLUMNS]
    hashes.append(content_hash(pa.table({"b": COLUMNS[0]})))
    hashes.append(content_hash(pa.table({"a": COLUMNS[0]}), pa.table({"a": COLUMNS[0]})))
    assert len(set(hashes)) == len(hashes)


@pytest.mark.parametrize("column", COLUMNS)
def test_chunks_and_slices_do_not_count(column: Any) -> None:
    table = pa.table({"a": column})
    twice = pa.concat_tables([table, table])
    for other in (
        twice.slice(len(column)),
        pa.concat_tables([table[:1], table[1:]]),
        table.take(list(range(len(column)))),
    ):
        assert content_hash(other) == content_hash(table)
