"""The options of the commands that read a log."""

from dataclasses import dataclass
from typing import Annotated, Any, Literal

import typer

__all__ = ["LogOptions"]


def _log(*names: str, **settings: Any) -> Any:
    return typer.Option(*names, rich_help_panel="Log", **settings)


@dataclass(frozen=True, kw_only=True)
class LogOptions:
    """Which log is read, and how; the help of each option says what it means."""

    logs: Annotated[
        list[str],
        typer.Argument(
            metavar="LOGS", help="Files, folders or patterns: JSON lines, JSON, CSV or Parquet."
        ),
    ]
    format: Annotated[
        str,
        _log(
            "--format",
            metavar="NAME",
            help="auto, openai, sharegpt, chatgpt, claude, locomo or memorybank.",
        ),
    ] = "auto"
    map: Annotated[
        list[str] | None,
        _log(
            "--map",
            metavar="PART=FIELD",
            help="What is where in any other log: messages, conversation_id, event_time, and of "
            "each message role, content, name, timestamp, id; messages=log. Repeatable.",
        ),
    ] = None
    roles: Annotated[
        list[str] | None,
        _log(
            "--roles",
            metavar="NAME=ROLE,…",
            help="What the log calls its speakers: customer=user,agent=assistant.",
        ),
    ] = None
    timezone: Annotated[
        str | None,
        _log(
            "--timezone",
            metavar="Z|NAME|FIELD",
            help="Of times that name none (UTC): Europe/Berlin, +02:00, or the field that says it.",
        ),
    ] = None
    layout: Annotated[
        Literal["conversations", "messages"],
        _log("--layout", help="messages: a row is one message; needs --group-by."),
    ] = "conversations"
    group_by: Annotated[
        str | None,
        _log(
            "--group-by",
            metavar="FIELD",
            help="Which conversation a message is of (--layout messages).",
        ),
    ] = None
    order_by: Annotated[
        str | None,
        _log(
            "--order-by",
            metavar="FIELD",
            help="What orders a conversation (its times, else the log).",
        ),
    ] = None
    scope: Annotated[
        list[str] | None,
        _log(
            "--scope",
            metavar="NAME=FIELD",
            help="Whose memories: user_id=uid takes the log's field 'uid', user_id==u1 is the "
            "constant 'u1'. Repeatable.",
        ),
    ] = None
    keep: Annotated[
        list[str] | None, _log("--keep", metavar="F1,F2", help="Fields of the log to carry along.")
    ] = None
    limit: Annotated[
        int | None, _log("--limit", metavar="N", min=1, help="At most N conversations.")
    ] = None
