"""What is checked of extracted facts while the messages that they came from are at hand. Pure.

A fact that fails a check is flagged and stays where users see it: in the facts of the run, and
counted in its summary. What is done with it is decided later.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal

import orjson

from memorypipe.cells.facts import encode_facts
from memorypipe.cells.messages import BACKGROUND_ROLES
from memorypipe.evidence.instructions import instruction_start, is_instruction
from memorypipe.evidence.likeness import content_words
from memorypipe.evidence.support import best_sources, hits

__all__ = ["FactFlag", "check_facts"]

FactFlag = Literal["instruction", "unsupported"]
"""``"instruction"``: the fact gives the memory system orders, or rests on text that does.
``"unsupported"``: none of its words stands in the messages that it names as its sources."""

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
    said, own = _texts(messages), _texts(m for m in messages if _is_own(m))
    clean, orders = _orders(said.values())
    items, flags = [], []
    for place, item in enumerate(orjson.loads(facts_json)["memories"]):
        text, sources = item["text"], item.get("sources") or best_sources(item["text"], own)
        items.append({**item, "sources": sources})
        if is_instruction(text) or _rests_on(text, orders, clean):
            flags.append({"fact": place, "flag": "instruction"})
        elif not _is_supported(text, [said[source] for source in sources if source in said]):
            flags.append({"fact": place, "flag": "unsupported"})
    return encode_facts(items), flags


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


def _orders(texts: Iterable[str]) -> tuple[list[str], list[str]]:
    """Part texts at the first order to the memory system: what stands before, and the rest."""
    clean, orders = [], []
    for text in texts:
        start = instruction_start(text)
        clean.append(text[:start])
        if start is not None:
            orders.append(text[start:])
    return clean, orders


def _rests_on(fact: str, orders: Sequence[str], clean: Sequence[str]) -> bool:
    """Whether more of a fact stands in an order than in any plain message, or nothing in any."""
    if not orders:
        return False
    plain = max(hits(fact, text) for text in clean)
    return plain == 0 or max(hits(fact, text) for text in orders) > plain


def _is_supported(fact: str, sources: Sequence[str]) -> bool:
    """A fact without a word that says something can't be judged."""
    return not content_words(fact) or any(hits(fact, text) for text in sources)
