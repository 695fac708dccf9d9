"""The cases: one JSON object a line, read and checked as a whole.

::

    {"id": "…", "stage": "extract", "kind": "negation", "language": "en",
     "input": {"turns": [{"id": "t1", "role": "user", "content": "…", "timestamp": "…"}],
               "context": "Date: 2024-05-20"},
     "gold": {"facts": [PATTERN, …], "never": [PATTERN, …], "also": [PATTERN, …]}}

    {"id": "…", "stage": "decide", "kind": "update", "language": "en",
     "input": {"existing": [{"id": "m1", "text": "…", "event_time": "…"}],
               "facts": [{"text": "…", "event_time": "…"}]},
     "gold": {"actions": [{"event": "UPDATE", "target": "m1", "text": PATTERN, "or": [{…}]}]}}

A pattern is ``{"all": [[keyword, …], …], "none": [keyword, …], "when": [date, …]}``; see
`benchmarks.eval.matching`. Of a transcript, `facts` are to be found, `never` must not be stated,
and `also` may be. There is one gold action per fact; under `or` stand others that are as good.
"""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any, Literal

from benchmarks.eval.matching import Pattern
from memorypipe.cells.actions import EVENTS
from memorypipe.llm.types import ExtractTask, Fact, Turn

__all__ = [
    "CASE_FOLDER",
    "KINDS",
    "LANGUAGES",
    "Case",
    "CaseError",
    "DecideCase",
    "ExtractCase",
    "GoldAction",
    "chosen",
    "load_cases",
]

CASE_FOLDER = Path(__file__).with_name("data")
"""Where the package's own cases are."""

Stage = Literal["extract", "decide"]

KINDS: Mapping[str, tuple[str, ...]] = {
    "extract": (
        *("statement", "correction", "third_person", "negation", "hypothetical"),
        *("assistant", "time_order", "duplicate", "injection", "small_talk"),
    ),
    "decide": (
        *("add", "update", "retract", "duplicate", "near_duplicate", "contradiction"),
        *("time_order", "third_person", "negation", "correction", "injection"),
    ),
}
"""The kinds of cases of each stage, in the order of the tables."""

LANGUAGES = ("en", "de")

_CASE_KEYS = {"id", "stage", "kind", "language", "input", "gold"}


class CaseError(ValueError):
    """A case that cannot be used; the message names file, line and what is wrong."""


@dataclass(frozen=True, kw_only=True)
class Case:
    """What all cases have.

    Attributes:
        id: Unique in all files.
        kind: One of `KINDS` of its stage.
        language: One of `LANGUAGES`.
    """

    id: str
    kind: str
    language: str


@dataclass(frozen=True, kw_only=True)
class ExtractCase(Case):
    """A transcript, and what it says.

    Attributes:
        task: What the model is asked.
        facts: To be found, one item each.
        never: Not to be stated by any item.
        also: May be stated.
    """

    task: ExtractTask
    facts: tuple[Pattern, ...]
    never: tuple[Pattern, ...]
    also: tuple[Pattern, ...]


@dataclass(frozen=True, kw_only=True)
class GoldAction:
    """One right decision about a fact.

    Attributes:
        event: ``"ADD"``, ``"UPDATE"``, ``"DELETE"`` or ``"NONE"``.
        target: Id of the memory that it changes; None for ADD and NONE.
        text: What the memory must say afterwards; None where that is not looked at.
    """

    event: str
    target: str | None = None
    text: Pattern | None = None


@dataclass(frozen=True, kw_only=True)
class DecideCase(Case):
    """Facts against memories, and what is to be done.

    Attributes:
        existing: The memories, each with `id`, `text` and perhaps `event_time`.
        facts: The new facts.
        gold: Per fact the decisions that are right.
    """

    existing: tuple[Mapping[str, Any], ...]
    facts: tuple[Fact, ...]
    gold: tuple[tuple[GoldAction, ...], ...]


def load_cases(paths: Iterable[Path] | None = None) -> list[ExtractCase | DecideCase]:
    """Read files of cases.

    Args:
        paths: JSON lines; None for the package's own.

    Raises:
        CaseError: For a line that is no valid case, and for an id that stands twice.
    """
    cases: dict[str, ExtractCase | DecideCase] = {}
    for path in sorted(CASE_FOLDER.glob("*.jsonl")) if paths is None else paths:
        for number, line in enumerate(path.read_text("utf-8").splitlines(), start=1):
            try:
                case = _case(json.loads(line))
            except (ValueError, KeyError, TypeError) as error:
                what = f"{error.args[0]!r} is missing" if isinstance(error, KeyError) else error
                raise CaseError(f"{path.name}, line {number}: {what}") from error
            if case.id in cases:
                raise CaseError(f"{path.name}, line {number}: the id {case.id!r} stands twice")
            cases[case.id] = case
    return list(cases.values())


