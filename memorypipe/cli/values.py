"""The words of a command line as values. Pure."""

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

import orjson

from memorypipe.errors import InvalidArgumentError

__all__ = [
    "attach_local_model",
    "parse_columns",
    "parse_fields",
    "parse_labels",
    "parse_moment",
    "parse_names",
    "parse_params",
    "parse_roles",
    "parse_scope",
    "parse_scope_columns",
    "parse_time",
    "parse_where",
]

_LOCAL_MODEL = "--local-model"
_MODEL_SUFFIX = ".gguf"

# Digits of a date without dashes; no table has as many versions.
_MIN_DATE_DIGITS = 8


def attach_local_model(argv: Sequence[str]) -> list[str]:
    """Tie the optional value of ``--local-model`` to it.

    The word after it is its value only where it ends in ``.gguf``; else it is a log.

    Example:
        >>> attach_local_model(["backfill", "--local-model", "m.gguf", "log.jsonl"])
        ['backfill', '--local-model=m.gguf', 'log.jsonl']
        >>> attach_local_model(["backfill", "--local-model", "log.jsonl"])
        ['backfill', '--local-model=', 'log.jsonl']
    """
    words: list[str] = []
    rest = list(argv)
    while rest and rest[0] != "--":
        word = rest.pop(0)
        if word == _LOCAL_MODEL:
            is_value = bool(rest) and rest[0].lower().endswith(_MODEL_SUFFIX)
            word += "=" + (rest.pop(0) if is_value else "")
        words.append(word)
    return words + rest


def parse_scope(pairs: Sequence[str]) -> dict[str, str] | None:
    """Read the scope whose memories are wanted; None where no pair is given.

    Raises:
        InvalidArgumentError: For a word that is no pair, or a name given twice.

    Example:
        >>> parse_scope(["user_id=u1", "agent_id=a=b"])
        {'user_id': 'u1', 'agent_id': 'a=b'}
    """
    return _pairs("--scope", pairs, "user_id=u1") or None


def parse_scope_columns(pairs: Sequence[str]) -> dict[str, str] | None:
    """Read which field of a log gives which part of the scope; None where no pair is given.

    A value that begins with ``=`` is a constant.

    Raises:
        InvalidArgumentError: As `parse_scope`.

    Example:
        >>> parse_scope_columns(["user_id=uid", "tenant==acme"])
        {'user_id': 'uid', 'tenant': '=acme'}
    """
    example = "user_id=uid (the log's field uid) or user_id==u1 (the constant u1)"
    return _pairs("--scope", pairs, example) or None


def parse_columns(pairs: Sequence[str]) -> dict[str, str] | None:
    """Read which field of a log is which part of a conversation; None where no pair is given.

    Raises:
        InvalidArgumentError: As `parse_scope`.

    Example:
        >>> parse_columns(["messages=log", "role==user"])
        {'messages': 'log', 'role': '=user'}
    """
    return _pairs("--map", pairs, "messages=log (the messages are the field log)") or None


def parse_roles(words: Sequence[str]) -> dict[str, str] | None:
    """Read what a log calls its speakers; None where no pair is given.

    Raises:
        InvalidArgumentError: As `parse_scope`.

    Example:
        >>> parse_roles(["customer=user,agent=assistant"])
        {'customer': 'user', 'agent': 'assistant'}
    """
    pairs = [pair for word in words for pair in word.split(",")]
    return _pairs("--roles", pairs, "customer=user,agent=assistant") or None


def parse_fields(pairs: Sequence[str]) -> dict[str, str]:
    """Read which field of a record becomes what.

    Raises:
        InvalidArgumentError: As `parse_scope`.

    Example:
        >>> parse_fields(["text=memory", "external_id=id"])
        {'text': 'memory', 'external_id': 'id'}
    """
    return _pairs("--map", pairs, "text=memory (the text is the field memory)")


def parse_labels(pairs: Sequence[str]) -> dict[str, str]:
    """Read the labels of a run.

    Raises:
        InvalidArgumentError: As `parse_scope`.

    Example:
        >>> parse_labels(["team=search", "night=2025-01-31"])
        {'team': 'search', 'night': '2025-01-31'}
    """
    return _pairs("--label", pairs, "team=search")


