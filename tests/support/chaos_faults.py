"""Faults in what a model says: it says something else than it should, and says it well.

How badly a reply can be written is in `chaos_forms`, what the transport does to it in
`chaos_model`.
"""

import random
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import orjson

from memorypipe.llm.types import DecideTask, ExtractTask, Request
from memorypipe.prompts.decide import _EXAMPLES as DECIDE_EXAMPLES
from memorypipe.prompts.extract import _EXAMPLES as EXTRACT_EXAMPLES

__all__ = [
    "ALTERED",
    "ECHOES",
    "EXTRACT_EXAMPLES",
    "Items",
    "Said",
    "dumps",
    "is_decision",
    "pick",
    "write",
]

Items = tuple[dict[str, Any], ...]
Reach = Literal["whole", "cut", "none"]

_EVENTS = ("ADD", "UPDATE", "DELETE", "NONE")


ECHOES = frozenset(
    item["text"]
    for examples in (EXTRACT_EXAMPLES, DECIDE_EXAMPLES)
    for example in examples
    for item in example.items
    if item["text"]
)
"""What the examples of the prompts say; nobody in a log says any of it."""


@dataclass(frozen=True, kw_only=True)
class Said:
    """What a model says, and how far a careful reader may go by it.

    Attributes:
        items: The facts or actions that can be read, in their order.
        reach: ``"whole"``: they are all that was said; ``"cut"``: more was said, or they are a
            draft; ``"none"``: nothing was said.
        content: The reply.
        finish_reason: As the endpoint tells.
        refusal: As the endpoint tells.
    """

    items: Items
    reach: Reach = "whole"
    content: str | None = None
    finish_reason: str | None = "stop"
    refusal: str | None = None


# Gets the items, the request, the dice, and ids that nothing may be aimed at.
Alter = Callable[[Items, Request, random.Random, Sequence[str]], Items]


def write(said: Said, request: Request) -> str:
    """Write items as the reply format asks."""
    wrapper = "memories" if isinstance(request.task, ExtractTask) else "actions"
    # The standard library of JSON would escape; lone surrogates make orjson refuse.
    return dumps({wrapper: list(said.items)})


def dumps(value: Any) -> str:
    try:
        return orjson.dumps(value).decode()
    except TypeError:
        import json  # noqa: PLC0415  # for lone surrogates alone

        return json.dumps(value)


def pick(items: Items, rng: random.Random) -> int:
    return rng.randrange(len(items))


def _with(items: Items, place: int, **changes: Any) -> Items:
    return tuple({**it, **changes} if n == place else it for n, it in enumerate(items))


def is_decision(request: Request) -> bool:
    return isinstance(request.task, DecideTask)


def _name(items: Items, request: Request) -> str:
    """Whose facts these are: the first word of any of them."""
    task = request.task
    texts = [fact.text for fact in task.facts] if isinstance(task, DecideTask) else []
    texts += [item["text"] for item in items if item.get("text")]
    return re.split(r"[^A-Za-z]", texts[0])[0]


def _fewer(items: Items, _request: Request, rng: random.Random, _ids: Sequence[str]) -> Items:
    gone = pick(items, rng)
    return tuple(item for n, item in enumerate(items) if n != gone)


def _more(items: Items, request: Request, rng: random.Random, _ids: Sequence[str]) -> Items:
    name = _name(items, request)
    if is_decision(request):
        extra = {"fact": len(items) + rng.randrange(3), "event": "DELETE", "target_id": "0"}
        return (*items, {**extra, "text": f"{name}'s shadow is {rng.randrange(90)} wide"})
    return (*items, {"text": f"{name}'s shadow is {rng.randrange(90)} wide", "sources": [1]})


def _shifted(items: Items, request: Request, _rng: random.Random, _ids: Sequence[str]) -> Items:
    """Count from 1 where 0 was asked for; or name messages that were not shown."""
    if is_decision(request):
        return tuple({**item, "fact": item["fact"] + 1} for item in items)
    return tuple({**item, "sources": [n + 77 for n in item["sources"]]} for item in items)


def _unnumbered(items: Items, request: Request, rng: random.Random, _ids: Sequence[str]) -> Items:
    if not is_decision(request):
        return tuple({k: v for k, v in item.items() if k != "sources"} for item in items)
    bare = tuple({k: v for k, v in item.items() if k != "fact"} for item in items)
    one_more = {"event": "DELETE", "target_id": "0", "text": None}
    return rng.choice([bare, bare[1:], (one_more, *bare)])


def _repeated(items: Items, request: Request, rng: random.Random, _ids: Sequence[str]) -> Items:
    """Give one number to two items."""
    again = items[pick(items, rng)]
    if len(items) < 2 or not is_decision(request):
        return (*items, again)
    if rng.random() < 0.5:
        return (*items, {**again, "event": rng.choice(["DELETE", "NONE"]), "target_id": "0"})
    first, second = rng.sample(range(len(items)), 2)
    return _with(items, second, fact=items[first]["fact"])


def _swapped_numbers(
    items: Items, request: Request, rng: random.Random, _ids: Sequence[str]
) -> Items:
    if not is_decision(request):
        return items
    numbers = [item["fact"] for item in items]
    rng.shuffle(numbers)
    return tuple({**item, "fact": n} for item, n in zip(items, numbers, strict=True))


