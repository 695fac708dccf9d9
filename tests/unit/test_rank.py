"""Which memories a decision sees."""

import random
from datetime import UTC, datetime
from typing import Any

import pytest

from memorypipe.errors import InvalidArgumentError
from memorypipe.rank.keyword import KeywordIndex
from memorypipe.rank.lookup import Lookup
from memorypipe.rank.memory import Memory
from memorypipe.rank.words import tokens


def memories(*texts: str) -> list[Memory]:
    return [Memory(id=f"m{n}", text=text) for n, text in enumerate(texts)]


def ids(chosen: list[Memory]) -> list[str]:
    return [memory.id for memory in chosen]


def test_all_gives_the_newest_first_up_to_the_bound() -> None:
    many = memories("a", "b", "c")
    assert ids(Lookup(strategy="all").choose([], many)) == ["m2", "m1", "m0"]
    assert ids(Lookup(strategy="all", max_memories=2).choose([], many)) == ["m2", "m1"]


def test_recent_gives_the_newest_top_k() -> None:
    many = memories(*(str(n) for n in range(50)))
    assert ids(Lookup(strategy="recent", top_k=3).choose(["x"], many)) == ["m49", "m48", "m47"]


def test_keyword_unites_the_best_of_each_fact() -> None:
    many = memories("Likes green tea", "Owns a cat", "Plays the piano", "Likes coffee", *"abcdefgh")
    lookup = Lookup(strategy="keyword", top_k=1)
    assert ids(lookup.choose(["likes tea", "has piano"], many)) == ["m0", "m2"]
    assert ids(Lookup(strategy="auto", top_k=1).choose(["likes tea"], many)) == ["m0"]


def test_a_bound_keeps_the_best_of_every_fact_before_the_second_best_of_any() -> None:
    many = memories("tea pot", "tea cup", "piano stool", "piano lamp", *"abcdefgh")
    lookup = Lookup(strategy="keyword", top_k=2, max_memories=2)
    chosen = ids(lookup.choose(["tea", "piano"], many))
    assert chosen == ["m0", "m2"]


def test_few_memories_are_all_shown_whatever_they_say() -> None:
    assert len(Lookup(top_k=3).choose(["nothing alike"], memories("a", "b", "c"))) == 3


def test_an_index_kept_up_ranks_as_one_made_anew() -> None:
    rng = random.Random(7)  # noqa: S311  # a test's dice
    words = [f"w{n}" for n in range(30)]
    live = memories(*(" ".join(rng.choices(words, k=6)) for _ in range(60)))
    index = KeywordIndex(live)
    for _ in range(40):
        gone = live.pop(rng.randrange(len(live)))
        index.remove(gone)
        new = Memory(id=f"{gone.id}x", text=" ".join(rng.choices(words, k=4)))
        live.append(new)
        index.add(new)
        query = " ".join(rng.choices(words, k=3))
        assert index.best(query, 10) == KeywordIndex(live).best(query, 10)


def test_ties_are_broken_by_id_whatever_the_order() -> None:
    many = memories(*(["same text"] * 3), *"abcdefgh")
    assert KeywordIndex(many).best("same", 3) == ["m0", "m1", "m2"]
    assert KeywordIndex(reversed(many)).best("same", 3) == ["m0", "m1", "m2"]


def test_an_empty_index_finds_nothing() -> None:
    assert KeywordIndex().best("tea", 3) == []


def test_scripts_without_spaces_are_compared_by_pairs() -> None:
    assert tokens("我喜欢喝茶") == ("我喜", "喜欢", "欢喝", "喝茶")
    many = memories("我喜欢喝茶", "我住在北京", *"abcdefghij")
    assert KeywordIndex(many).best("他喜欢茶", 1) == ["m0"]


def test_a_cell_has_what_is_known_and_nothing_else() -> None:
    time = datetime(2025, 1, 1, tzinfo=UTC)
    assert Memory(id="m", text="t").to_cell() == {"id": "m", "text": "t"}
    assert Memory(id="m", text="t", event_time=time).to_cell()["event_time"] == time.isoformat()


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"strategy": "nearest"}, "strategy must be one of"),
        ({"top_k": 0}, "top_k must be an integer of at least 1, got 0"),
        ({"max_memories": -1}, "max_memories"),
        ({"top_k": None}, "top_k"),
    ],
)
def test_what_cannot_work_is_said(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidArgumentError, match=message):
        Lookup(**settings)
