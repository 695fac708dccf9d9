"""Read a model's reply without losing or inventing anything.

Known shapes are normalised, an item that cannot be read is left out and counted, an item that
was cut is never kept, and no readable item at all is an error, not "nothing to say".
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

from memorypipe.llm.replies.hollow import is_elision, says_more, says_none, why_hollow
from memorypipe.llm.replies.lenient_json import UNREADABLE, CutArray, CutObject
from memorypipe.llm.replies.scan import ITEMS, NO_ANSWER, find_answer
from memorypipe.llm.replies.shapes import (
    first,
    folded,
    grade_list,
    items_of,
    string_of,
    text_of,
)
from memorypipe.text import clean

__all__ = [
    "ReadActions",
    "ReadFacts",
    "ReadJson",
    "Status",
    "read_actions",
    "read_facts",
    "read_json",
]

Status = Literal["ok", "empty", "truncated", "parse_error", "refused"]

_FACT_WRAPPERS = frozenset({"memories", "facts", "memory", "fact", "items", "results", "data"})
_FACT_TEXT = ("text", "fact", "memory", "content")
_ACTION_WRAPPERS = frozenset({"actions", "memory", "memories", "items", "results", "data"})
_EVENT = ("event", "action")
_FACT_NUMBER = ("fact", "fact_id", "fact_index", "index")
_TARGET = ("target_id", "id", "memory_id")
_ACTION_TEXT = ("text", "memory", "new_memory")
_RATIONALE = ("rationale", "reason")
_ACTION_KEYS = frozenset({"fact", "event", "target_id", "text", "rationale"})


@dataclass(frozen=True, kw_only=True)
class ReadJson:
    """The JSON value of a reply.

    Attributes:
        value: The decoded value without cut items; None where there is none.
        complete: False where the reply was cut, or holds no value.
        repaired: How many lone surrogates and NULs were replaced.
    """

    value: Any
    complete: bool
    repaired: int


@dataclass(frozen=True, kw_only=True)
class ReadFacts:
    """The facts of a reply to an extraction request.

    Attributes:
        items: Each with ``text`` and, where given, ``context`` (str), ``sources`` (list of str),
            ``event_time`` (str) and ``topics`` (list of str).
        dropped_items: Items that could not be read, blank ones included, cut ones not.
        repaired: How many lone surrogates and NULs were replaced.
        status: ``"empty"`` is a valid empty list; ``"parse_error"`` and ``"refused"`` mean that
            nothing is known, and ``"truncated"`` that more was said than `items` holds.
        error: What is wrong, in words that can be told to the model; None where nothing is.
    """

    items: tuple[dict[str, Any], ...]
    dropped_items: int
    repaired: int
    status: Status
    error: str | None


@dataclass(frozen=True, kw_only=True)
class ReadActions:
    """The actions of a reply to a decision request, as said and not yet judged.

    Attributes:
        items: Each with ``fact`` (int or None), ``event`` (upper case; "" where missing),
            ``target_id``, ``text`` and ``rationale`` (str or None), in the order of the reply.
        dropped_items: As `ReadFacts`.
        repaired: As `ReadFacts`.
        complete: True where the reply was read to its end, and is no draft in reasoning that was
            never closed; no DELETE is taken from another.
        status: As `ReadFacts`.
        error: As `ReadFacts`.
    """

    items: tuple[dict[str, Any], ...]
    dropped_items: int
    repaired: int
    complete: bool
    status: Status
    error: str | None


def read_json(
    content: str | None,
    *,
    finish_reason: str | None,
    fits: Callable[[Any], bool] = lambda _: True,
) -> ReadJson:
    """Read the first JSON object or list of a reply that fits.

    Args:
        content: The reply; None where the field was null.
        finish_reason: As the endpoint says; ``"length"`` means cut, whatever it looks like.
        fits: Judges the shape of a decoded value.

    Example:
        >>> read_json('Sure: {"a": [1, 2', finish_reason="length")
        ReadJson(value={'a': [1]}, complete=False, repaired=0)
    """
    answer = find_answer(content or "", lambda value: ITEMS if fits(value) else NO_ANSWER)
    if answer is None:
        return ReadJson(value=None, complete=False, repaired=0)
    value, repaired = _cleaned(_settled(answer.values[0]))
    complete = answer.complete and finish_reason != "length"
    return ReadJson(value=value, complete=complete, repaired=repaired)


def _settled(value: Any) -> Any:
    """The value as plain lists and dicts, without items that are cut or unreadable."""
    if isinstance(value, dict):
        return {key: _settled(child) for key, child in value.items()}
    if isinstance(value, list):
        gone = (CutObject, CutArray, type(UNREADABLE))
        return [_settled(child) for child in value if not isinstance(child, gone)]
    return value


def _cleaned(value: Any) -> tuple[Any, int]:
    """The value with storable strings only, and how many characters were replaced."""
    if isinstance(value, str):
        return clean(value)
    if isinstance(value, dict):
        pairs = [(*clean(key), *_cleaned(child)) for key, child in value.items()]
        return {key: child for key, _, child, _ in pairs}, sum(a + b for _, a, _, b in pairs)
    if isinstance(value, list):
        children = [_cleaned(child) for child in value]
        return [child for child, _ in children], sum(count for _, count in children)
    return value, 0


class _Items(NamedTuple):
    kept: tuple[dict[str, Any], ...]
    dropped: int
    repaired: int
    complete: bool
    status: Status
    error: str | None


def read_facts(
    content: str | None, *, finish_reason: str | None, refusal: str | None = None
) -> ReadFacts:
    """Read the reply to an extraction request.

    Args:
        content: The reply; None where the field was null.
        finish_reason: As the endpoint says.
        refusal: The endpoint's refusal field.

    Example:
        >>> read_facts('["Likes tea"]', finish_reason="stop").items
        ({'text': 'Likes tea'},)
    """
    read = _read(content, finish_reason, refusal, _FACT_WRAPPERS, _fact, says_none)
    return ReadFacts(
        items=read.kept,
        dropped_items=read.dropped,
        repaired=read.repaired,
        status=read.status,
        error=read.error,
    )


def read_actions(
    content: str | None, *, finish_reason: str | None, refusal: str | None = None
) -> ReadActions:
    """Read the reply to a decision request; whether the actions hold is judged elsewhere.

    Args:
        content: The reply; None where the field was null.
        finish_reason: As the endpoint says.
        refusal: The endpoint's refusal field.

    Example:
        >>> reply = '{"actions": [{"fact": 0, "event": "none"}]}'
        >>> read_actions(reply, finish_reason="stop").items[0]["event"]
        'NONE'
    """
    read = _read(content, finish_reason, refusal, _ACTION_WRAPPERS, _action, lambda _: False)
    return ReadActions(
        items=read.kept,
        dropped_items=read.dropped,
        repaired=read.repaired,
        complete=read.complete,
        status=read.status,
        error=read.error,
    )


def _read(  # noqa: PLR0913, PLR0917  # a reply, and the four ways in which the two kinds differ
    content: str | None,
    finish_reason: str | None,
    refusal: str | None,
    wrappers: frozenset[str],
    parse: Callable[[Any], dict[str, Any] | None],
    is_filler: Callable[[Any], bool],
) -> _Items:
    def is_item(value: Any) -> bool:
        return parse(value) is not None

    if finish_reason == "content_filter" or (refusal and refusal.strip()):
        return _Items((), 0, 0, False, "refused", "The model declined to answer.")
    cut = finish_reason == "length"
    text = content or ""
    answer = find_answer(text, lambda value: grade_list(value, wrappers, is_item))
    if answer is None or (cut and answer.in_reasoning):
        return _nothing(text, cut=cut)
    given = [item for value in answer.values for item in items_of(value, wrappers, is_item)]
    told = [item for item in given if not is_elision(item)]
    raw = [item for item in told if not is_filler(item)]
    items = [item for item in map(parse, raw) if item is not None]
    if not items and (why := why_hollow(text, answer.values, elided=len(given) > len(told))):
        return _Items((), len(raw), 0, False, *why)
    left_out = len(given) > len(told) or any(map(says_more, answer.values))
    complete = answer.complete and not cut and not left_out
    dropped = len(raw) - len(items)
    status, error = _judge(len(items), dropped, complete=complete)
    # What is not storable comes as it is or in an escape; mostly it is enough to look for both.
    items, repaired = _cleaned(items) if "\\u" in text or clean(text)[1] else (items, 0)
    is_final = complete and not answer.in_reasoning
    return _Items(tuple(items), dropped, repaired, is_final, status, error)


def _nothing(text: str, *, cut: bool) -> _Items:
    if cut:
        return _Items((), 0, 0, False, "truncated", "The reply was cut before its first item.")
    blank = not text.strip()
    error = "The reply is empty." if blank else "The reply holds no JSON of the asked shape."
    return _Items((), 0, 0, False, "parse_error", error)


def _judge(kept: int, dropped: int, *, complete: bool) -> tuple[Status, str | None]:
    if not complete:
        return "truncated", "The reply was cut before its end."
    if kept:
        return "ok", None
    if dropped:
        return "parse_error", f"None of the {dropped} items of the reply can be read."
    return "empty", None


def _fact(value: Any) -> dict[str, Any] | None:
    """Normalise one item of an extraction reply; None where it holds no text."""
    if isinstance(value, str):
        return {"text": value} if value.strip() else None
    if not isinstance(value, dict) or "role" in value:  # a message of the transcript, echoed
        return None
    said = folded(value, _FACT_KEYS)
    text = first(said, _FACT_TEXT, text_of)
    if text is None:
        return None
    details = {key: read(said[key]) for key, read in _FACT_DETAILS.items() if key in said}
    return {"text": text, **{key: detail for key, detail in details.items() if detail}}


def _strings(value: Any) -> list[str]:
    """A string or number, or a list of them, as strings that are not blank."""
    ids = map(_id, value if isinstance(value, list) else [value])
    return [one for one in ids if one and one.strip()]


_FACT_DETAILS: dict[str, Callable[[Any], Any]] = {
    "context": text_of,
    "sources": _strings,
    "event_time": text_of,
    "topics": _strings,
}
_FACT_KEYS = frozenset({"text", *_FACT_DETAILS})


def _action(value: Any) -> dict[str, Any] | None:
    """Normalise one item of a decision reply; None where it is nothing like an action."""
    if not isinstance(value, dict):
        return None
    said = folded(value, _ACTION_KEYS)
    event = first(said, _EVENT, string_of)
    number = first(said, _FACT_NUMBER, _number)
    target = first(said, _TARGET, _id)
    if event is None and number is None and target is None:
        return None
    return {
        "fact": number,
        "event": (event or "").strip().upper(),
        "target_id": target,
        "text": first(said, _ACTION_TEXT, string_of),
        "rationale": first(said, _RATIONALE, text_of),
    }


def _number(value: Any) -> int | None:
    if isinstance(value, float) and value.is_integer():
        return int(value)
    if isinstance(value, str) and value.strip().isdecimal():
        # Longer than any fact number, and `int` refuses strings of thousands of digits.
        return int(value) if len(value) < 10 else None  # noqa: PLR2004  # see above
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def _id(value: Any) -> str | None:
    if isinstance(value, str):
        return value
    number = _number(value)
    return None if number is None else str(number)
