"""Carry out actions on the memories of a cell."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import count
from typing import Any, NamedTuple

from memorypipe.cells.actions import Action, as_dict, raw_actions
from memorypipe.cells.facts import parse_facts
from memorypipe.cells.json_text import encode, invalid
from memorypipe.cells.memories import index_existing
from memorypipe.cells.scope import parse_scope
from memorypipe.ids import memory_id, scope_key
from memorypipe.llm.types import Fact
from memorypipe.schema import RECORD_TYPE_MEMORY
from memorypipe.text import clean, normalise

__all__ = ["Applied", "apply_actions", "apply_cell", "rejected_cell"]


@dataclass(frozen=True, kw_only=True)
class Applied:
    """What actions have made of memories.

    Attributes:
        memories: The memories afterwards: the existing ones in their order, then the new ones in
            the order of the actions.
        rejected: The actions that could not hold, each with ``index``, ``event``, ``target_id``
            and ``reason`` (``"unknown_event"``, ``"unknown_target"``, ``"missing_text"``).
        added_ids: The ids of the new memories.
    """

    memories: list[dict[str, Any]]
    rejected: list[dict[str, Any]]
    added_ids: list[str]


def apply_actions(
    existing: Sequence[Mapping[str, Any]],
    actions: Sequence[Action],
    *,
    facts: Sequence[Fact] | None = None,
    scope_key: str = "",
    record_type: str = RECORD_TYPE_MEMORY,
) -> Applied:
    """Carry out actions in order; one that cannot hold changes nothing.

    What `resolve_actions` decided can be applied again to the result: nothing changes any more.

    Args:
        existing: Memories with unique ids; they are not modified.
        actions: What to do.
        facts: The fact of each action, in the same order; a fact's context becomes the memory's.
        scope_key: Part of new ids, as from `memorypipe.ids.scope_key`; "" where unknown.
        record_type: Part of new ids.

    Example:
        >>> memories = [{"id": "m1", "text": "Lives in Rome"}]
        >>> action = Action(event="UPDATE", target_id="m1", text="Lives in Oslo")
        >>> apply_actions(memories, [action]).memories
        [{'id': 'm1', 'text': 'Lives in Oslo'}]
    """
    memories = {memory["id"]: dict(memory) for memory in existing}
    texts = "\n".join([memory["text"] for memory in existing])
    steps = [as_dict(replace(action, text=clean(action.text)[0])) for action in actions]
    work = _Work(memories, texts, record_type, scope_key)
    rejected, added_ids = _carry_out(work, steps, facts)
    return Applied(memories=list(memories.values()), rejected=rejected, added_ids=added_ids)


def apply_cell(  # noqa: PLR0913  # the four cells of a row, and how to read them
    existing: str | None,
    actions: str | None,
    facts: str | None = None,
    scope: Any = None,
    *,
    row: int = 0,
    on_rejected: str = "skip",
) -> str | None:
    """Carry out the actions of one row.

    Args:
        existing: An ``existing`` cell.
        actions: An ``actions`` cell; null leaves `existing` as it is.
        facts: The ``facts`` cell that the actions were decided on.
        scope: A ``scope`` cell; part of new ids.
        row: Named in errors.
        on_rejected: ``"skip"``: an action that cannot hold changes nothing; ``"raise"``.

    Returns:
        An ``existing`` cell.

    Raises:
        InvalidCellError: A cell cannot be read, or with ``"raise"`` an action cannot hold.

    Example:
        >>> apply_cell('[{"id": "m1", "text": "Likes tea"}]', '{"actions": []}')
        '[{"id":"m1","text":"Likes tea"}]'
    """
    memories, texts = index_existing(existing, row)
    wanted = raw_actions(actions, row)
    if wanted is None:
        return existing
    key = "" if scope is None else scope_key(parse_scope(scope, row))
    work = _Work(memories, texts, RECORD_TYPE_MEMORY, key)
    rejected, _ = _carry_out(work, wanted, parse_facts(facts, row) if facts else None)
    if rejected and on_rejected == "raise":
        first = rejected[0]
        invalid(
            row,
            "actions",
            f"{len(rejected)} of its actions cannot hold, the first at index "
            f"{first['index']} ({first['event'][:20]!r}): {first['reason']}",
        )
    return encode(list(memories.values()))


def rejected_cell(existing: str | None, actions: str | None, *, row: int = 0) -> str:
    """List the actions of one row that cannot hold.

    Args:
        existing: An ``existing`` cell.
        actions: An ``actions`` cell; null holds none.
        row: Named in errors.

    Returns:
        A JSON array of ``{"index", "event", "target_id", "reason"}``.

    Raises:
        InvalidCellError: A cell cannot be read.

    Example:
        >>> rejected_cell("[]", '{"actions": [{"event": "DELETE", "target_id": "m9"}]}')
        '[{"index":0,"event":"DELETE","target_id":"m9","reason":"unknown_target"}]'
    """
    work = _Work(*index_existing(existing, row), RECORD_TYPE_MEMORY, "")
    rejected, _ = _carry_out(work, raw_actions(actions, row) or [], None)
    return encode(rejected)


class _Work(NamedTuple):
    """The memories of one cell, to be changed in place, and what new ids are made of."""

    memories: dict[str, dict[str, Any]]
    texts: str
    record_type: str
    scope_key: str


def _carry_out(
    work: _Work, actions: Iterable[Mapping[str, Any]], facts: Sequence[Fact] | None
) -> tuple[list[dict[str, Any]], list[str]]:
    """Change the memories; gives back the actions that cannot hold, and the new ids.

    All in one loop: with a method per event, calling took longer than the work.
    """
    memories = work.memories
    rejected: list[dict[str, Any]] = []
    added: list[str] = []
    new_texts: list[str] = []
    deleted: set[str] = set()
    for index, action in enumerate(actions):
        event, target_id, text = action.get("event"), action.get("target_id"), action.get("text")
        reason = _why_not(event, target_id, text, memories)
        if reason is not None:
            rejected.append(_rejection(index, event, target_id, reason))
        elif event == "DELETE":
            del memories[target_id]
            deleted.add(target_id)
        elif event == "UPDATE":
            memories[target_id]["text"] = text
            new_texts.append(text)
            _set_context(memories[target_id], facts, index)
        elif event == "ADD" and not _is_present(normalise(text), work, new_texts):
            new_id = _free_id(text, work, deleted)
            memories[new_id] = {"id": new_id, "text": text}
            added.append(new_id)
            new_texts.append(text)
            _set_context(memories[new_id], facts, index)
    return rejected, added


def _why_not(event: Any, target_id: Any, text: Any, memories: Mapping[str, Any]) -> str | None:
    """Why an action cannot hold; cells of others may have anything in it."""
    if event == "NONE":
        return None
    if event != "ADD":
        if event not in ("UPDATE", "DELETE"):  # a tuple: it may be unhashable
            return "unknown_event"
        if not isinstance(target_id, str) or target_id not in memories:
            return "unknown_target"
    if event != "DELETE" and not (isinstance(text, str) and text.strip()):
        return "missing_text"
    return None


def _rejection(index: int, event: Any, target_id: Any, reason: str) -> dict[str, Any]:
    return {
        "index": index,
        "event": event if isinstance(event, str) else "",
        "target_id": target_id if isinstance(target_id, str) else None,
        "reason": reason,
    }


def _set_context(memory: dict[str, Any], facts: Sequence[Fact] | None, index: int) -> None:
    if facts and index < len(facts) and facts[index].context:
        memory["context"] = facts[index].context


def _is_present(wanted: str, work: _Work, new_texts: Sequence[str]) -> bool:
    """Whether a memory says this, in its normalised form.

    Most share not even the last word, which one look at all of them tells. Outside ASCII a word
    may be written in many ways.
    """
    texts = "\n".join((work.texts, *new_texts)) if new_texts else work.texts
    if texts.isascii() and wanted.rpartition(" ")[2] not in texts.lower():
        return False
    return any(normalise(memory["text"]) == wanted for memory in work.memories.values())


def _free_id(text: str, work: _Work, deleted: Collection[str]) -> str:
    """The id with the lowest ordinal that no memory has or had.

    A deleted memory's id stays taken: an ADD that got it would be deleted by the same actions
    applied again.
    """
    for ordinal in count():
        new_id = memory_id(work.record_type, work.scope_key, text, ordinal)
        if new_id not in work.memories and new_id not in deleted:
            break
    return new_id
