"""The shapes in which models give lists of items, and how each becomes a plain list.

A list of items; an object that names the list (the *wrapper*); an object where the list belongs;
one bare item. Which objects are items is up to the caller.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, TypeVar

from memorypipe.llm.replies.lenient_json import CutArray, CutObject
from memorypipe.llm.replies.scan import EMPTY, EMPTY_WRAPPER, ITEMS, NO_ANSWER, WRAPPER

__all__ = ["IsItem", "first", "folded", "grade_list", "items_of", "string_of", "text_of"]

ReadT = TypeVar("ReadT")

IsItem = Callable[[Any], bool]


def folded(item: Mapping[str, Any], usual: frozenset[str]) -> Mapping[str, Any]:
    """The item with its keys trimmed and in lower case, as the usual ones are already."""
    if item.keys() <= usual:
        return item
    return {key.strip().lower(): value for key, value in item.items()}


def first(
    item: Mapping[str, Any], names: Sequence[str], read: Callable[[Any], ReadT | None]
) -> ReadT | None:
    """What can be read under the first of these keys under which anything can, else None."""
    for name in names:
        if name in item and (value := read(item[name])) is not None:
            return value
    return None


def string_of(value: Any) -> str | None:
    """The value where it is a string."""
    return value if isinstance(value, str) else None


def text_of(value: Any) -> str | None:
    """The value where it is a string that is not blank."""
    return value if isinstance(value, str) and value.strip() else None


def grade_list(value: Any, wrappers: Collection[str], is_item: IsItem) -> int:
    """Judge how well a value fits: see `reply_scan`."""
    if isinstance(value, dict):
        if lists := _lists(value, wrappers, is_item):
            return WRAPPER if any(lists) else EMPTY_WRAPPER
        return ITEMS if _is_whole_item(value, is_item) else NO_ANSWER
    if not isinstance(value, list):
        return NO_ANSWER
    if any(_is_whole_item(item, is_item) for item in value):
        return ITEMS
    if parts := _wrappers(value, wrappers, is_item):
        return max(grade_list(part, wrappers, is_item) for part in parts)
    return NO_ANSWER if value or isinstance(value, CutArray) else EMPTY


def items_of(value: Any, wrappers: Collection[str], is_item: IsItem) -> list[Any]:
    """The items of a value of the right shape, without those that were cut."""
    if isinstance(value, dict):
        lists = _lists(value, wrappers, is_item)
        items = [item for part in lists for item in part] if lists else [value]
    elif parts := _wrappers(value, wrappers, is_item):
        return [item for part in parts for item in items_of(part, wrappers, is_item)]
    else:
        items = value
    return [item for item in items if not isinstance(item, CutArray | CutObject)]


def _wrappers(value: list[Any], wrappers: Collection[str], is_item: IsItem) -> list[dict[str, Any]]:
    """The members of a list that name a list each; empty where it holds anything else."""
    named = [part for part in value if isinstance(part, dict) and _lists(part, wrappers, is_item)]
    return named if len(named) == len(value) else []


def _is_whole_item(value: Any, is_item: IsItem) -> bool:
    return not isinstance(value, CutArray | CutObject) and is_item(value)


def _lists(value: dict[str, Any], wrappers: Collection[str], is_item: IsItem) -> list[list[Any]]:
    """What stands where the list belongs, each as a list; empty where this is no wrapper."""
    parts = [
        _as_list(content, is_item)
        for key, content in value.items()
        if key.strip().lower() in wrappers
    ]
    lists = [part for part in parts if part is not None]
    if any(lists) or not (lists or len(value) == 1):
        return lists
    # One unknown key around a list of objects is a wrapper too, and so is one beside an empty
    # list. Around strings it may be anything.
    others = [
        content
        for key, content in value.items()
        if isinstance(content, list) and key.strip().lower() not in wrappers
    ]
    return [content for content in others if _holds_objects(content, is_item)] or lists


def _holds_objects(content: list[Any], is_item: IsItem) -> bool:
    objects = any(isinstance(item, dict) for item in content)
    return objects and grade_list(content, (), is_item) == ITEMS


def _as_list(content: Any, is_item: IsItem) -> list[Any] | None:
    if isinstance(content, list):
        return content
    if not isinstance(content, dict):
        return None
    members = list(content.values())  # {"1": {…}, "2": {…}}
    if members and all(isinstance(member, dict) and is_item(member) for member in members):
        return members
    return [content] if isinstance(content, CutObject) or is_item(content) else None
