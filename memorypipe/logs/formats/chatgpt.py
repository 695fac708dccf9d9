"""The export of ChatGPT (`conversations.json`): a tree of messages per conversation. Pure.

Editing a message or asking for another answer opens a branch; what the user saw last is the
branch that ends in `current_node`.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from memorypipe.errors import LogFormatError
from memorypipe.logs.conversations import Draft
from memorypipe.logs.formats.shapes import first_value
from memorypipe.logs.records import describe

__all__ = ["chatgpt_drafts", "is_chatgpt"]

# Said by nobody: the model's thoughts, and the settings and memories that the product shows it.
_UNSAID = {
    "model_editable_context",
    "reasoning_recap",
    "system_error",
    "thoughts",
    "user_editable_context",
}
_PLACEHOLDERS = {
    "audio_asset_pointer": "[audio]",
    "image_asset_pointer": "[image]",
    "real_time_user_audio_video_asset_pointer": "[audio]",
    "video_container_asset_pointer": "[video]",
}
# Where a content without `parts` has its text.
_TEXT_KEYS = ("text", "result", "content")


def is_chatgpt(value: Any) -> bool:
    """Recognise one conversation of the export."""
    if not isinstance(value, Mapping) or not isinstance(value.get("mapping"), Mapping):
        return False
    nodes = value["mapping"].values()
    return "current_node" in value or any(
        isinstance(node, Mapping) and "message" in node and "parent" in node for node in nodes
    )


def chatgpt_drafts(value: Any) -> Iterator[Draft]:
    """Read one conversation of the export, named after its `conversation_id` or `id`.

    Hidden messages, system turns, thoughts and what the product remembers are left out; what the
    model says to a tool is a tool turn. The order is that of the branch. The export does not say
    whose it is.

    Raises:
        LogFormatError: The record has another shape, or its branch has no end.
    """
    if not is_chatgpt(value):
        raise LogFormatError(
            f"Expected an object with 'mapping' and its nodes, found {describe(value)}."
        )
    messages = (_message(node) for node in _branch(value))
    yield Draft(
        messages=[message for message in messages if message is not None],
        fields=value,
        conversation_id=first_value(value, ("conversation_id", "id")),
        times=[value.get("create_time"), value.get("update_time")],
        keeps_order=True,
    )


def _branch(value: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """Give the nodes from the root to the current one."""
    nodes = value["mapping"]
    current = value.get("current_node")
    at = current if isinstance(current, str) and current in nodes else _newest_leaf(nodes)
    branch: list[Mapping[str, Any]] = []
    seen = set[str]()
    while isinstance(at, str) and isinstance(nodes.get(at), Mapping):
        if at in seen:
            raise LogFormatError("The nodes of 'mapping' are their own parents.")
        seen.add(at)
        branch.append(nodes[at])
        at = nodes[at].get("parent")
    return branch[::-1]


def _newest_leaf(nodes: Mapping[str, Any]) -> str | None:
    leaves = [
        (_time(node), name)
        for name, node in nodes.items()
        if isinstance(node, Mapping) and not node.get("children")
    ]
    return max(leaves, default=(0.0, None))[1]


def _time(node: Mapping[str, Any]) -> float:
    message = node.get("message")
    time = message.get("create_time") if isinstance(message, Mapping) else None
    return time if isinstance(time, int | float) else 0.0


def _message(node: Mapping[str, Any]) -> dict[str, Any] | None:
    message = node.get("message")
    if not isinstance(message, Mapping):
        return None
    author, content = _object(message, "author"), _object(message, "content")
    hidden = _object(message, "metadata").get("is_visually_hidden_from_conversation")
    if hidden or content.get("content_type") in _UNSAID:
        return None
    role, recipient = author.get("role"), message.get("recipient")
    is_call = role == "assistant" and recipient not in (None, "all")
    return {
        "role": "tool" if is_call else role,
        "name": recipient if is_call else author.get("name"),
        "content": _text(content),
        # The export writes 0 for a time that it does not know.
        "timestamp": message.get("create_time") or None,
        "id": message.get("id"),
    }


def _object(fields: Mapping[str, Any], key: str) -> Mapping[str, Any]:
    value = fields.get(key)
    return value if isinstance(value, Mapping) else {}


def _text(content: Mapping[str, Any]) -> str:
    parts = content.get("parts")
    if isinstance(parts, list):
        return "\n".join(text for part in parts if (text := _part(part)))
    text = first_value(content, _TEXT_KEYS)
    return text if isinstance(text, str) else ""


def _part(part: Any) -> str:
    if isinstance(part, str):
        return part
    if not isinstance(part, Mapping):
        return ""
    text = part.get("text")  # of spoken words, for one
    if isinstance(text, str):
        return text
    return _PLACEHOLDERS.get(str(part.get("content_type")), "[attachment]")
