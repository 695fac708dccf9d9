"""Short ways to write actions and ledger rows, and a clock that tests set."""

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

import pyarrow as pa

from memorypipe import ids
from memorypipe.schema import ACTION_OPTIONS, ACTIONS, LEDGER

USER = {"user_id": "u1"}
START = datetime(2024, 5, 1, tzinfo=UTC)


class SteppingClock:
    """Gives a time one second later at each reading."""

    def __init__(self, start: datetime = START) -> None:
        self.now = start

    def __call__(self) -> datetime:
        self.now += timedelta(seconds=1)
        return self.now


def minted(text: str, scope: Mapping[str, str] = USER, ordinal: int = 0) -> str:
    """Give the id that an ADD of a text gets."""
    return ids.memory_id("memory", ids.scope_key(scope), text, ordinal)


def action(event: str, text: str = "", *, scope: Mapping[str, str] = USER, **more: Any) -> Any:
    """Make one action; an ADD without `memory_id` carries the minted one."""
    row = dict.fromkeys(ACTIONS.names) | {
        "scope": list(scope.items()),
        "scope_key": ids.scope_key(scope),
        "record_type": "memory",
        "event": event,
        "text": text,
        "memory_id": minted(text, scope) if event == "ADD" else None,
    }
    return row | more


def add(text: str, **more: Any) -> Any:
    return action("ADD", text, **more)


def update(memory_id: str, text: str, **more: Any) -> Any:
    return action("UPDATE", text, memory_id=memory_id, **more)


def delete(memory_id: str, **more: Any) -> Any:
    return action("DELETE", memory_id=memory_id, **more)


def actions(*rows: Any) -> pa.Table:
    """Make a batch; `seq` is the place in it where a row does not say another.

    It has the optional columns that any row names.
    """
    numbered = [
        row if row["seq"] is not None else row | {"seq": number} for number, row in enumerate(rows)
    ]
    options = [field for field in ACTION_OPTIONS if any(field.name in row for row in rows)]
    return pa.Table.from_pylist(numbered, schema=pa.schema([*ACTIONS, *options]))


def ledger(*messages: str, scope: Mapping[str, str] = USER) -> pa.Table:
    """Make ledger rows for messages of one conversation."""
    rows = [
        {
            "scope_key": ids.scope_key(scope),
            "conversation_id": "c1",
            "message_id": message,
            "window_id": "w1",
        }
        for message in messages
    ]
    return pa.Table.from_pylist(rows, schema=LEDGER)


def ledger_key(message: str, scope: Mapping[str, str] = USER) -> bytes:
    """Give the key of a message of `ledger`."""
    return ids.ledger_key(ids.scope_key(scope), "c1", message)
