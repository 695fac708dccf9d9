"""Ask again after a reply that could not be used."""

from collections.abc import Sequence

from memorypipe.llm.types import ChatMessage
from memorypipe.text import clean

__all__ = ["retry_messages"]

# A model that went in circles needs no more than the start of what it said.
_SHOWN_CHARS = 2000


def retry_messages(
    messages: Sequence[ChatMessage], reply_text: str | None, error: str
) -> list[ChatMessage]:
    """Add to a request what was replied and what was wrong with it.

    Args:
        messages: The request.
        reply_text: What the model replied; null or blank where it said nothing.
        error: What is wrong, in words for the model.
    """
    reason = error.strip().rstrip(".")
    note = f"Your reply could not be used: {reason}. Reply again, with the JSON object only."
    reply = clean(reply_text or "")[0][:_SHOWN_CHARS]
    if reply.strip():
        said = {"role": "assistant", "content": reply}
        return [*messages, said, {"role": "user", "content": note}]
    # Many chat templates refuse an empty reply, and two messages of one role in a row.
    last = dict(messages[-1])
    last["content"] = f"{last['content']}\n\n{note}"
    return [*messages[:-1], last]
