"""Faults in how a model says it: in another form, cut off, or not at all.

`DRESSED`: all is there to be read. `CUT`: the reply ends early. `LOST`: there is a reply, and
nothing in it.
"""

import random
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from memorypipe.llm.types import Request
from tests.support.chaos_faults import (
    EXTRACT_EXAMPLES,
    Items,
    Said,
    dumps,
    is_decision,
    pick,
    write,
)

__all__ = ["CUT", "DRESSED", "LOST"]

Dress = Callable[[Said, Request, random.Random], Said]


def _around(before: str, after: str = "") -> Dress:
    def dress(said: Said, request: Request, _rng: random.Random) -> Said:
        return replace(said, content=f"{before}{write(said, request)}{after}")

    return dress


def _draft(request: Request, rng: random.Random) -> str:
    """Something that a model considers and does not mean."""
    if not is_decision(request):
        return '{"memories": [{"text": "a draft that was never meant"}]}'
    event = rng.choice(["DELETE", "NONE"])
    return dumps({"actions": [{"fact": 0, "event": event, "target_id": "0", "text": None}]})


def _thought(said: Said, request: Request, rng: random.Random) -> Said:
    draft = _draft(request, rng)
    opening = rng.choice(["<think>", "", "<thinking>\n"])
    closing = "</thinking>" if "thinking" in opening else "</think>"
    content = f"{opening}Maybe {draft}? No.{closing}\n{write(said, request)}"
    return replace(said, content=content)


def _bare_list(said: Said, request: Request, _rng: random.Random) -> Said:
    del request
    return replace(said, content=dumps(list(said.items))) if said.items else said


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
    wrapper = rng.choice(["facts", "items"] if not is_decision(request) else ["memory", "results"])
    key = "fact" if not is_decision(request) else "new_memory"
    items = [{key if k == "text" else k: v for k, v in item.items()} for item in said.items]
    return replace(said, content=dumps({wrapper: items}))


def _second_thought(said: Said, request: Request, _rng: random.Random) -> Said:
    """First nothing, then all of it."""
    nothing = write(replace(said, items=()), request)
    return replace(said, content=f"{nothing}\nNo, wait: {write(said, request)}")


def _beside_nothing(said: Said, request: Request, _rng: random.Random) -> Said:
    """An empty list where the items belong, and the items under another name."""
    name = "actions" if is_decision(request) else "memories"
    return replace(said, content=dumps({name: [], f"new_{name}": list(said.items)}))


DRESSED: dict[str, Dress] = {
    "nothing at first": _second_thought,
    "beside an empty list": _beside_nothing,
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
    n = pick(said.items, rng)
    before = write(replace(said, items=said.items[:n]), request)[:-2]
    item = dumps(said.items[n])
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
    return replace(said, items=said.items[:n], reach="cut", content=content, finish_reason=reason)


def _cut_thinking(said: Said, request: Request, rng: random.Random) -> Said:
    """Used up by reasoning that never came to an end."""
    content = f"<think>Let me see. Maybe {_draft(request, rng)}? Or"
    return replace(said, items=(), reach="none", content=content, finish_reason="length")


def _unclosed(said: Said, request: Request, _rng: random.Random) -> Said:
    """Reasoning whose end is missing: nobody can tell whether this is the answer.

    Facts are taken from it, but nothing is deleted on its word.
    """
    content = f"<think>Let me see.\n{write(said, request)}"
    return replace(said, reach="cut" if is_decision(request) else "whole", content=content)


def _cut_but_whole(said: Said, request: Request, _rng: random.Random) -> Said:
    """All there to see, and the endpoint says that there was more."""
    return replace(said, reach="cut", content=write(said, request), finish_reason="length")


def _left_out(said: Said, request: Request, rng: random.Random) -> Said:
    """Dots where the rest belongs, in an object that ends as it should."""
    n = rng.randint(0, len(said.items))
    parts = [dumps(item) for item in said.items[:n]]
    parts.append(rng.choice(["...", '"..."', "{...}", '{"text": "…"}']))
    name = "actions" if is_decision(request) else "memories"
    content = f'{{"{name}": [{", ".join(parts)}]}}'
    return replace(said, items=said.items[:n], reach="cut", content=content)


CUT: dict[str, Dress] = {
    "dots for the rest": _left_out,
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
    return replace(said, items=(), reach="none", content=dumps(schema))


def _data_echo(said: Said, request: Request, _rng: random.Random) -> Said:
    # That of a decision has a JSON object a line, with "fact" or "id": nearly actions.
    content = str(request.messages[-1]["content"])
    return replace(said, items=(), reach="none", content=content)


def _prompt_echo(said: Said, request: Request, rng: random.Random) -> Said:
    """Give nothing but the prompt's own words back, in the right form or as they stand."""
    system = str(request.messages[0]["content"])
    echoes = [system]
    if not is_decision(request):
        (example,) = EXTRACT_EXAMPLES[0].items
        texts = [
            example["text"],
            example["text"].upper() + ".",
            "My brother Oskar moved to Tromsø yesterday",
            "The user's brother Oskar lives in Tromsø",
            "the fact, one sentence",
            "Keep negations.",
            "string",
        ]
        context = "what is needed to understand the fact and is not in it"
        echoes += [dumps({"memories": [{"text": text, "context": context}]}) for text in texts]
        echoes.append(dumps({"memories": [*texts]}))
    return replace(said, items=(), reach="none", content=rng.choice(echoes))


def _hollow(said: Said, request: Request, rng: random.Random) -> Said:
    """An empty list, and beside it that it is not the answer."""
    name = "actions" if is_decision(request) else "memories"
    contents = [
        dumps({"error": "the context is too long", name: []}),
        dumps({"status": "failed", name: []}),
        dumps({"type": "object", "title": "Reply", name: []}),
        f'I am sorry, I cannot help with that. {{"{name}": []}}',
        f'{{"{name}": []}}\nThis is against my guidelines.',
        "I went through the list [] that is here.",
        f'{{"{name}": [...]}}',
    ]
    return replace(said, items=(), reach="none", content=rng.choice(contents))


def _garbage(said: Said, request: Request, rng: random.Random) -> Said:
    text = write(said, request)
    content = rng.choice(["".join(c for c in text if c not in '{}[]"'), "}{][", "null", "42"])
    return replace(said, items=(), reach="none", content=content)


LOST: dict[str, Dress] = {
    "echo of the prompt alone": _prompt_echo,
    "nothing, beside a failure": _hollow,
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
