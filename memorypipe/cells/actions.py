"""The ``actions`` cell: exactly one action per fact, whatever the model said."""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import orjson

from memorypipe.cells.json_text import decode, encode, invalid
from memorypipe.llm.replies.reply import ReadActions
from memorypipe.llm.types import Fact
from memorypipe.text import normalise

__all__ = [
    "EVENTS",
    "Action",
    "FallbackAction",
    "Resolved",
    "as_dict",
    "encode_actions",
    "fallback_actions",
    "parse_actions",
    "raw_actions",
    "resolve_actions",
]

EVENTS = ("ADD", "UPDATE", "DELETE", "NONE")

FallbackAction = Literal["ADD", "NONE"]

_SHOWN_CHARS = 60

_WORD = re.compile(r"\w+")


@dataclass(frozen=True, kw_only=True)
class Action:
    """What happens to the memories because of one fact.

    Attributes:
        event: ``"ADD"``, ``"UPDATE"``, ``"DELETE"`` or ``"NONE"``; in a cell that others wrote
            it may be anything.
        text: ADD: the new memory; UPDATE: the memory's new text; DELETE and NONE: the fact's
            text. "" where a cell that others wrote has none.
        target_id: The memory to change; None for ADD and NONE.
        old_memory: The target's text before, verbatim; None for ADD and NONE.
        rationale: Why; None where a cell that others wrote does not say.
    """

    event: str
    text: str
    target_id: str | None = None
    old_memory: str | None = None
    rationale: str | None = None


def parse_actions(cell: str | None, row: int) -> tuple[Action, ...] | None:
    """Read a cell as actions; whether they hold is for `apply_actions` to say.

    Args:
        cell: ``{"actions": [{"event", "target_id", "text", "old_memory", "rationale"}, …]}``.
        row: Named in the error.

    Returns:
        The actions in order; None for a null cell.

    Raises:
        InvalidCellError: The cell is no JSON object with a list of objects under ``actions``.

    Example:
        >>> parse_actions('{"actions": [{"event": "ADD", "text": "Likes tea"}]}', 0)[0].event
        'ADD'
    """
    raw = raw_actions(cell, row)
    return None if raw is None else tuple(_action(item) for item in raw)


def raw_actions(cell: str | None, row: int) -> list[dict[str, Any]] | None:
    """Read a cell as the dicts that stand in it, as `parse_actions` does."""
    if cell is None:
        return None
    try:
        value = orjson.loads(cell) if "\\" not in cell else decode(cell)
        actions: list[Any] | Any = value["actions"]
    except (ValueError, TypeError, KeyError):
        return _examined(cell, row)
    if isinstance(actions, list):
        for item in actions:
            if not isinstance(item, dict):
                break
        else:
            return actions
    return _examined(cell, row)


def _examined(cell: str, row: int) -> list[dict[str, Any]]:
    """Read a cell step by step: it may be odd, or the error has to name what is wrong."""
    if not isinstance(cell, str):
        invalid(row, "actions", f"expected a string, got {type(cell).__name__}")
    try:
        value = decode(cell)
    except ValueError as error:
        invalid(row, "actions", f"it is no JSON ({error})")
    actions = value.get("actions") if isinstance(value, dict) else None
    if not isinstance(actions, list):
        invalid(row, "actions", "expected a JSON object with a list under 'actions'")
    for index, item in enumerate(actions):
        if not isinstance(item, dict):
            invalid(row, "actions", f"item {index} must be an object, got {type(item).__name__}")
    return actions


def _action(item: dict[str, Any]) -> Action:
    return Action(
        event=_string(item.get("event")) or "",
        text=_string(item.get("text")) or "",
        target_id=_string(item.get("target_id")),
        old_memory=_string(item.get("old_memory")),
        rationale=_string(item.get("rationale")),
    )


def _string(value: Any) -> str | None:
    return value if isinstance(value, str) else None


def encode_actions(actions: Iterable[Action], *, ensure_ascii: bool = False) -> str:
    """Write actions as a cell, each with exactly five keys.

    Example:
        >>> encode_actions([])
        '{"actions":[]}'
    """
    return encode({"actions": [as_dict(action) for action in actions]}, ensure_ascii=ensure_ascii)