def parse_where(pairs: Sequence[str]) -> dict[str, str]:
    """Read what is taken again.

    Raises:
        InvalidArgumentError: As `parse_scope`.

    Example:
        >>> parse_where(["user_id=u1", "model=m"])
        {'user_id': 'u1', 'model': 'm'}
    """
    return _pairs("--where", pairs, "user_id=u1, conversation=c1, run=RUN, model=M or prompt=HASH")


def parse_params(pairs: Sequence[str]) -> dict[str, Any]:
    """Read arguments of the chat-completions call, each value as JSON.

    Raises:
        InvalidArgumentError: As `parse_scope`, or for a value that is no JSON.

    Example:
        >>> parse_params(["temperature=0", 'stop=["END"]'])
        {'temperature': 0, 'stop': ['END']}
    """
    texts = _pairs("--param", pairs, "temperature=0 or 'stop=[\"END\"]'")
    return {name: _json(name, text) for name, text in texts.items()}


def parse_moment(option: str, text: str) -> datetime | int:
    """Read a version of a table, or a time; a time without a zone is UTC.

    Raises:
        InvalidArgumentError: For a word that is neither.

    Example:
        >>> parse_moment("--as-of", "12")
        12
        >>> parse_moment("--as-of", "2024-05-01T10:00").isoformat()
        '2024-05-01T10:00:00+00:00'
    """
    word = text.strip()
    if word.isascii() and word.isdecimal() and len(word) < _MIN_DATE_DIGITS:
        return int(word)
    return parse_time(option, text, or_else="a version such as 12, or ")


def parse_time(option: str, text: str, *, or_else: str = "") -> datetime:
    """Read a time; one without a zone is UTC.

    Args:
        option: The option, for errors.
        text: Its word.
        or_else: What else the option takes, for errors.

    Raises:
        InvalidArgumentError: For a word that is no time.

    Example:
        >>> parse_time("--since", "2024-05-01T10:00").isoformat()
        '2024-05-01T10:00:00+00:00'
    """
    word = text.strip()
    is_date = not word.isdecimal() or len(word) >= _MIN_DATE_DIGITS
    try:
        moment = datetime.fromisoformat(word) if is_date else None
    except ValueError:
        moment = None
    if moment is None:
        raise InvalidArgumentError(
            f"{option} must be {or_else}a time such as 2024-05-01 or 2024-05-01T10:00Z, got "
            f"{text!r}."
        )
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)


def parse_names(option: str, names: Sequence[str]) -> tuple[str, ...]:
    """Read names that are separated by commas, or given one option each.

    Raises:
        InvalidArgumentError: For a blank name.

    Example:
        >>> parse_names("--keep", ["a,b", "c"])
        ('a', 'b', 'c')
    """
    found = [name.strip() for word in names for name in word.split(",")]
    if "" in found:
        raise InvalidArgumentError(
            f"{option} must be names separated by commas, got {list(names)!r}."
        )
    return tuple(found)


def _pairs(option: str, pairs: Sequence[str], example: str) -> dict[str, str]:
    found: dict[str, str] = {}
    for pair in pairs:
        name, mark, value = pair.partition("=")
        if not (name.strip() and mark and value.strip()):
            # Only the name: a value may be a secret.
            raise InvalidArgumentError(
                f"{option} must look like NAME=VALUE, for example {example}, got {name!r} "
                f"{'without a value' if name.strip() else 'without a name'}."
            )
        if name in found:
            raise InvalidArgumentError(f"{option} gives {name!r} twice; give it once.")
        found[name] = value
    return found


def _json(name: str, text: str) -> Any:
    try:
        return orjson.loads(text)
    except orjson.JSONDecodeError:
        raise InvalidArgumentError(
            f"--param {name}=… must have a JSON value: a number, true, false, null, or a quoted "
            f"string such as '{name}=\"low\"'."
        ) from None
