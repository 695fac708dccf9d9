"""Texts are found wherever they stand and however they are written; nothing else is."""

import io
import json
from typing import Any

import orjson
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from memorypipe.table.erasing.needles import Needles, text_buffers

_MARKER = 'Says "hé" to Zoë\nat 日本橋'


@pytest.mark.parametrize(
    "data",
    [
        _MARKER.encode(),
        orjson.dumps({"a": _MARKER}),
        json.dumps({"a": _MARKER}).encode(),
        orjson.dumps({"reply": orjson.dumps([_MARKER]).decode()}),
        json.dumps({"reply": json.dumps([_MARKER])}).encode(),
    ],
    ids=["plain", "json", "ascii json", "json in json", "ascii json in ascii json"],
)
def test_a_text_is_found_as_itself_and_as_json_writes_it(data: bytes) -> None:
    assert Needles([_MARKER, "something else"]).found_in(b"\x00\x01" + data) == {_MARKER}


@pytest.mark.parametrize("at", [0, 1, (1 << 20) - 9, (1 << 20) - 1, 1 << 20, (1 << 20) + 1])
def test_a_text_is_found_at_every_place_of_large_data(at: int) -> None:
    needles = Needles(["MARKER-0001"])
    data = bytes(at) + b"MARKER-0001" + bytes(100)
    assert needles.found_in(data) == {"MARKER-0001"}
    assert needles.found_in_stream(io.BytesIO(data).read) == ({"MARKER-0001"}, len(data))


@given(st.lists(st.text(min_size=1, max_size=20), max_size=5), st.binary(max_size=50))
def test_exactly_the_texts_that_are_there_are_found(texts: list[str], noise: bytes) -> None:
    needles = Needles(texts)
    data = noise.join(text.encode("utf-8", "surrogatepass") for text in texts[::2])
    there = {each for each in needles.texts if each.encode("utf-8", "surrogatepass") in data}
    found = needles.found_in(data)
    assert there <= found
    assert found <= needles.texts
    assert not Needles(texts).found_in(bytes(64))


def test_similar_texts_are_told_apart() -> None:
    needles = Needles(["user-00001", "user-00002", "user-00012"])
    assert needles.found_in(b"the user-00012 is here") == {"user-00012"}
    assert needles.found_in(b"user-00002user-00001") == {"user-00001", "user-00002"}


def test_short_texts_are_counted_and_long_ones_are_known_by_their_beginning() -> None:
    needles = Needles(["tea", "x" * 1000])
    assert needles.left_out == 1
    assert needles.found_in(b"x" * 64) == {"x" * 64}


def test_what_need_not_be_looked_for_is_not() -> None:
    assert Needles(["MARKER-0001"]).found_in(b"MARKER-0001", besides={"MARKER-0001"}) == set()


@pytest.mark.parametrize(
    ("values", "kind"),
    [
        (["MARKER-0001"], pa.string()),
        (["MARKER-0001"], pa.large_string()),
        ([b"MARKER-0001"], pa.binary()),
        ([["x", "MARKER-0001"]], pa.list_(pa.string())),
        ([[("MARKER-0001", "x")]], pa.map_(pa.string(), pa.string())),
        ([[("x", "MARKER-0001")]], pa.map_(pa.string(), pa.string())),
        ([[{"a": "MARKER-0001", "b": 1}]], pa.list_(pa.struct({"a": pa.string(), "b": pa.int8()}))),
        (["MARKER-0001"], pa.dictionary(pa.int32(), pa.string())),
    ],
    ids=str,
)
def test_strings_of_every_arrow_type_are_read(values: list[Any], kind: pa.DataType) -> None:
    column = pa.chunked_array([pa.array(values, kind)])
    needles = Needles(["MARKER-0001"])
    assert any(needles.found_in(buffer) for buffer in text_buffers([column]))


def test_columns_without_text_have_nothing_to_search() -> None:
    table = pa.table({"a": [1, 2], "b": pa.nulls(2, pa.string()), "c": [1.0, None]})
    needles = Needles(["MARKER-0001"])
    assert not any(needles.found_in(buffer) for buffer in text_buffers(table.columns))
