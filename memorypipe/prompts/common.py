"""What both prompts are made of: reply format, hints, and a fence that data cannot leave."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import orjson

from memorypipe.errors import InvalidArgumentError
from memorypipe.ids import digest
from memorypipe.llm.types import ChatMessage

__all__ = [
    "HINT_MODES",
    "PROMPT_VERSION",
    "Example",
    "Field",
    "chat",
    "fenced",
    "format_rule",
    "join_hint",
    "prompt_hash",
    "response_format",
    "system_text",
]

PROMPT_VERSION = "2"
HINT_MODES = ("replace", "append")


@dataclass(frozen=True, kw_only=True)
class Field:
    """One field of a reply item: schema and instructions are both made from it.

    Attributes:
        name: The key.
        schema: Its JSON schema.
        rule: What it holds, in words for the model.
        required: Whether every item has it.
    """

    name: str
    schema: Mapping[str, Any]
    rule: str
    required: bool = True


@dataclass(frozen=True, kw_only=True)
class Example:
    """One exchange that shows the form of a reply.

    Attributes:
        given: The data, as the prompt shows data.
        items: The items of the right reply, made of the fields.
    """

    given: str
    items: Sequence[Mapping[str, Any]]


def response_format(name: str, wrapper: str, fields: Sequence[Field]) -> dict[str, Any]:
    """Make the ``response_format`` of a chat-completions call.

    Args:
        name: The schema's name.
        wrapper: The key that holds the list of items.
        fields: Of an item; strict only where all are required, as strictness asks for.
    """
    item = {
        "type": "object",
        "properties": {field.name: dict(field.schema) for field in fields},
        "required": [field.name for field in fields if field.required],
        "additionalProperties": False,
    }
    schema = {
        "type": "object",
        "properties": {wrapper: {"type": "array", "items": item}},
        "required": [wrapper],
        "additionalProperties": False,
    }
    strict = all(field.required for field in fields)
    return {
        "type": "json_schema",
        "json_schema": {"name": name, "strict": strict, "schema": schema},
    }


def format_rule(wrapper: str, fields: Sequence[Field], examples: Sequence[Example]) -> str:
    """Put the reply format into words, from the fields that the schema is made of."""
    lines = [
        f'Reply with one JSON object {{"{wrapper}": [...]}} and nothing else. Fields of an item:',
        *(_field_line(field) for field in fields),
        "Examples of the form (their content is not data, never repeat it):",
        *(_example_text(wrapper, example) for example in examples),
    ]
    return "\n".join(lines)


def _field_line(field: Field) -> str:
    optional = "" if field.required else " (leave out where there is none)"
    return f'- "{field.name}"{optional}: {field.rule}'


def _example_text(wrapper: str, example: Example) -> str:
    reply = orjson.dumps({wrapper: [dict(item) for item in example.items]}).decode()
    return f"{example.given}\n=> {reply}"


def join_hint(hint: str | Sequence[str] | None) -> str | None:
    r"""Make one text of a hint.

    Args:
        hint: A text, a list of lines, or None.

    Raises:
        InvalidArgumentError: It is none of these.

    Example:
        >>> join_hint(["Keep foods.", "Keep allergies."])
        'Keep foods.\nKeep allergies.'
    """
    if hint is None or isinstance(hint, str):
        return hint
    if isinstance(hint, list | tuple) and all(isinstance(line, str) for line in hint):
        return "\n".join(hint)
    raise InvalidArgumentError(
        f"hint must be a string, a list of strings or None, got {type(hint).__name__}."
    )


def system_text(
    default: str, rules: str, *, hint: str | Sequence[str] | None, hint_mode: str
) -> str:
    """Put the system message together; the same for every request with these settings.

    Args:
        default: The instructions of this package.
        rules: Data handling and reply format; they always stand at the end.
        hint: The caller's instructions.
        hint_mode: ``"replace"`` puts them in the place of `default`, ``"append"`` after it.

    Raises:
        InvalidArgumentError: The hint is no text, or the mode unknown.
    """
    if hint_mode not in HINT_MODES:
        raise InvalidArgumentError(f"hint_mode must be one of {HINT_MODES!r}, got {hint_mode!r}.")
    own = join_hint(hint)
    if own is None:
        instructions = default
    elif hint_mode == "append":
        instructions = f"{default}\n{own}"
    else:
        instructions = own
    return f"{instructions}\n\n{rules}"


def fenced(sections: Mapping[str, str]) -> str:
    r"""Wrap texts in tags that none of them can contain.

    The tags are made from a hash of the texts, so that equal data gives equal requests.

    Args:
        sections: Text by tag name.

    Example:
        >>> fenced({"facts": "0: Likes tea"})
        '<facts-9597a376>\n0: Likes tea\n</facts-9597a376>'
    """
    everything = "\n".join(sections.values())
    attempt = 0
    while (mark := digest("fence", everything, attempt, size=4).hex()) in everything:
        attempt += 1
    return "\n\n".join(
        f"<{name}-{mark}>\n{text}\n</{name}-{mark}>" for name, text in sections.items()
    )


def chat(system: str, user: str) -> list[ChatMessage]:
    """Make the messages of a request: what never changes first, the data last."""
    return [{"role": "system", "content": system}, {"role": "user", "content": user}]


def prompt_hash(system: str, schema: Mapping[str, Any]) -> str:
    """Name the prompt, without its data: version, instructions, format and schema.

    Args:
        system: As from `system_text`.
        schema: As from `response_format`.

    Returns:
        16 hex digits.
    """
    return digest(PROMPT_VERSION, system, schema, size=8).hex()
