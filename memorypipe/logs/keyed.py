"""Names that are made of what was said, made anew with the key of a table. Pure."""

import re

import pyarrow as pa

from memorypipe.id_key import NO_ID_KEY
from memorypipe.ids import digest
from memorypipe.logs.conversations import MADE_NAME_PREFIX

__all__ = ["keyed_names"]

_NAME_BYTES = 12
_SUFFIX_BYTES = 4

# As `memorypipe.ids.message_id` and `memorypipe.logs.conversations` make them, and what sets
# messages apart to which a log gives one id.
_MADE_MESSAGE = re.compile(r"msg_[0-9a-f]{24}")
_MADE_CONVERSATION = re.compile(MADE_NAME_PREFIX + r"[0-9a-f]{24}")
_MADE_SUFFIX = re.compile(r"~[0-9a-f]{8}$")


def keyed_names(conversations: pa.Table, key: bytes) -> pa.Table:
    """Make the ids of messages and the names of conversations anew that come from their content.

    What the log itself calls them stays.

    Args:
        conversations: With the columns of `memorypipe.schema.CONVERSATIONS`.
        key: That of the table; with `NO_ID_KEY` nothing changes.

    Returns:
        The same rows.
    """
    if key == NO_ID_KEY:
        return conversations
    names = [_conversation(name, key) for name in conversations["conversation_id"].to_pylist()]
    at = conversations.schema.get_field_index("conversation_id")
    field = conversations.schema.field(at)
    renamed = conversations.set_column(at, field, pa.array(names, field.type))
    at = renamed.schema.get_field_index("messages")
    field = renamed.schema.field(at)
    messages = [
        [{**message, "id": _message(message["id"], key)} for message in row]
        for row in renamed["messages"].to_pylist()
    ]
    return renamed.set_column(at, field, pa.array(messages, field.type))


def _conversation(name: str, key: bytes) -> str:
    if not _MADE_CONVERSATION.fullmatch(name):
        return name
    return MADE_NAME_PREFIX + digest("conversation", name, size=_NAME_BYTES, key=key).hex()


def _message(name: str, key: bytes) -> str:
    if _MADE_MESSAGE.fullmatch(name):
        return "msg_" + digest("message", name, size=_NAME_BYTES, key=key).hex()
    suffix = _MADE_SUFFIX.search(name)
    if suffix is None:
        return name
    own = _message(name[: suffix.start()], key)
    return f"{own}~{digest('said', name, size=_SUFFIX_BYTES, key=key).hex()}"
