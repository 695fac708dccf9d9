"""Requests are read whole or not at all, and targets are exactly what they name."""

from typing import Any

import pyarrow as pa
import pytest

from memorypipe import ids
from memorypipe.errors import InvalidArgumentError
from memorypipe.table.erasing.requests import EraseRequest, read_requests
from memorypipe.table.erasing.targets import Targets, scrub

U1, U2 = ids.scope_key({"user_id": "u1"}), ids.scope_key({"user_id": "u2"})


def test_each_line_is_one_request_and_blank_ones_are_none() -> None:
    lines = [b'{"scope": {"user_id": 7}, "reason": "mail"}\n', b"\n", b'{"source_id": "m1"}\n']
    first, second = read_requests(lines)
    assert (first.kind, first.scope_key, first.reason) == (
        "scope",
        ids.scope_key({"user_id": "7"}),
        "mail",
    )
    assert (second.kind, second.scope_key, second.to_dict()) == (
        "source",
        None,
        {"source_id": "m1"},
    )


@pytest.mark.parametrize(
    ("line", "told"),
    [
        (b"{", "Line 2 of the requests: It is no JSON"),
        (b"[1]", "Line 2 .* no JSON object"),
        (b'{"user": "u1"}', "Line 2 .* Unknown name 'user'"),
        (b'{"id": "x"}', "Line 2 .* names nothing"),
        (b'{"memory_id": "m", "source_id": "s"}', "not both"),
        (b'{"memory_id": " "}', "memory_id of an erase request must be a string"),
        (b'{"memory_id": 7}', "memory_id of an erase request must be a string"),
        (b'{"scope": "u1"}', "scope of an erase request must be an object"),
        (b'{"scope": {"user_id": "*"}}', "user_id"),
        (b'{"memory_id": "m", "reason": 1}', "reason of an erase request"),
    ],
)
def test_a_line_that_is_no_request_is_told_with_its_number(line: bytes, told: str) -> None:
    with pytest.raises(InvalidArgumentError, match=told):
        read_requests([b'{"memory_id": "m1"}', line])


def test_no_request_at_all_is_refused() -> None:
    with pytest.raises(InvalidArgumentError, match="no erase requests"):
        read_requests([b"\n"])


ROWS = pa.table(
    {
        "scope_key": [U1, U1, U2, U2, None],
        "memory_id": ["a", "b", "a", None, "c"],
        "source_ids": [["s1", "s2"], None, ["s1"], [], ["s3"]],
    }
)


@pytest.mark.parametrize(
    ("request_", "rows"),
    [
        ({"scope": {"user_id": "u1"}}, [0, 1]),
        ({"memory_id": "a"}, [0, 2]),
        ({"memory_id": "a", "scope": {"user_id": "u2"}}, [2]),
        ({"source_id": "s1"}, [0, 2]),
        ({"source_id": "s2"}, [0]),
        ({"source_id": "s1", "scope": {"user_id": "u1"}}, [0]),
        ({"source_id": "s3"}, [4]),
        ({"scope": {}}, []),
    ],
)
def test_a_request_means_exactly_the_rows_that_it_names(
    request_: dict[str, Any], rows: list[int]
) -> None:
    targets = Targets.of([EraseRequest(**request_)])
    mask = targets.of_table(ROWS).to_pylist()
    assert [number for number, hit in enumerate(mask) if hit] == rows


def test_messages_are_known_by_their_ids_in_every_kind_of_table() -> None:
    targets = Targets.of([EraseRequest(source_id="s1")])
    messages = pa.table({"scope_key": [U1, U2], "messages": [[{"id": "s1"}], [{"id": "s9"}]]})
    assert targets.of_table(messages).to_pylist() == [True, False]
    facts = pa.table({"scope_key": [U1, U2], "message_ids": [["s9"], ["s9", "s1"]]})
    assert targets.of_table(facts).to_pylist() == [False, True]
    ledger = pa.table({"scope_key": [U1, U2], "message_id": ["s1", "s2"]})
    assert targets.of_table(ledger).to_pylist() == [True, False]


def test_the_scopes_that_rows_show_are_evidence_whole() -> None:
    targets = Targets.of([EraseRequest(memory_id="b")])
    targets = targets.with_rows(ROWS.filter(targets.of_table(ROWS)))
    assert targets.evidence == {U1}
    assert targets.of_evidence(ROWS).to_pylist() == [True, True, False, False, False]


def test_words_go_out_of_json_values_and_nothing_else_does() -> None:
    value = {"a": ["the secret-word", "x", 1, None], "secret-word": 1, "b": {"c": True}}
    assert scrub(value, {"secret-word"}) == {"a": ["[erased]", "x", 1, None], "b": {"c": True}}


def test_a_short_word_must_be_all_of_a_text() -> None:
    assert scrub(["7", "70", "the 7"], {"7"}) == ["[erased]", "70", "the 7"]