def _unknown_id(items: Items, request: Request, rng: random.Random, ids: Sequence[str]) -> Items:
    """Aim at what was not shown: of other scopes, long gone, or never there."""
    if not is_decision(request):
        return _with(items, pick(items, rng), sources=["-1", 9000, "m"])
    strange = ["-1", "99", "#0", " 0", "00", "null", 7.5, True, None, ["0"], *ids]
    target = rng.choice(strange)
    return _with(items, pick(items, rng), event=rng.choice(["UPDATE", "DELETE"]), target_id=target)


def _swapped_ids(items: Items, request: Request, rng: random.Random, _ids: Sequence[str]) -> Items:
    """Aim at another memory that was shown."""
    task = request.task
    if not isinstance(task, DecideTask) or not task.existing:
        return items
    place = rng.randrange(len(task.existing))
    target = rng.choice([str(place), place, task.existing[place].id])
    event = rng.choice(["UPDATE", "DELETE"])
    n = pick(items, rng)
    return _with(items, n, event=event, target_id=target, text=task.facts[n % len(task.facts)].text)


def _echoed(items: Items, request: Request, rng: random.Random, _ids: Sequence[str]) -> Items:
    """Give the examples of the prompt back beside the data; of a decision, instead of it too."""
    examples = DECIDE_EXAMPLES if is_decision(request) else EXTRACT_EXAMPLES
    echo = tuple(dict(item) for item in examples[0].items)
    if is_decision(request):
        n = pick(items, rng)
        one = _with(items, n, text=rng.choice(echo)["text"])
        return rng.choice([echo, one])
    return rng.choice([(*echo, *items), (*items, *echo)])


def _emptied(items: Items, _request: Request, rng: random.Random, _ids: Sequence[str]) -> Items:
    nothing = rng.choice(["", "  \n", None])
    n = pick(items, rng)
    return _with(items, n, text=nothing) if rng.random() < 0.5 else _all(items, text=nothing)


def _all(items: Items, **changes: Any) -> Items:
    return tuple({**item, **changes} for item in items)


def _foreign(items: Items, request: Request, _rng: random.Random, _ids: Sequence[str]) -> Items:
    name = _name(items, request)
    return tuple(
        {**item, "text": f"{name}さんの物は{n}番です、古い友人から"} if item.get("text") else item
        for n, item in enumerate(items)
    )


def _copied(items: Items, request: Request, rng: random.Random, _ids: Sequence[str]) -> Items:
    """Say of one fact what another fact or a memory says."""
    task = request.task
    if not isinstance(task, DecideTask):
        return (*items, items[pick(items, rng)])
    texts = [*(f.text for f in task.facts), *(m.text for m in task.existing)]
    return _with(items, pick(items, rng), event="ADD", target_id=None, text=rng.choice(texts))


def _eventless(items: Items, request: Request, rng: random.Random, _ids: Sequence[str]) -> Items:
    n = pick(items, rng)
    if not is_decision(request):
        return tuple({"note": "?"} if m == n else item for m, item in enumerate(items))
    strange = rng.choice([None, "", "REPLACE", "ADD or UPDATE", 3])
    changed = _with(items, n, event=strange, target_id="0")
    if rng.random() < 0.5:
        return changed
    return tuple(
        {k: v for k, v in item.items() if m != n or k != "event"} for m, item in enumerate(changed)
    )


def _turned(items: Items, request: Request, rng: random.Random, _ids: Sequence[str]) -> Items:
    """Say another event than the right one."""
    if not is_decision(request):
        return items
    return _with(items, pick(items, rng), event=rng.choice(_EVENTS))


def _odd_case(items: Items, request: Request, rng: random.Random, _ids: Sequence[str]) -> Items:
    if not is_decision(request):
        return tuple({key.title(): value for key, value in item.items()} for item in items)
    how = rng.randrange(3)

    def odd(event: str) -> str:
        return (event.lower(), event.title(), f" {event}\n")[how]

    return tuple(
        {**it, "event": odd(it["event"])} if isinstance(it.get("event"), str) else it
        for it in items
    )


def _reordered(items: Items, _request: Request, rng: random.Random, _ids: Sequence[str]) -> Items:
    return tuple(rng.sample(items, len(items)))


def _unstorable(items: Items, _request: Request, rng: random.Random, _ids: Sequence[str]) -> Items:
    n = pick(items, rng)
    text = items[n].get("text")
    mark = rng.choice(["\x00", "\ud83d", "\udc00\x00"])
    return _with(items, n, text=f"{text}{mark}") if isinstance(text, str) else items


ALTERED: dict[str, Alter] = {
    "fewer": _fewer,
    "more": _more,
    "shifted numbers": _shifted,
    "no numbers": _unnumbered,
    "repeated number": _repeated,
    "swapped numbers": _swapped_numbers,
    "unknown or stale id": _unknown_id,
    "swapped id": _swapped_ids,
    "echo of examples": _echoed,
    "empty texts": _emptied,
    "foreign language": _foreign,
    "copied text": _copied,
    "missing or unknown event": _eventless,
    "another event": _turned,
    "odd case": _odd_case,
    "reordered": _reordered,
    "NUL and lone surrogates": _unstorable,
}