def chosen(
    cases: Sequence[ExtractCase | DecideCase],
    *,
    kinds: Sequence[str] = (),
    languages: Sequence[str] = (),
    limit: int | None = None,
) -> Iterator[ExtractCase | DecideCase]:
    """Give the cases of some kinds and languages, in order.

    Args:
        cases: To choose from.
        kinds: Names of kinds; empty for all.
        languages: Likewise.
        limit: So many of each stage, kind and language at most; None for all.
    """
    counts: dict[tuple[type, str, str], int] = {}
    for case in cases:
        if (kinds and case.kind not in kinds) or (languages and case.language not in languages):
            continue
        group = (type(case), case.kind, case.language)
        counts[group] = counts.get(group, 0) + 1
        if limit is None or counts[group] <= limit:
            yield case


def _case(value: Any) -> ExtractCase | DecideCase:
    if not isinstance(value, Mapping) or set(value) != _CASE_KEYS:
        raise ValueError(f"a case is an object with the keys {sorted(_CASE_KEYS)!r}")
    stage = value["stage"]
    if stage not in KINDS:
        raise ValueError(f"stage must be one of {sorted(KINDS)!r}, got {stage!r}")
    head = {
        "id": _text("id", value["id"]),
        "kind": _one_of("kind", value["kind"], KINDS[stage]),
        "language": _one_of("language", value["language"], LANGUAGES),
    }
    make = _extract_case if stage == "extract" else _decide_case
    return make(head, value["input"], value["gold"])


def _extract_case(head: Mapping[str, Any], given: Any, gold: Any) -> ExtractCase:
    turns = [_turn(turn) for turn in given["turns"]]
    if not turns:
        raise ValueError("a transcript needs a turn")
    _only("gold", gold, {"facts", "never", "also"})
    return ExtractCase(
        **head,
        task=ExtractTask(turns=turns, context=given.get("context")),
        facts=_patterns(gold["facts"]),
        never=_patterns(gold.get("never", ())),
        also=_patterns(gold.get("also", ())),
    )


def _patterns(values: Iterable[Any]) -> tuple[Pattern, ...]:
    return tuple(Pattern.read(value) for value in values)


def _turn(value: Mapping[str, Any]) -> Turn:
    said = value.get("timestamp")
    return Turn(
        id=_text("id", value["id"]),
        role=_one_of("role", value["role"], ("user", "assistant", "system")),
        content=_text("content", value["content"]),
        timestamp=datetime.fromisoformat(said) if said else None,
    )


def _decide_case(head: Mapping[str, Any], given: Any, gold: Any) -> DecideCase:
    existing = [_record(memory, {"id", "text", "event_time"}) for memory in given["existing"]]
    ids = [_text("id", memory["id"]) for memory in existing]
    if len(set(ids)) < len(ids):
        raise ValueError(f"the ids of the memories must differ, got {ids!r}")
    facts = tuple(Fact(**_record(fact, {"text", "event_time"})) for fact in given["facts"])
    _only("gold", gold, {"actions"})
    actions = tuple(_gold(action, ids) for action in gold["actions"])
    if not facts or len(actions) != len(facts):
        raise ValueError(f"one gold action per fact is needed, got {len(actions)} of {len(facts)}")
    return DecideCase(**head, existing=tuple(existing), facts=facts, gold=actions)


def _record(value: Mapping[str, Any], keys: set[str]) -> dict[str, Any]:
    _only("record", value, keys)
    _text("text", value["text"])
    if "event_time" in value:
        datetime.fromisoformat(value["event_time"])
    return dict(value)


def _gold(value: Mapping[str, Any], ids: Sequence[str]) -> tuple[GoldAction, ...]:
    others = value.get("or", [])
    first = {key: part for key, part in value.items() if key != "or"}
    return tuple(_gold_action(action, ids) for action in (first, *others))


def _gold_action(value: Mapping[str, Any], ids: Sequence[str]) -> GoldAction:
    _only("gold action", value, {"event", "target", "text"})
    event = _one_of("event", value["event"], EVENTS)
    target = value.get("target")
    if (event in {"UPDATE", "DELETE"}) != (target is not None):
        raise ValueError(f"UPDATE and DELETE have a target, others none; got {event} of {target!r}")
    if target is not None:
        _one_of("target", target, ids)
    if event == "UPDATE" and "text" not in value:
        raise ValueError("an UPDATE needs the pattern of its text")
    text = Pattern.read(value["text"]) if "text" in value else None
    return GoldAction(event=event, target=target, text=text)


def _only(name: str, value: Mapping[str, Any], keys: set[str]) -> None:
    if unknown := sorted(set(value) - keys):
        raise ValueError(f"{name} has the unknown key {unknown[0]!r}; known: {sorted(keys)!r}")


def _text(name: str, value: Any) -> str:
    if not isinstance(value, str) or not value.strip():
        raise ValueError(f"{name} must be a string that is not blank, got {value!r}")
    return value


def _one_of(name: str, value: Any, choices: Sequence[str]) -> str:
    if value not in choices:
        raise ValueError(f"{name} must be one of {tuple(choices)!r}, got {value!r}")
    return str(value)
