"""A line says all of a reply, and damage is told from what is whole."""

import pytest

from memorypipe.llm.journal.lines import (
    decode_reply,
    encode_line,
    evidence_key,
    head_of,
    scan_lines,
    scope_of,
)
from memorypipe.llm.types import RateState, Reply
from tests.support.journals import KEYS, REPLY


def _line(number: int = 0, reply: Reply = REPLY, *, usable: bool = True) -> bytes:
    return encode_line(KEYS[number], reply, usable=usable, scope_key=None)


@pytest.mark.parametrize(
    "reply",
    [
        REPLY,
        Reply(content=None, finish_reason=None, refusal="No."),
        Reply(content='half an emoji \ud83d, a quote " and ,"model":"x"}}'),
        Reply(content="\u2028\r\n\x00", model='quo"ted\\'),
    ],
)
def test_a_reply_comes_back_as_it_was(reply: Reply) -> None:
    line = _line(0, reply)
    assert line.count(b"\n") == 1
    assert decode_reply(line, KEYS[0]) == reply
    assert head_of(line) is not None


def test_what_an_endpoint_tells_of_the_moment_is_not_kept() -> None:
    limits = RateState(remaining_requests=3)
    line = _line(0, Reply(content="x", rate=limits))
    assert b"rate" not in line
    assert decode_reply(line, KEYS[0]) == Reply(content="x")


@pytest.mark.parametrize(
    "line",
    [
        b"",
        b"[]",
        b"\xff",
        b"{}",
        _line(1),
        _line(usable=False),
        _line()[:-9],
        b" " * 80,
        _line().replace(b'"model"', b'"made"'),
    ],
)
def test_another_key_or_a_damaged_line_gives_no_reply(line: bytes) -> None:
    assert decode_reply(line, KEYS[0]) is None


def test_the_scope_of_a_line_is_read_exactly() -> None:
    scope = '[["user_id","Ü\\"\ud83d"]]'
    assert scope_of(encode_line(KEYS[0], REPLY, usable=False, scope_key=scope)) == scope
    assert scope_of(_line()) is None
    assert scope_of(b"{") is None


def test_a_scan_counts_and_finds_the_last_usable_line_of_each_key() -> None:
    bad = b"\x00\n"
    lines = [_line(0), _line(0), _line(0, usable=False), bad, b"   \n", _line(1), _line(2)[:-1]]
    scan = scan_lines(lines, 100)
    first = 100 + len(lines[0])
    assert scan.places == {
        KEYS[0]: first,
        evidence_key(KEYS[0]): first + len(lines[1]),
        KEYS[1]: 100 + sum(map(len, lines[:5])),
    }
    assert (scan.usable, scan.unusable, scan.unreadable) == (3, 1, 1)
    assert (scan.end, scan.torn_bytes) == (100 + sum(map(len, lines[:6])), len(lines[6]))
    assert scan.models == {"m-1": 3}


def test_models_are_counted_by_the_last_field_of_a_line() -> None:
    posing = Reply(content='{"model":"fake"}', model="real")
    scan = scan_lines([_line(0, posing), _line(1, Reply(content="x"))])
    assert scan.models == {"real": 1, "null": 1}
