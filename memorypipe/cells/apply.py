"""Carry out actions on the memories of a cell."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import orjson

from memorypipe.cells.actions import Action, as_dict, raw_actions
from memorypipe.cells.facts import parse_facts
from memorypipe.cells.json_text import encode, invalid
from memorypipe.cells.memories import Indexed, index_existing
from memorypipe.cells.scope import parse_scope
from memorypipe.ids import memory_id_of_normalised, scope_key
from memorypipe.llm.types import Fact
from memorypipe.schema import RECORD_TYPE_MEMORY
from memorypipe.text import clean, normalise

__all__ = ["Applied", "apply_actions", "apply_cell", "rejected_cell"]

# What new ids are made of, beside the text: record type and scope key.
_Origin = tuple[str, str]
_UNSCOPED: _Origin = (RECORD_TYPE_MEMORY, "")


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
    before = set(memories)
    rejected = _carry_out((memories, texts), steps, facts, (record_type, scope_key))
    added_ids = [memory_id for memory_id in memories if memory_id not in before]
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
    indexed = index_existing(existing, row)
    wanted = raw_actions(actions, row)
    if wanted is None:
        return existing
    origin = _UNSCOPED
    if scope is not None:
        origin = (RECORD_TYPE_MEMORY, scope_key(parse_scope(scope, row)))
    rejected = _carry_out(indexed, wanted, parse_facts(facts, row) if facts else None, origin)
    if rejected and on_rejected == "raise":
        first = rejected[0]
        invalid(
            row,
            "actions",
            f"{len(rejected)} of its actions cannot hold, the first at index "
            f"{first['index']} ({first['event'][:20]!r}): {first['reason']}",
        )
    return orjson.dumps(list(indexed[0].values())).decode()


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
    indexed = index_existing(existing, row)
    rejected = _carry_out(indexed, raw_actions(actions, row) or [], None, _UNSCOPED)
    return encode(rejected)


def _carry_out(
    existing: Indexed,
    actions: Iterable[Mapping[str, Any]],
    facts: Sequence[Fact] | None,
    origin: _Origin,
) -> list[dict[str, Any]]:
    """Change the memories; gives back the actions that cannot hold.

    All in one loop: with a call per action it takes twice as long.
    """
    memories = existing[0]
    rejected: list[dict[str, Any]] = []
    new_texts: list[str] = []
    deleted: list[str] = []
    for index, action in enumerate(actions):
        try:
            event, target_id, text = action["event"], action["target_id"], action["text"]
        except KeyError:
            event, target_id, text = map(action.get, ("event", "target_id", "text"))
        if event == "NONE":
            continue
        known = isinstance(target_id, str) and target_id in memories
        if event == "DELETE" and known:
            del memories[target_id]
            deleted.append(target_id)
            continue
        says = isinstance(text, str) and text and not text.isspace()
        if not says or (event != "ADD" and (event != "UPDATE" or not known)):
            rejected.append(_rejection(index, event, target_id, known=known))
            continue
        if event == "ADD":
            target_id = _new_id(text, existing, new_texts, deleted, origin)
            if target_id is None:
                continue
            memory = memories[target_id] = {"id": target_id, "text": text}
        else:
            memory = memories[target_id]
            memory["text"] = text
        new_texts.append(text)
        if facts and index < len(facts) and facts[index].context:
            memory["context"] = facts[index].context
    return rejected


def _rejection(index: int, event: Any, target_id: Any, *, known: bool) -> dict[str, Any]:
    """Say why an action cannot hold; cells of others may have anything in it."""
    reason = "missing_text"
    if event not in ("ADD", "UPDATE", "DELETE"):  # a tuple: it may be unhashable
        reason = "unknown_event"
    elif event != "ADD" and not known:
        reason = "unknown_target"
    return {
        "index": index,
        "event": event if isinstance(event, str) else "",
        "target_id": target_id if isinstance(target_id, str) else None,
        "reason": reason,
    }


def _new_id(
    text: str,
    existing: Indexed,
    new_texts: Sequence[str],
    deleted: Collection[str],
    origin: _Origin,
) -> str | None:
    """The id of a new memory: the lowest ordinal that none has; None where one says the same.

    A deleted memory's id stays taken: an ADD that got it would be deleted by the same actions
    applied again.
    """
    memories, words = existing
    record_type, scope_key = origin
    wanted = normalise(text)
    if new_texts:
        words = "\n".join((words, *new_texts))
    # Most memories share not even the last word, which one look at all of them tells. Outside
    # ASCII a word may be written in many ways.
    if not words.isascii() or wanted.rpartition(" ")[2] in words.lower():
        for memory in memories.values():
            if normalise(memory["text"]) == wanted:
                return None
    ordinal = 0
    new_id = memory_id_of_normalised(record_type, scope_key, wanted)
    while new_id in memories or new_id in deleted:
        ordinal += 1
        new_id = memory_id_of_normalised(record_type, scope_key, wanted, ordinal)
    return new_id