def as_dict(action: Action) -> dict[str, str | None]:
    """The action as it stands in a cell."""
    return {
        "event": action.event,
        "target_id": action.target_id,
        "text": action.text,
        "old_memory": action.old_memory,
        "rationale": action.rationale,
    }


@dataclass(frozen=True, kw_only=True)
class Resolved:
    """The decisions about the facts of one request.

    Attributes:
        actions: One per fact, in their order.
        problems: Why a fact got the fallback action, by the fact's index.
        conflicts: Indices of facts that went for a memory which an earlier fact of the same
            request changes; here they are ADDs of their own text.
        doubtful: Indices of facts that are NONE for the text that was said of them, though no
            memory of the request holds the fact itself: the text is that of a memory about
            something else, or of an action that may not come about.
        covered: Ids of the memories that do hold it, by the indices of the other facts that are
            NONE for the text that was said of them.
    """

    actions: tuple[Action, ...]
    problems: Mapping[int, str]
    conflicts: tuple[int, ...]
    doubtful: tuple[int, ...] = ()
    covered: Mapping[int, str] = field(default_factory=dict)


class _Problem(Exception):  # noqa: N818  # a verdict on one fact, caught right here
    """Why what was said about a fact cannot hold."""


def fallback_actions(
    facts: Sequence[Fact], *, fallback_action: FallbackAction, reason: str
) -> tuple[Action, ...]:
    """Give every fact the fallback action.

    Args:
        facts: The facts of one request.
        fallback_action: ``"ADD"`` or ``"NONE"``.
        reason: Becomes the rationale; after a failed call, the class of the error.

    Example:
        >>> facts = [Fact(text="Likes tea")]
        >>> fallback_actions(facts, fallback_action="NONE", reason="fallback: timeout")[0].event
        'NONE'
    """
    return tuple(_fallback(fact, fallback_action, reason) for fact in facts)


def _fallback(fact: Fact, event: FallbackAction, reason: str) -> Action:
    return Action(event=event, text=fact.text, rationale=reason)


def resolve_actions(
    facts: Sequence[Fact],
    existing: Sequence[Mapping[str, Any]],
    read: ReadActions,
    *,
    fallback_action: FallbackAction,
) -> Resolved:
    """Decide what happens to each fact.

    A target is an alias that was shown (the memory's position, ``"0"`` for the first) or the
    exact id of a memory; where a string is both, it is the alias, for that is what the model saw.
    What cannot hold makes its own fact fall back and no other.

    Args:
        facts: As shown to the model, numbered from 0.
        existing: As shown to the model; each with ``id`` and ``text``.
        read: Its reply.
        fallback_action: ``"ADD"`` or ``"NONE"``, for facts without a decision that holds.
    """
    said = _by_fact(read, len(facts))
    judge = _Judge(existing, read)
    actions: list[Action] = []
    problems: dict[int, str] = {}
    for index, fact in enumerate(facts):
        try:
            action = judge.decide(index, fact, said.get(index))
        except _Problem as problem:
            problems[index] = str(problem)
            action = _fallback(fact, fallback_action, f"fallback: {problem}")
            judge.note(action)
        actions.append(action)
    return Resolved(
        actions=tuple(actions),
        problems=problems,
        conflicts=tuple(judge.conflicts),
        doubtful=tuple(judge.doubtful),
        covered=judge.covered,
    )


def _by_fact(read: ReadActions, count: int) -> dict[int, dict[str, Any]]:
    """The first action of each fact; by order only where it can be meant in no other way."""
    numbered = [item for item in read.items if item["fact"] is not None]
    if numbered:
        return {item["fact"]: item for item in reversed(numbered)}
    whole = read.complete and not read.dropped_items
    return dict(enumerate(read.items)) if whole and len(read.items) == count else {}


