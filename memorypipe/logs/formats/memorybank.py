"""MemoryBank: people, and what they asked and heard on each day. Pure."""

from collections.abc import Iterator, Mapping
from datetime import UTC
from typing import Any

from memorypipe.errors import LogFormatError
from memorypipe.logs.conversations import Draft
from memorypipe.logs.records import describe

__all__ = ["is_memorybank", "memorybank_drafts", "people"]


def is_memorybank(value: Any) -> bool:
    """Recognise one person: an object with `history` by day."""
    return isinstance(value, Mapping) and isinstance(value.get("history"), Mapping)


def people(value: Any) -> list[Any] | None:
    """Take the people, each with its key as `name`, out of a document; None where it has none."""
    if not isinstance(value, Mapping) or not any(map(is_memorybank, value.values())):
        return None
    return [_named(name, person) for name, person in value.items()]


def _named(name: str, person: Any) -> Any:
    # Keys, not `name` fields, tell people apart; some are padded with blanks.
    return {**person, "name": name.strip()} if isinstance(person, Mapping) else person


def memorybank_drafts(value: Any) -> Iterator[Draft]:
    """Read one conversation per day, named ``<name>/<date>``.

    Scope `user_id` is the person's name; `query` is the user's turn, `response` the assistant's.
    A day begins at 00:00 UTC unless a zone is given.

    Raises:
        LogFormatError: The record has another shape.
    """
    if not is_memorybank(value):
        raise LogFormatError(f"Expected an object with 'history' by day, found {describe(value)}.")
    name = value.get("name")
    for date in sorted(value["history"]):
        yield Draft(
            messages=_day_messages(value["history"][date], date),
            fields=value,
            default_scope=None if name is None else {"user_id": name},
            conversation_id=None if name is None else f"{name}/{date}",
            zone=UTC,
        )


def _day_messages(exchanges: Any, date: str) -> Any:
    if not isinstance(exchanges, list):
        return exchanges
    return [turn for exchange in exchanges for turn in _exchange_messages(exchange, date)]


def _exchange_messages(exchange: Any, date: str) -> list[Any]:
    if not isinstance(exchange, Mapping):
        return [exchange]
    return [
        {"role": role, "content": exchange.get(key), "timestamp": date}
        for key, role in (("query", "user"), ("response", "assistant"))
    ]
