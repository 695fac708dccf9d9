"""The faults of model replies: what a good answer becomes, and what may be taken from that.

`ALTERED`: the model says something else, and says it well. `DRESSED`: the same is said, in another
form. `CUT`: the reply ends early. `LOST`: there is a reply, and nothing in it. What the transport
does to a reply is in `chaos_model`.
"""

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import orjson

from memorypipe.llm.types import DecideTask, ExtractTask, Request
from memorypipe.prompts.common import Example
from memorypipe.prompts.decide import _EXAMPLES as DECIDE_EXAMPLES
from memorypipe.prompts.extract import _EXAMPLES as EXTRACT_EXAMPLES

__all__ = ["ALTERED", "CUT", "DRESSED", "LOST", "Items", "Said", "write"]

Items = tuple[dict[str, Any], ...]
Reach = Literal["whole", "cut", "none"]

_EVENTS = ("ADD", "UPDATE", "DELETE", "NONE")


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


Alter = Callable[[Items, Request, random.Random, Sequence[str]], Items]
Dress = Callable[[Said, Request, random.Random], Said]


def write(said: Said, request: Request) -> str:
    """Write items as the reply format asks."""
    wrapper = "memories" if isinstance(request.task, ExtractTask) else "actions"
    # The standard library of JSON would escape; lone surrogates make orjson refuse.
    return _dumps({wrapper: list(said.items)})


def _dumps(value: Any) -> str:
    try:
        return orjson.dumps(value).decode()
    except TypeError:
        import json  # noqa: PLC0415  # for lone surrogates alone

        return json.dumps(value)


def _pick(items: Items, rng: random.Random) -> int:
    return rng.randrange(len(items))


def _with(items: Items, place: int, **changes: Any) -> Items:
    return tuple({**it, **changes} if n == place else it for n, it in enumerate(items))


def _is_decision(request: Request) -> bool:
    return isinstance(request.task, DecideTask)


def _name(items: Items, request: Request) -> str:
    """Whose facts these are: the first word of any of them."""
    task = request.task
    texts = [fact.text for fact in task.facts] if isinstance(task, DecideTask) else []
    texts += [item["text"] for item in items if item.get("text")]
    return texts[0].split("'")[0].split(" ")[0]


# --- altered: well-formed, and not what the good model said ---


def _fewer(items: Items, _request: Request, rng: random.Random, _ids: Sequence[str]) -> Items:
    gone = _pick(items, rng)
    return tuple(item for n, item in enumerate(items) if n != gone)


def _more(items: Items, request: Request, rng: random.Random, _ids: Sequence[str]) -> Items:
    name = _name(items, request)
    if _is_decision(request):
        extra = {"fact": len(items) + rng.randrange(3), "event": "DELETE", "target_id": "0"}
        return (*items, {**extra, "text": f"{name}'s shadow is {rng.randrange(90)} wide"})
    return (*items, {"text": f"{name}'s shadow is {rng.randrange(90)} wide", "sources": [1]})


def _shifted(items: Items, request: Request, _rng: random.Random, _ids: Sequence[str]) -> Items:
    """Count from 1 where 0 was asked for; or name messages that were not shown."""
    if _is_decision(request):
        return tuple({**item, "fact": item["fact"] + 1} for item in items)
    return tuple({**item, "sources": [n + 77 for n in item["sources"]]} for item in items)


def _unnumbered(items: Items, request: Request, rng: random.Random, _ids: Sequence[str]) -> Items:
    if not _is_decision(request):
        return tuple({k: v for k, v in item.items() if k != "sources"} for item in items)
    bare = tuple({k: v for k, v in item.items() if k != "fact"} for item in items)
    return bare if rng.random() < 0.5 else bare[:-1] or bare  # noqa: PLR2004  # a coin


def _repeated(items: Items, request: Request, rng: random.Random, _ids: Sequence[str]) -> Items:
    """Give one number to two items."""
    if len(items) < 2 or not _is_decision(request):  # noqa: PLR2004  # a pair
        return (*items, items[0])
    first, second = rng.sample(range(len(items)), 2)
    return _with(items, second, fact=items[first]["fact"])


def _swapped_numbers(
    items: Items, request: Request, rng: random.Random, _ids: Sequence[str]
) -> Items:
    if not _is_decision(request):
        return items
    numbers = [item["fact"] for item in items]
    rng.shuffle(numbers)
    return tuple({**item, "fact": n} for item, n in zip(items, numbers, strict=True))


def _unknown_id(items: Items, request: Request, rng: random.Random, ids: Sequence[str]) -> Items:
    """Aim at what was not shown: of other scopes, long gone, or never there."""
    if not _is_decision(request):
        return _with(items, _pick(items, rng), sources=["-1", 9000, "m"])
    strange = ["-1", "99", "#0", " 0", "00", "null", 7.5, True, None, ["0"], *ids]
    target = rng.choice(strange)
    return _with(items, _pick(items, rng), event=rng.choice(["UPDATE", "DELETE"]), target_id=target)


