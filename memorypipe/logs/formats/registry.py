"""All formats: recognised by what a record holds, read into drafts. Pure."""

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Literal, TypeAlias, cast, get_args

from memorypipe.logs.conversations import Draft
from memorypipe.logs.formats.chatgpt import chatgpt_drafts, is_chatgpt
from memorypipe.logs.formats.claude import claude_drafts, is_claude
from memorypipe.logs.formats.locomo import is_locomo, locomo_drafts
from memorypipe.logs.formats.memorybank import is_memorybank, memorybank_drafts, people
from memorypipe.logs.formats.openai import is_openai, is_openai_messages, openai_drafts
from memorypipe.logs.formats.sharegpt import is_sharegpt, is_sharegpt_turns, sharegpt_drafts

__all__ = ["FORMATS", "FormatName", "classify", "drafts", "explode"]

FormatName: TypeAlias = Literal["openai", "sharegpt", "chatgpt", "claude", "locomo", "memorybank"]

FORMATS = cast("tuple[FormatName, ...]", get_args(FormatName))

_TESTS: Mapping[FormatName, Callable[[Any], bool]] = {
    "openai": is_openai,
    "sharegpt": is_sharegpt,
    "chatgpt": is_chatgpt,
    "claude": is_claude,
    "locomo": is_locomo,
    "memorybank": is_memorybank,
}

_READERS: Mapping[FormatName, Callable[[Any], Iterator[Draft]]] = {
    "openai": openai_drafts,
    "sharegpt": sharegpt_drafts,
    "chatgpt": chatgpt_drafts,
    "claude": claude_drafts,
    "locomo": locomo_drafts,
    "memorybank": memorybank_drafts,
}


def classify(value: Any) -> FormatName | None:
    """Recognise the format of one record; None where it has no known shape.

    Example:
        >>> classify({"messages": [{"role": "user", "content": "Hi"}]})
        'openai'
        >>> classify({"conversations": [{"from": "human", "value": "Hi"}]})
        'sharegpt'
        >>> classify({"text": "Hi"}) is None
        True
    """
    return next((name for name in FORMATS if _TESTS[name](value)), None)


def explode(value: Any) -> list[Any]:
    """Take the records out of one JSON value.

    Args:
        value: A line, or a whole document.

    Returns:
        The items of a list (unless it is the messages of one conversation); the people of a
        MemoryBank document, each with its key as `name`; else the value itself.
    """
    if isinstance(value, list):
        is_one = is_openai_messages(value) or is_sharegpt_turns(value)
        return [value] if is_one else value
    found = people(value) if classify(value) is None else None
    return [value] if found is None else found


def drafts(value: Any, *, format_name: FormatName) -> Iterator[Draft]:
    """Read the conversations of one record; each format's module says how.

    Raises:
        LogFormatError: The record does not have the format's shape.
    """
    return _READERS[format_name](value)
