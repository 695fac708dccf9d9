import os
from pathlib import Path

import orjson
import pyarrow as pa

from memorypipe.logs.known import pack_keys
from memorypipe.streams.ids import free_occurrence
from memorypipe.streams.segments import (
    OPERATIONS,
    KeySegment,
    RowSegment,
    open_keys,
    open_rows,
    write_keys,
    write_rows,
)
from memorypipe.streams.state import Sealed, StreamState


def rows(*pairs: tuple[bytes, int]) -> pa.Table:
    return pa.Table.from_pylist(
        [{"stream": key * 16, "number": number, "rest": str(number)} for key, number in pairs],
        OPERATIONS,
    )


def test_rows_of_a_stream_are_found_by_their_numbers(tmp_path: Path) -> None:
    tables = [rows((b"b", 5), (b"a", 1), (b"b", 2)), rows((b"b", 3), (b"c", 9), (b"\0", 4))]
    named, content = write_rows("x", tables)
    path = tmp_path / named.name
    path.write_bytes(content)
    segment = RowSegment(open_rows(path))
    assert named.rows == 6
    assert segment.of(b"b" * 16, 1, 5)["number"].to_pylist() == [2, 3, 5]
    assert segment.of(b"b" * 16, 2, 4)["number"].to_pylist() == [3]
    assert segment.of(b"\0" * 16, -1, 9)["number"].to_pylist() == [4]
    assert segment.of(b"d" * 16, -1, 9).num_rows == 0
    found = segment.first([b"d" * 16, b"b" * 16, b"\xff" * 16, b"\0" * 16])
    assert found.select(["stream", "number"]).to_pylist() == [
        {"stream": b"b" * 16, "number": 2},
        {"stream": b"\0" * 16, "number": 4},
    ]
    assert segment.first([]).num_rows == 0


def test_keys_are_merged_and_found(tmp_path: Path) -> None:
    keys = [os.urandom(15) + bytes([n % 2]) for n in range(100)]
    parts = [pack_keys(keys[:30]), pack_keys(keys[30:])]
    named, content = write_keys(parts)
    path = tmp_path / named.name
    path.write_bytes(content)
    segment = KeySegment(open_keys(path))
    assert segment.keys.tolist() == sorted(keys)
    assert segment.known([*keys, b"x" * 16]) == set(keys)


def test_a_free_occurrence_is_found_for_any_number_before_it() -> None:
    for taken in range(70):
        assert free_occurrence(range(taken).__contains__) == taken


def test_what_is_sealed_can_be_given_back_or_left_behind() -> None:
    state = StreamState(scope_key="s", stream_id="d", config={"labels": {"a": "1"}})
    state = state.with_events(2, 10).with_events(1, 20)
    sealed = state.seal("run", 99, None)
    assert (sealed.pending, sealed.operation, sealed.config) == (0, 2, {})
    assert isinstance(sealed.sealed, Sealed)
    later = sealed.with_events(1, 30)
    back = later.reopened()
    assert (back.pending, back.oldest_us, back.newest_us, back.attempts) == (4, 10, 30, 1)
    assert back.config == {"labels": {"a": "1"}}
    on = later.processed()
    assert (on.pending, on.flushed, on.flushes, on.oldest_us) == (1, 99, (99,), 30)
    assert StreamState.from_dict(orjson.loads(orjson.dumps(sealed))) == sealed