def _swapped_ids(items: Items, request: Request, rng: random.Random, _ids: Sequence[str]) -> Items:
    """Aim at another memory that was shown."""
    task = request.task
    if not isinstance(task, DecideTask) or not task.existing:
        return items
    place = rng.randrange(len(task.existing))
    target = rng.choice([str(place), place, task.existing[place].id])
    event = rng.choice(["UPDATE", "DELETE"])
    n = _pick(items, rng)
    return _with(items, n, event=event, target_id=target, text=task.facts[n % len(task.facts)].text)


def _echoed(items: Items, request: Request, rng: random.Random, _ids: Sequence[str]) -> Items:
    """Give the examples of the prompt back, instead of the data or beside it."""
    examples: Sequence[Example] = DECIDE_EXAMPLES if _is_decision(request) else EXTRACT_EXAMPLES
    echo = tuple(dict(item) for item in examples[0].items)
    if _is_decision(request):
        n = _pick(items, rng)
        one = _with(items, n, text=rng.choice(echo)["text"])
        return rng.choice([echo, one])
    return rng.choice([echo, (*echo, *items)])


def _emptied(items: Items, _request: Request, rng: random.Random, _ids: Sequence[str]) -> Items:
    nothing = rng.choice(["", "  \n", None])
    n = _pick(items, rng)
    return _with(items, n, text=nothing) if rng.random() < 0.5 else _all(items, text=nothing)  # noqa: PLR2004  # a coin


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
        return (*items, items[_pick(items, rng)])
    texts = [*(f.text for f in task.facts), *(m.text for m in task.existing)]
    return _with(items, _pick(items, rng), event="ADD", target_id=None, text=rng.choice(texts))


def _eventless(items: Items, request: Request, rng: random.Random, _ids: Sequence[str]) -> Items:
    n = _pick(items, rng)
    if not _is_decision(request):
        return tuple({"note": "?"} if m == n else item for m, item in enumerate(items))
    strange = rng.choice([None, "", "REPLACE", "ADD or UPDATE", 3])
    if rng.random() < 0.5:  # noqa: PLR2004  # a coin
        return _with(items, n, event=strange)
    return tuple(
        {k: v for k, v in item.items() if m != n or k != "event"} for m, item in enumerate(items)
    )


def _turned(items: Items, request: Request, rng: random.Random, _ids: Sequence[str]) -> Items:
    """Say another event than the right one."""
    if not _is_decision(request):
        return items
    return _with(items, _pick(items, rng), event=rng.choice(_EVENTS))


def _odd_case(items: Items, request: Request, rng: random.Random, _ids: Sequence[str]) -> Items:
    if not _is_decision(request):
        return tuple({key.title(): value for key, value in item.items()} for item in items)
    write_as = rng.choice([str.lower, str.title, lambda event: f" {event}\n"])
    return tuple(
        {**it, "event": write_as(it["event"])} if isinstance(it.get("event"), str) else it
        for it in items
    )


def _reordered(items: Items, _request: Request, rng: random.Random, _ids: Sequence[str]) -> Items:
    return tuple(rng.sample(items, len(items)))


def _unstorable(items: Items, _request: Request, rng: random.Random, _ids: Sequence[str]) -> Items:
    n = _pick(items, rng)
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


# --- dressed: the same items, in another form ---


def _around(before: str, after: str = "") -> Dress:
    def dress(said: Said, request: Request, _rng: random.Random) -> Said:
        return replace(said, content=f"{before}{write(said, request)}{after}")

    return dress


def _draft(request: Request, rng: random.Random) -> str:
    """Something that a model considers and does not mean."""
    if not _is_decision(request):
        return '{"memories": [{"text": "a draft that was never meant"}]}'
    event = rng.choice(["DELETE", "NONE"])
    return '{"actions": [{"fact": 0, "event": "%s", "target_id": "0", "text": null}]}' % event


def _thought(said: Said, request: Request, rng: random.Random) -> Said:
    draft = _draft(request, rng)
    opening = rng.choice(["<think>", "", "<thinking>\n"])
    closing = "</thinking>" if "thinking" in opening else "</think>"
    content = f"{opening}Maybe {draft}? No.{closing}\n{write(said, request)}"
    return replace(said, content=content)


def _bare_list(said: Said, request: Request, _rng: random.Random) -> Said:
    del request
    return replace(said, content=_dumps(list(said.items))) if said.items else said


def _sloppy(said: Said, request: Request, rng: random.Random) -> Said:
    """Not quite JSON: a comma too many, a comment, an end that is missing its wrapper."""
    text = write(said, request)
    spoilt = [f"{text[:-2]},]}}", f"{text[:-1]} // done\n}}", text.replace('":', '" :\n')]
    return replace(said, content=rng.choice(spoilt))


def _in_two(said: Said, request: Request, rng: random.Random) -> Said:
    """Two objects, one after the other."""
    middle = rng.randint(0, len(said.items))
    halves = [said.items[:middle], said.items[middle:]]
    parts = [write(replace(said, items=half), request) for half in halves if half]
    return replace(said, content="\n".join(parts)) if parts else said


