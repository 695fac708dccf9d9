"""How many tokens does a decision take, against a naive prompt?

The facts are the observations of a LoCoMo file, session by session; nobody is asked, as both
prompts are to decide the same: every fact is new. What differs is the form.

ours
    What the pipeline sends: the memories that the lookup chooses, under short ids, dated; the
    reply has one action per fact.
naive
    Instructions of the same length, the *same* memories with their full ids, undated; the reply
    repeats every memory with id, text and event, then the new ones.
naive, all memories
    The same with every memory of the scope instead of the chosen ones.

Tokens are counted by the package's estimate, and by a tokenizer where `--model` names one that is
installed.

    python benchmarks/decision_tokens.py LOCOMO.json [--facts-per-call 20] [--model gpt-4o]

Prints one JSON object: tokens per call and per fact, and the ratios to ours.
"""

import argparse
import json
import platform
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from datetime import datetime
from itertools import groupby
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))

from benchmarks.eval.locomo import Session, read_sessions
from memorypipe.ids import memory_id  # the checkout comes first
from memorypipe.llm.tokens import MESSAGE_TOKENS, TokenCounter, tokenizer_of
from memorypipe.llm.types import ChatMessage, Existing, Fact
from memorypipe.prompts.decide import decide_messages, decide_system
from memorypipe.rank.lookup import Lookup, ScopeIndex
from memorypipe.rank.memory import Memory
from memorypipe.schema import RECORD_TYPE_MEMORY

LOOKUP = Lookup(strategy="keyword")


def calls(
    sessions: Sequence[Session], facts_per_call: int
) -> Iterator[tuple[list[Fact], list[Memory], list[Memory]]]:
    """Give the facts of each call, the memories chosen for it, and all memories there are."""
    for scope_key, group in groupby(sessions, key=lambda session: session.name.split("/")[0]):
        facts = [
            Fact(text=text, event_time=_said_at(session))
            for session in group
            for text in session.observations
        ]
        memories: list[Memory] = []
        for start in range(0, len(facts), facts_per_call):
            asked = facts[start : start + facts_per_call]
            index = ScopeIndex(LOOKUP, memories, {})
            chosen = LOOKUP.choose([fact.text for fact in asked], list(memories), index)
            yield asked, list(chosen), list(memories)
            memories += [_memory(scope_key, fact) for fact in asked]


def _said_at(session: Session) -> str | None:
    times = [turn.timestamp for turn in session.task.turns if turn.timestamp is not None]
    return max(times).isoformat() if times else None


def _memory(scope_key: str, fact: Fact) -> Memory:
    time = None if fact.event_time is None else datetime.fromisoformat(fact.event_time)
    minted = memory_id(RECORD_TYPE_MEMORY, scope_key, fact.text)
    return Memory(id=minted, text=fact.text, event_time=time)


def ours(facts: Sequence[Fact], memories: Sequence[Memory]) -> tuple[list[ChatMessage], str]:
    """Give our request and the reply to it."""
    existing = [
        Existing(id=cell["id"], text=cell["text"], event_time=cell.get("event_time"))
        for cell in (memory.to_cell() for memory in memories)
    ]
    actions = [
        {"fact": n, "event": "ADD", "target_id": None, "text": None, "rationale": "new"}
        for n, _ in enumerate(facts)
    ]
    return decide_messages(facts, existing), _json({"actions": actions})


def naive(facts: Sequence[Fact], memories: Sequence[Memory]) -> tuple[list[ChatMessage], str]:
    """Give the naive request and the reply to it."""
    known = [{"id": memory.id, "text": memory.text} for memory in memories]
    data = {"memory": known, "new_facts": [fact.text for fact in facts]}
    messages: list[ChatMessage] = [
        {"role": "system", "content": decide_system()},
        {"role": "user", "content": json.dumps(data, ensure_ascii=False, indent=2)},
    ]
    echoed = [{**memory, "event": "NONE"} for memory in known]
    added = [
        {"id": str(n), "text": fact.text, "event": "ADD"}
        for n, fact in enumerate(facts, start=len(known))
    ]
    return messages, _json({"memory": [*echoed, *added]})


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def measure(
    sessions: Sequence[Session], facts_per_call: int, count: TokenCounter
) -> dict[str, Any]:
    """Add up the tokens of all calls, per form."""
    totals: dict[str, Counter[str]] = {
        name: Counter() for name in ("ours", "naive", "naive, all memories")
    }
    made = decided = shown = 0
    for facts, chosen, everything in calls(sessions, facts_per_call):
        made += 1
        decided += len(facts)
        shown += len(chosen)
        forms = {
            "ours": ours(facts, chosen),
            "naive": naive(facts, chosen),
            "naive, all memories": naive(facts, everything),
        }
        for name, (messages, reply) in forms.items():
            totals[name]["in"] += round(
                sum(MESSAGE_TOKENS + count(str(m["content"])) for m in messages)
            )
            totals[name]["out"] += round(count(reply))
    assert made, "there is something to decide"
    of_ours = totals["ours"]
    return {
        "calls": made,
        "facts": decided,
        "memories_shown_per_call": round(shown / made, 1),
        "system_tokens": round(count(decide_system())),
        "tokens_per_call": {
            name: {side: round(total[side] / made, 1) for side in ("in", "out")}
            for name, total in totals.items()
        },
        "tokens_per_fact": {
            name: round(sum(total.values()) / decided, 1) for name, total in totals.items()
        },
        "ratio_to_ours": {
            name: {
                **{side: round(total[side] / of_ours[side], 2) for side in ("in", "out")},
                "all": round(sum(total.values()) / sum(of_ours.values()), 2),
            }
            for name, total in totals.items()
        },
    }


def main() -> None:
    """Measure, and print the result."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("locomo", type=Path, help="a LoCoMo file")
    parser.add_argument("--facts-per-call", type=int, default=20)
    parser.add_argument("--model", default="", help="count with this model's tokenizer if known")
    arguments = parser.parse_args()
    tokenizer, count = tokenizer_of(arguments.model)
    sessions = read_sessions(arguments.locomo)
    result = measure(sessions, arguments.facts_per_call, count)
    described = {"tokenizer": tokenizer, "python": platform.python_version()}
    print(json.dumps({**described, "facts_per_call": arguments.facts_per_call, **result}, indent=2))


if __name__ == "__main__":
    main()
