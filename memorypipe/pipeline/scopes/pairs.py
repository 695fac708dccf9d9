"""Which memories of one scope may have to do with each other: a model is asked about no others.

Pure. Whatever says the same in nearly the same words is found without a model.
"""

from collections import defaultdict
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from memorypipe.evidence.lexicon import VERBS
from memorypipe.evidence.likeness import content_words, near_key
from memorypipe.llm.offline_rules.attributes import attributes_of
from memorypipe.text import normalise

__all__ = ["Chosen", "choose", "related", "same_groups"]

# Texts that share this part of the words of the shorter one may be about one thing.
_RELATED_SHARE = 0.5
# The same, by what they mean; static embeddings give unrelated statements about people up to 0.6.
_RELATED_COSINE = 0.75
# A word that so many memories of a scope have tells none of them apart.
_COMMON = 100

_EVERYDAY = frozenset(stem for verb in VERBS for stem in content_words(verb))


@dataclass(frozen=True, kw_only=True)
class Chosen:
    """What is to be decided again in one scope, by place.

    Attributes:
        facts: Each is decided against earlier memories, in this order.
        memories: The earlier ones that are no facts themselves.
    """

    facts: Sequence[int]
    memories: Sequence[int]


def same_groups(texts: Sequence[str]) -> list[list[int]]:
    """Give the places of texts that say the same but for small matters of form, in groups.

    Example:
        >>> same_groups(["Owns a cat", "Likes tea", "The user owns the cat."])
        [[0, 2]]
    """
    groups: defaultdict[str, list[int]] = defaultdict(list)
    for place, text in enumerate(texts):
        groups[near_key(text) or normalise(text)].append(place)
    return [group for group in groups.values() if len(group) > 1]


def related(
    texts: Sequence[str], vectors: NDArray[np.float32] | None = None
) -> list[frozenset[int]]:
    """Give for each text the earlier ones that may be about the same.

    Args:
        texts: In order of time.
        vectors: Of unit length, one row per text; NaN where there is none. None: no vectors.

    Example:
        >>> related(["Lives in Rome", "Likes tea", "Moved to Oslo", "Likes hiking"])
        [frozenset(), frozenset(), frozenset({0}), frozenset()]
    """
    found = _by_words([content_words(text) for text in texts])
    values: dict[Any, list[int]] = {}
    for place, text in enumerate(texts):
        for each in attributes_of(text):
            others = values.setdefault((each.kind, each.subject), [])
            found[place].update(others)
            others.append(place)
    if vectors is not None:
        for place, others in enumerate(_by_vectors(vectors)):
            found[place].update(others)
    return [frozenset(each) for each in found]


def _by_words(words: Sequence[Collection[str]]) -> list[set[int]]:
    having: defaultdict[str, list[int]] = defaultdict(list)
    for place, each in enumerate(words):
        for word in each:
            having[word].append(place)
    shared: list[defaultdict[int, int]] = [defaultdict(int) for _ in words]
    telling: set[tuple[int, int]] = set()
    for word, places in having.items():
        if len(places) > _COMMON:
            continue
        for n, place in enumerate(places):
            for other in places[:n]:
                shared[place][other] += 1
                if word not in _EVERYDAY:
                    telling.add((place, other))
    return [
        {
            other
            for other, count in others.items()
            if (place, other) in telling
            and count >= _RELATED_SHARE * min(len(words[place]), len(words[other]))
        }
        for place, others in enumerate(shared)
    ]


def _by_vectors(vectors: NDArray[np.float32]) -> list[list[int]]:
    known = np.nan_to_num(vectors)
    return [
        np.flatnonzero(known[:place] @ known[place] >= _RELATED_COSINE).tolist()
        for place in range(len(known))
    ]


def choose(pairs: Sequence[Collection[int]], compared: Collection[int]) -> Chosen:
    """Choose what is decided again: the later one of each pair that was not compared before.

    Args:
        pairs: As of `related`.
        compared: Places of memories that have been compared with all that were there then.

    Example:
        >>> choose([(), (0,), (1,), ()], compared={0, 1})
        Chosen(facts=[2], memories=[1])
    """
    facts, memories = [], set[int]()
    for place, earlier in enumerate(pairs):
        others = [o for o in earlier if place not in compared or o not in compared]
        if others:
            facts.append(place)
            # All that it may have to do with is shown, whatever was compared before.
            memories.update(earlier)
    return Chosen(facts=facts, memories=sorted(memories.difference(facts)))