def _renamed(said: Said, request: Request, rng: random.Random) -> Said:
    """Other names for the list and for the text of its items."""
    wrapper = rng.choice(["facts", "items"] if not _is_decision(request) else ["memory", "results"])
    key = "fact" if not _is_decision(request) else "new_memory"
    items = [{key if k == "text" else k: v for k, v in item.items()} for item in said.items]
    return replace(said, content=_dumps({wrapper: items}))


DRESSED: dict[str, Dress] = {
    "fenced": _around("```json\n", "\n```"),
    "fenced, and explained": _around("Here it is:\n```\n", "\n```\nI kept what {lasts} [only]."),
    "prose around": _around("Sure! The result: ", " Hope that helps {and more}."),
    "reasoning, closed or dangling": _thought,
    "bare list": _bare_list,
    "sloppy JSON": _sloppy,
    "two objects": _in_two,
    "other names": _renamed,
}


# --- cut: the reply ends early ---


def _cut_at_item(said: Said, request: Request, rng: random.Random) -> tuple[str, Items]:
    """End somewhere within an item; those before it are whole."""
    if not said.items:
        return write(said, request)[: rng.randint(1, 12)], ()
    n = _pick(said.items, rng)
    before = write(replace(said, items=said.items[:n]), request)[:-2]
    item = _dumps(said.items[n])
    separator = "," if n else ""
    return f"{before}{separator}{item[: rng.randint(1, len(item) - 1)]}", said.items[:n]


def _cut_told(said: Said, request: Request, rng: random.Random) -> Said:
    content, items = _cut_at_item(said, request, rng)
    return replace(said, items=items, reach="cut", content=content, finish_reason="length")


def _cut_untold(said: Said, request: Request, rng: random.Random) -> Said:
    content, items = _cut_at_item(said, request, rng)
    reason = rng.choice(["stop", None])
    return replace(said, items=items, reach="cut", content=content, finish_reason=reason)


def _cut_between(said: Said, request: Request, rng: random.Random) -> Said:
    """End right after an item."""
    n = rng.randint(0, len(said.items))
    content = write(replace(said, items=said.items[:n]), request)[:-2]
    reason = rng.choice(["stop", "length"])
    return replace(
        said, items=said.items[:n], reach="cut", content=content, finish_reason=reason
    )


def _cut_thinking(said: Said, request: Request, rng: random.Random) -> Said:
    """Used up by reasoning that never came to an end."""
    content = f"<think>Let me see. Maybe {_draft(request, rng)}? Or"
    return replace(said, items=(), reach="none", content=content, finish_reason="length")


def _unclosed(said: Said, request: Request, _rng: random.Random) -> Said:
    """Reasoning whose end is missing: nobody can tell whether this is the answer."""
    content = f"<think>Let me see.\n{write(said, request)}"
    return replace(said, reach="cut", content=content)


def _cut_but_whole(said: Said, request: Request, _rng: random.Random) -> Said:
    """All there to see, and the endpoint says that there was more."""
    return replace(said, reach="cut", content=write(said, request), finish_reason="length")


CUT: dict[str, Dress] = {
    "cut, and told": _cut_told,
    "cut, and not told": _cut_untold,
    "cut between items": _cut_between,
    "cut while thinking": _cut_thinking,
    "reasoning never closed": _unclosed,
    "whole, and said to be cut": _cut_but_whole,
}


# --- lost: a reply without an answer ---


def _nothing(content: str | None, **changes: Any) -> Dress:
    def dress(said: Said, _request: Request, _rng: random.Random) -> Said:
        return replace(said, items=(), reach="none", content=content, **changes)

    return dress


def _schema_echo(said: Said, request: Request, _rng: random.Random) -> Said:
    asked = request.params.get("response_format", {"type": "object", "properties": {"x": []}})
    schema = asked.get("json_schema", {}).get("schema", asked)
    return replace(said, items=(), reach="none", content=_dumps(schema))


def _data_echo(said: Said, request: Request, _rng: random.Random) -> Said:
    # That of a decision has a JSON object a line, with "fact" or "id": nearly actions.
    content = str(request.messages[-1]["content"])
    return replace(said, items=(), reach="none", content=content)


def _garbage(said: Said, request: Request, rng: random.Random) -> Said:
    text = write(said, request)
    content = rng.choice(["".join(c for c in text if c not in '{}[]"'), "}{][", "null", "42"])
    return replace(said, items=(), reach="none", content=content)


LOST: dict[str, Dress] = {
    "malformed": _garbage,
    "prose alone": _nothing("I am sorry, there is nothing [here] that I {can} say."),
    "refusal in words": _nothing("I'm sorry, but I can't help with that."),
    "refusal field": _nothing(None, refusal="I can't help with that."),
    "refusal beside an answer": _nothing('{"memories": [], "actions": []}', refusal="No."),
    "content filter": _nothing('{"memories": [', finish_reason="content_filter"),
    "blank": _nothing("  \n"),
    "null": _nothing(None),
    "schema echo": _schema_echo,
    "data echo": _data_echo,
}