class _Judge:
    """Takes facts in order and remembers what the decisions so far have done."""

    def __init__(self, existing: Sequence[Mapping[str, Any]], read: ReadActions) -> None:
        by_id = {memory["id"]: memory for memory in existing}
        # The alias comes last and wins over an id that looks like one.
        self._targets: dict[str, Mapping[str, Any]] = by_id | {
            str(i): memory for i, memory in enumerate(existing)
        }
        self._read = read
        self._changed: set[str] = set()
        self._existing = {normalise(memory["text"]): memory["id"] for memory in existing}
        self._said: set[str] = set()  # by the actions so far
        self.conflicts: list[int] = []
        self.doubtful: list[int] = []
        self.covered: dict[int, str] = {}

    def decide(self, index: int, fact: Fact, said: Mapping[str, Any] | None) -> Action:
        if not fact.text.strip():
            return Action(event="NONE", text=fact.text, rationale="The fact is blank.")
        if said is None:
            raise _Problem(self._why_missing())
        rationale = said["rationale"] or "The model gave no reason."
        match said["event"]:
            case "NONE":
                return Action(event="NONE", text=fact.text, rationale=rationale)
            case "ADD":
                return self._add(index, said["text"], fact, rationale)
            case "UPDATE" | "DELETE":
                return self._change(index, fact, said, rationale)
            case "":
                raise _Problem(f"the action has no event; one of {', '.join(EVENTS)} was asked for")
            case event:
                raise _Problem(f"unknown event {_shown(event)}; expected {', '.join(EVENTS)}")

    def note(self, action: Action) -> None:
        """Remember what the memories say from now on."""
        if action.event in {"ADD", "UPDATE"}:
            self._said.add(normalise(action.text))

    def _why_missing(self) -> str:
        if self._read.error:
            return self._read.error
        return "the reply has no action for this fact"

    def _add(self, index: int, text: str | None, fact: Fact, rationale: str) -> Action:
        text = text if text and text.strip() else fact.text
        holder = self._existing.get(wanted := normalise(text))
        if holder is not None or wanted in self._said:
            self._cover(index, text, fact, holder)
            reason = "Already covered: a memory says the same."
            return Action(event="NONE", text=fact.text, rationale=reason)
        action = Action(event="ADD", text=text, rationale=rationale)
        self.note(action)
        return action

    def _cover(self, index: int, text: str, fact: Fact, holder: str | None) -> None:
        """Note which memory holds a fact that is NONE for a text; None: nobody knows yet."""
        if holder is not None and _covers(text, fact.text):
            self.covered[index] = holder
        else:
            self.doubtful.append(index)

    def _change(self, index: int, fact: Fact, said: Mapping[str, Any], rationale: str) -> Action:
        event, text = said["event"], said["text"]
        target = self._target(event, said["target_id"])
        if event == "DELETE" and not self._read.complete:
            raise _Problem("a DELETE is not taken from a reply that was not read to its end")
        if event == "UPDATE" and not (text and text.strip()):
            raise _Problem("the UPDATE has no text")
        if event == "UPDATE" and text == target["text"]:
            self._cover(index, text, fact, target["id"])
            reason = "Already covered: the memory says exactly this."
            return Action(event="NONE", text=fact.text, rationale=reason)
        if target["id"] in self._changed:
            self.conflicts.append(index)
            reason = "Added on its own: an earlier fact of this row changes its target."
            return self._add(index, fact.text, fact, reason)
        self._changed.add(target["id"])
        action = Action(
            event=event,
            text=text if event == "UPDATE" else fact.text,
            target_id=target["id"],
            old_memory=target["text"],
            rationale=rationale,
        )
        self.note(action)
        return action

    def _target(self, event: str, target_id: str | None) -> Mapping[str, Any]:
        if not self._targets:
            raise _Problem(f"{event} without any existing memory")
        if target_id is None:
            raise _Problem(f"{event} without a target")
        if target_id not in self._targets:
            raise _Problem(f"{event} of the unknown target {_shown(target_id)}")
        return self._targets[target_id]


def _covers(a: str, b: str) -> bool:
    """Whether all words of one text are in the other: numbers, names and negations among them."""
    words_a, words_b = (set(_WORD.findall(normalise(text))) for text in (a, b))
    return words_a <= words_b or words_b <= words_a


def _shown(value: str) -> str:
    return repr(value if len(value) <= _SHOWN_CHARS else f"{value[:_SHOWN_CHARS]}…")
