"""LoCoMo's observations: how many of them does an extraction hold? An approximation.

LoCoMo gives, for each session of a conversation between two people, short observations about each
of them. An observation counts as found where one extracted fact of the same session has at least
half of its content words, cut to their stems; names of the speakers count as words too. This
neither sees paraphrases nor notices a denial. As a yardstick the same is counted against the facts
of the *next* session: what chance and the common subjects of a conversation give.

The file is named on the command line and is no part of this project.
"""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from memorypipe.llm.offline_rules.lexicon import words
from memorypipe.llm.types import ExtractTask, Turn
from memorypipe.logs.formats.locomo import locomo_drafts

__all__ = ["LEAST_SHARE", "Session", "content_words", "overlap", "read_sessions", "score_sessions"]

LEAST_SHARE = 0.5
"""Of an observation's content words in one fact, for it to count as found."""

_WORD = re.compile(r"[^\W_]+")
_ENDINGS = ("ing", "ied", "ies", "ed", "es", "s", "e", "y")
_SHORTEST_STEM = 3
_SMALL = words(
    """
    a an and are as at be been being but by did do does for from had has have he her him his how i
    if in into is it its just me more my of on or our she so some than that the their them there
    they this to too up very was we were what when which who with you your
    """
)


@dataclass(frozen=True, kw_only=True)
class Session:
    """One session, and what was observed in it.

    Attributes:
        name: Sample and session.
        task: What the model is asked.
        observations: The sentences about both speakers.
    """

    name: str
    task: ExtractTask
    observations: tuple[str, ...]


def read_sessions(path: Path, limit: int | None = None) -> list[Session]:
    """Read the sessions of a LoCoMo file that have observations, in order.

    Args:
        path: The JSON file: a list of samples.
        limit: So many at most; None for all.
    """
    sessions = [found for sample in json.loads(path.read_text("utf-8")) for found in _of(sample)]
    return sessions[:limit]


def _of(sample: Mapping[str, Any]) -> Iterator[Session]:
    for draft in locomo_drafts(sample):
        name = str(draft.conversation_id)
        said = sample["observation"].get(f"{name.rpartition('/')[2]}_observation", {})
        observations = tuple(str(pair[0]) for pairs in said.values() for pair in pairs)
        if observations:
            turns = [_turn(message) for message in draft.messages]
            yield Session(name=name, task=ExtractTask(turns=turns), observations=observations)


def _turn(message: Mapping[str, Any]) -> Turn:
    said_at = message["timestamp"]
    return Turn(
        role=message["role"],
        name=message["name"],
        content=message["content"],
        id=message["id"],
        timestamp=said_at.replace(tzinfo=UTC) if isinstance(said_at, datetime) else None,
    )


def content_words(text: str) -> frozenset[str]:
    """Give the words of a text that carry its content, cut to their stems.

    Example:
        >>> sorted(content_words("Ida is painting the boats"))
        ['boat', 'ida', 'paint']
    """
    found = _WORD.findall(text.casefold())
    return frozenset(_stem(word) for word in found if word not in _SMALL)


def _stem(word: str) -> str:
    for ending in _ENDINGS:
        if word.endswith(ending) and len(word) - len(ending) >= _SHORTEST_STEM:
            return word.removesuffix(ending)
    return word


def overlap(observation: str, facts: Sequence[frozenset[str]]) -> float:
    """Give the greatest share of an observation's content words that one fact has.

    Args:
        observation: Its text.
        facts: The content words of each fact.
    """
    told = content_words(observation)
    return max((len(told & fact) / len(told) for fact in facts), default=0.0) if told else 0.0


def score_sessions(
    sessions: Sequence[Session], facts: Sequence[Sequence[str] | None]
) -> dict[str, float | None]:
    """Score what was extracted from sessions.

    Args:
        sessions: As read.
        facts: The texts of each session's facts; None where the extraction failed.

    Returns:
        `sessions`, `observations`, `facts`, `recall`, `overlap` (the mean of all observations),
        `by_chance` (recall against the next session's facts) and `failed` sessions.
    """
    said = [[content_words(text) for text in texts or ()] for texts in facts]
    shifted = [*said[1:], *said[:1]]
    own, other = _overlaps(sessions, said), _overlaps(sessions, shifted)
    return {
        "sessions": len(sessions),
        "observations": len(own),
        "facts": sum(map(len, said)),
        "recall": _found(own),
        "overlap": round(sum(own) / len(own), 3) if own else None,
        "by_chance": _found(other) if len(sessions) > 1 else None,
        "failed": sum(texts is None for texts in facts),
    }


def _overlaps(sessions: Sequence[Session], said: Sequence[Sequence[frozenset[str]]]) -> list[float]:
    return [
        overlap(observation, facts)
        for session, facts in zip(sessions, said, strict=True)
        for observation in session.observations
    ]


def _found(shares: Sequence[float]) -> float | None:
    return round(sum(share >= LEAST_SHARE for share in shares) / len(shares), 3) if shares else None
