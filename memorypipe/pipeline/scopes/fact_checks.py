"""What is checked of extracted facts while the messages that they came from are at hand. Pure.

A fact that fails a check is flagged and stays where users see it: in the facts of the run, and
counted in its summary. What is done with it is decided later.
"""

import functools
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal

import orjson

from memorypipe.cells.facts import encode_facts
from memorypipe.cells.messages import BACKGROUND_ROLES
from memorypipe.evidence.instructions import is_instruction
from memorypipe.evidence.likeness import content_words
from memorypipe.evidence.subjects import is_told_of_another
from memorypipe.evidence.support import Content, best_sources, content_of, hits
from memorypipe.evidence.voices import voices_of

__all__ = ["HEARSAY", "FactFlag", "check_facts"]

FactFlag = Literal["instruction", "unsupported", "hearsay"]
"""``"instruction"``: the fact gives the memory system orders, or rests on text that does, or
stands only where no speaker said it: in what tools and systems write, and out of sight.
``"unsupported"``: none of its words stands in the messages that it names as its sources.
``"hearsay"``: it stands only in what the assistant said, in what was pasted, or in what is told of
somebody whom it does not name."""

HEARSAY: FactFlag = "hearsay"

Message = Mapping[str, Any]


def check_facts(facts_json: str, messages: Sequence[Message]) -> tuple[str, list[dict[str, Any]]]:
    """Give every fact its sources, and flag those that rest on nothing or on orders.

    Where the model named no source, the messages that hold the most of the fact are its sources;
    the background of a window is none.

    Args:
        facts_json: A ``facts`` cell.
        messages: Of the window; items of `memorypipe.schema.MESSAGE`.

    Returns:
        The cell with sources, and the flags: ``fact`` (its place, from 0) and ``flag``.

    Example:
        >>> said = [{"id": "a", "role": "user", "content": "I own a cat", "background": False}]
        >>> check_facts('{"memories": [{"text": "Owns a cat"}]}', said)
        ('{"memories":[{"text":"Owns a cat","sources":["a"]}]}', [])
    """
    window = _Window(messages)
    items, flags = [], []
    for place, item in enumerate(orjson.loads(facts_json)["memories"]):
        fact = content_of(item["text"])
        sources = item.get("sources") or best_sources(fact, window.own)
        items.append({**item, "sources": sources})
        flag = window.flag(fact, sources)
        if flag is not None:
            flags.append({"fact": place, "flag": flag})
    return encode_facts(items), flags


class _Window:
    """The messages of a window, each taken apart once for all facts.

    Attributes:
        own: What each message says that a fact can come from, by its id.
    """

    def __init__(self, messages: Sequence[Message]) -> None:
        content = self._content = functools.cache(content_of)
        self._said = {name: content(text) for name, text in _texts(messages).items()}
        own = _texts(message for message in messages if _is_own(message))
        self.own = {name: content(text) for name, text in own.items()}
        voices = voices_of(messages)
        self._plain = list(map(content, voices.own))
        self._heard = list(map(content, voices.heard))
        self._orders = list(map(content, voices.orders))
        self._unsaid = voices.unsaid  # seldom looked into

    def flag(self, fact: Content, sources: Iterable[str]) -> FactFlag | None:
        """Say what is wrong with a fact that has these messages for its sources."""
        plain, heard = _most(fact, self._plain), _most(fact, self._heard)
        if is_instruction(fact.text) or self._rests_on_orders(fact, max(plain, heard)):
            return "instruction"
        if not max(plain, heard) and _most(fact, map(self._content, self._unsaid)):
            return "instruction"
        said = [self._said[source] for source in sources if source in self._said]
        telling = [source for source in said if hits(fact, source)]
        # A fact without a word that says something can't be judged.
        if not telling and content_words(fact.text):
            return "unsupported"
        if telling and all(is_told_of_another(fact.text, source.text) for source in telling):
            return HEARSAY
        return HEARSAY if heard and not plain else None

    def _rests_on_orders(self, fact: Content, plain: int) -> bool:
        """Whether more of a fact stands in an order than in any plain message."""
        return bool(self._orders) and (plain == 0 or _most(fact, self._orders) > plain)


def _texts(messages: Iterable[Message]) -> dict[str, str]:
    """What each message says, by its id; the pieces of a long one together."""
    texts: dict[str, str] = {}
    for message in messages:
        before = texts.get(message["id"])
        content = message["content"]
        texts[message["id"]] = content if before is None else f"{before}\n{content}"
    return texts


def _is_own(message: Message) -> bool:
    return not message["background"] and message["role"] not in BACKGROUND_ROLES


def _most(fact: Content, texts: Iterable[Content]) -> int:
    return max((hits(fact, text) for text in texts), default=0)
