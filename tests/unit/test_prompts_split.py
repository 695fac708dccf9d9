"""Halving what was too much for one reply."""

import pytest

from memorypipe.llm.types import Fact, Turn
from memorypipe.prompts.split import MIN_SPLIT_CHARS, split_facts, split_turns


def turn(content: str, *, background: bool = False) -> Turn:
    return Turn(role="user", content=content, id="m", background=background)


def test_turns_are_halved_at_the_boundary_nearest_the_middle() -> None:
    turns = [turn("a" * size) for size in (300, 10, 10, 250)]
    halves = split_turns(turns)
    assert halves is not None
    assert [len(half) for half in halves] == [1, 3] or [len(half) for half in halves] == [2, 2]
    assert [*halves[0], *halves[1]] == turns


@pytest.mark.parametrize("text", ["word " * 100, "Satz. " * 80, "字" * 400, "a\n\nb" * 100])
def test_a_single_turn_is_cut_in_its_text_and_loses_nothing(text: str) -> None:
    halves = split_turns([turn(text)])
    assert halves is not None
    (head,), (tail,) = halves
    assert head.content + tail.content == text
    assert min(len(head.content), len(tail.content)) >= len(text) // 4
    assert (head.id, tail.id) == ("m", "m")


def test_a_text_is_cut_at_its_best_place() -> None:
    halves = split_turns([turn("word " * 30 + "end.\n\n" + "word " * 40)])
    assert halves is not None
    assert halves[1][0].content == "word " * 40


def test_each_half_has_something_of_its_own_to_tell() -> None:
    background = turn("b" * 1000, background=True)
    halves = split_turns([background, turn("word " * 100), background])
    assert halves is not None
    assert [[t.background for t in half] for half in halves] == [[True, False], [False, True]]
    two = split_turns([background, turn("a" * 150), turn("b" * 150)])
    assert two is not None
    assert [len(half) for half in two] == [2, 1]


def test_little_is_not_split() -> None:
    assert split_turns([]) is None
    assert split_turns([turn("a" * (MIN_SPLIT_CHARS - 1))]) is None
    assert split_turns([turn("a"), turn("b" * 20)]) is None
    assert split_turns([turn("b" * 1000, background=True)]) is None


def test_splitting_comes_to_an_end() -> None:
    pending = [[turn("word " * 200), turn("x" * 900)]]
    pieces = 0
    while pending:
        halves = split_turns(pending.pop())
        pending.extend(list(half) for half in halves or ())
        pieces += halves is None
    assert 1 < pieces < 40


def test_facts_are_halved_in_order() -> None:
    facts = tuple(Fact(text=str(n)) for n in range(3))
    assert split_facts(facts) == (facts[:2], facts[2:])
    assert split_facts(facts[:1]) is None
    assert split_facts(()) is None
