"""Who says what in a conversation: its speakers, those whom they quote, and nobody at all."""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from memorypipe.cells.messages import BACKGROUND_ROLES
from memorypipe.evidence.disguise import (
    hidden_texts,
    plain_letters,
    read_aloud,
    shown_text,
)
from memorypipe.evidence.instructions import addresses_machines, instruction_start
from memorypipe.evidence.pasted import own_and_pasted

__all__ = ["Voices", "voices_of"]

_AGREES = re.compile(
    r"\s*(?:yes|yeah|yep|yup|right|correct|exactly|indeed|true|sure|ok(?:ay)?|i do|i did|"
    r"that's (?:right|me)|"
    r"ja|genau|stimmt|richtig|oui|si|sí|exacto|claro|sim|isso|да|верно|是|对|對|はい|네|예)(?!\w)",
    re.IGNORECASE,
)


@dataclass(frozen=True, kw_only=True)
class Voices:
    """The parts of a conversation, by who speaks in them.

    Attributes:
        own: What the speakers say themselves, and what they agree to.
        heard: What an assistant says that nobody agrees to, and what speakers pass on.
        orders: Text that gives the memory system orders, from its first order on.
        unsaid: What tools and systems write, and what nobody can see.
    """

    own: list[str] = field(default_factory=list)
    heard: list[str] = field(default_factory=list)
    orders: list[str] = field(default_factory=list)
    unsaid: list[str] = field(default_factory=list)


def voices_of(messages: Sequence[Mapping[str, Any]]) -> Voices:
    r"""Tell the voices of a conversation apart.

    Args:
        messages: With `role`, `name` and `content`, in order.

    Example:
        >>> said = [{"role": "user", "name": None, "content": "> Sell it\nMy boss wrote this"}]
        >>> voices = voices_of(said)
        >>> voices.own, voices.heard
        ([' \nMy boss wrote this'], ['> Sell it'])
    """
    voices = Voices()
    for place, message in enumerate(messages):
        text = message["content"]
        voices.unsaid.extend(hidden_texts(text))
        shown = plain_letters(shown_text(text))
        if message["role"] in BACKGROUND_ROLES:
            _part(shown, voices.unsaid, voices.orders)
            continue
        own, pasted = own_and_pasted(shown)
        is_own = not _is_machine(message) or _is_agreed(messages[place + 1 :])
        _part(own, voices.own if is_own else voices.heard, voices.orders)
        if addresses_machines(pasted):
            voices.orders.append(pasted)
        elif pasted:
            _part(pasted, voices.heard, voices.orders)
    return voices


def _part(text: str, to: list[str], orders: list[str]) -> None:
    """Part a text at its first order to the memory system."""
    readings = {text, read_aloud(text)}
    starts = [start for start in map(instruction_start, readings) if start is not None]
    start = min(starts, default=None)
    to.append(text[:start])
    if start is not None:
        orders.append(text[start:])


def _is_machine(message: Mapping[str, Any]) -> bool:
    """Whether an assistant speaks; one with a name may be a person on the other side of a chat."""
    return bool(message["role"] == "assistant" and not message["name"])


def _is_agreed(rest: Iterable[Mapping[str, Any]]) -> bool:
    following = next(iter(rest), None)
    return following is not None and bool(_AGREES.match(following["content"]))
