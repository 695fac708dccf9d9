"""The export of Claude (`conversations.json`): a list `chat_messages` per conversation. Pure."""

from collections.abc import Iterator, Mapping
from typing import Any

from memorypipe.errors import LogFormatError
from memorypipe.logs.conversations import Draft
from memorypipe.logs.formats.shapes import first_value
from memorypipe.logs.records import describe

__all__ = ["claude_drafts", "is_claude"]


def is_claude(value: Any) -> bool:
    """Recognise one conversation of the export."""
    return isinstance(value, Mapping) and isinstance(value.get("chat_messages"), list)


def claude_drafts(value: Any) -> Iterator[Draft]:
    """Read one conversation of the export, named after its `uuid`.

    A message's text is that of its text blocks (older exports: its `text`), thoughts and calls of
    tools are left out, what tools answered are tool turns before it, and files are told by their
    names. The export names an account, no user: scope column ``account.uuid``, or a constant.

    Raises:
        LogFormatError: The record has another shape.
    """
    if not is_claude(value):
        raise LogFormatError(f"Expected an object with 'chat_messages', found {describe(value)}.")
    yield Draft(
        messages=[turn for message in value["chat_messages"] for turn in _turns(message)],
        fields=value,
        conversation_id=first_value(value, ("uuid", "conversation_id")),
        times=[value.get("created_at"), value.get("updated_at")],
    )


def _turns(message: Any) -> list[Any]:
    """Give the turns of a message; what is no object is refused when it is read."""
    if not isinstance(message, Mapping):
        return [message]
    blocks = [block for block in _list(message, "content") if isinstance(block, Mapping)]
    said = "\n".join(
        text
        for block in blocks
        if block.get("type") == "text" and isinstance(text := block.get("text"), str)
    )
    if not said.strip():
        said = message.get("text") or ""
    identity, timestamp = message.get("uuid"), message.get("created_at")
    results = [block for block in blocks if block.get("type") == "tool_result"]
    return [
        *(
            {
                "role": "tool",
                "name": block.get("name"),
                "content": _result(block),
                "timestamp": timestamp,
                "id": None if identity is None else f"{identity}/tool{number}",
            }
            for number, block in enumerate(results, start=1)
        ),
        {
            "role": message.get("sender"),
            "content": _with_files(said, message),
            "timestamp": timestamp,
            "id": identity,
        },
    ]


def _result(block: Mapping[str, Any]) -> str:
    content = block.get("content")
    if isinstance(content, str):
        return content
    parts = [part.get("text") for part in _list(block, "content") if isinstance(part, Mapping)]
    return "\n".join(text for text in parts if isinstance(text, str))


def _with_files(said: Any, message: Mapping[str, Any]) -> Any:
    if not isinstance(said, str):
        return said
    files = [*_list(message, "attachments"), *_list(message, "files")]
    names = [file.get("file_name") for file in files if isinstance(file, Mapping)]
    marks = [f"[file: {name}]" if isinstance(name, str) and name else "[file]" for name in names]
    return "\n".join([said, *marks]) if marks else said


def _list(fields: Mapping[str, Any], key: str) -> list[Any]:
    value = fields.get(key)
    return value if isinstance(value, list) else []
