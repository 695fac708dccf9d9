"""Lookups by vectors while a scope is decided. The model is scripted."""

import asyncio
from typing import Any

import numpy as np
import pytest

from memorypipe.errors import InvalidArgumentError
from memorypipe.expressions.build_action import DecideWork
from memorypipe.llm.replies.reply import ReadActions
from memorypipe.llm.stage import Outcome
from memorypipe.pipeline.scopes.consolidate import WindowFacts, consolidate_scope
from memorypipe.pipeline.scopes.decided import PipelineFact
from memorypipe.pipeline.scopes.settings import ConsolidationSettings
from memorypipe.pipeline.scopes.text_vectors import TextVectors, local_embedder, settled_settings
from memorypipe.rank.lookup import Lookup
from memorypipe.rank.memory import Memory
from tests.support.embedders import LetterEmbedder


def shown(strategy: Any, vectors: TextVectors, *said: str) -> list[list[str]]:
    """Decide facts one by one, all of them new; give the memories that each was shown."""
    memories = [Memory(id=f"m{n}", text=text) for n, text in enumerate(("dddd", "eeee", "ffff"))]
    asked: list[list[str]] = []

    async def decide(work: DecideWork) -> Outcome[ReadActions]:
        asked.append([memory["text"] for memory in work.existing])
        rest = {"event": "ADD", "target_id": None, "text": None, "rationale": "r"}
        added = [{"fact": n, **rest} for n in range(len(work.facts))]
        read = ReadActions(
            items=tuple(added), dropped_items=0, repaired=0, complete=True, status="ok", error=None
        )
        return Outcome(value=read, status="ok", attempts=1)

    facts = [PipelineFact(text=t, window=0, window_id="w", conversation_id="c") for t in said]
    settings = ConsolidationSettings(
        facts_per_call=1, lookup=Lookup(strategy=strategy, top_k=1, max_memories=1)
    )
    windows = [WindowFacts(window_id="w", facts=facts)]
    asyncio.run(
        consolidate_scope(
            "[]", windows, memories, decide=decide, settings=settings, vectors=vectors
        )
    )
    return asked


@pytest.mark.parametrize("strategy", ["vector", "hybrid"])
def test_memories_of_the_table_and_of_this_run_are_found_by_their_vectors(strategy: Any) -> None:
    vectors = TextVectors(LetterEmbedder())
    assert shown(strategy, vectors, "ddd", "aaaa", "aaa", "ee") == [
        ["dddd"],
        ["ddd"],
        ["aaaa"],
        ["eeee"],
    ]


def test_nothing_is_embedded_twice_and_what_is_known_is_not_embedded() -> None:
    embedder = LetterEmbedder()
    known = {"dddd": np.array([0, 0, 0, 1, 0, 0], np.float32)}
    shown("vector", TextVectors(embedder, known), "ddd", "aaaa", "aaaa b")
    made = [text for texts in embedder.asked for text in texts]
    assert sorted(made) == ["aaaa", "aaaa b", "ddd", "eeee", "ffff"]


def test_by_words_nothing_is_embedded() -> None:
    embedder = LetterEmbedder()
    shown("keyword", TextVectors(embedder), "ddd", "aaaa")
    assert embedder.asked == []


def test_blank_texts_are_not_embedded() -> None:
    vectors = TextVectors(LetterEmbedder())
    asyncio.run(vectors.need([" ", ""]))
    assert vectors.by_text == {}


def test_auto_is_hybrid_with_an_embedder_and_keyword_without() -> None:
    auto = ConsolidationSettings()
    assert settled_settings(auto, LetterEmbedder()).lookup.strategy == "hybrid"
    assert settled_settings(auto, None).lookup.strategy == "keyword"
    vector = ConsolidationSettings(lookup=Lookup(strategy="vector"))
    with pytest.raises(InvalidArgumentError, match="needs an embedder"):
        settled_settings(vector, None)


def test_only_what_costs_nothing_is_asked_without_a_run() -> None:
    assert local_embedder(LetterEmbedder(), None) is None
    assert local_embedder("none", None) is None
    local = local_embedder("wordllama", None)
    assert local is not None
    assert local.name.startswith("wordllama/")
