"""What somebody asks to be erased: a scope, a source or a memory."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields
from typing import Any, Self

import orjson

from memorypipe import ids
from memorypipe.errors import InvalidArgumentError

__all__ = ["EraseRequest", "read_requests"]

_TARGETS = ("scope", "source_id", "memory_id")


@dataclass(frozen=True, kw_only=True)
class EraseRequest:
    """One request to erase.

    Attributes:
        scope: Everything of this scope, matched exactly; beside another target, only there.
        source_id: Every memory that any of its revisions took from this message.
        memory_id: This memory.
        id: The request's own name, for the receipt.
        reason: Why, for the receipt.

    Raises:
        InvalidArgumentError: For no target, for a source and a memory at once, or for a blank or
            impossible value.

    Example:
        >>> EraseRequest(scope={"user_id": "u1"}).kind
        'scope'
    """

    scope: Mapping[str, Any] | None = None
    source_id: str | None = None
    memory_id: str | None = None
    id: str | None = None
    reason: str | None = None

    def __post_init__(self) -> None:
        if self.source_id is not None and self.memory_id is not None:
            raise InvalidArgumentError(
                "An erase request names a source_id or a memory_id, not both; make two of it."
            )
        if self.scope is None and self.source_id is None and self.memory_id is None:
            raise InvalidArgumentError(f"An erase request names nothing; give one of {_TARGETS!r}.")
        for each in fields(self):
            value = getattr(self, each.name)
            if each.name != "scope" and value is not None:
                _check_text(each.name, value)
        if self.scope is not None:
            if not isinstance(self.scope, Mapping):
                raise InvalidArgumentError(
                    f"scope of an erase request must be an object, got {self.scope!r}."
                )
            ids.check_scope(self.scope)

    @property
    def kind(self) -> str:
        """What it names: ``"scope"``, ``"source"`` or ``"memory"``."""
        if self.memory_id is not None:
            return "memory"
        return "source" if self.source_id is not None else "scope"

    @property
    def scope_key(self) -> str | None:
        """Of `scope`; None where it names none."""
        return None if self.scope is None else ids.scope_key(self.scope)

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Self:
        """Read a request from JSON values.

        Raises:
            InvalidArgumentError: For an unknown name, or as the class.
        """
        known = [each.name for each in fields(cls)]
        if unknown := sorted(set(values).difference(known)):
            raise InvalidArgumentError(
                f"Unknown name {unknown[0]!r} in an erase request; choices: {known!r}."
            )
        return cls(**values)

    def to_dict(self) -> dict[str, Any]:
        """Give the JSON values, without those that are not set."""
        values = {each.name: getattr(self, each.name) for each in fields(self)}
        return {name: value for name, value in values.items() if value is not None}


def read_requests(lines: Iterable[bytes]) -> list[EraseRequest]:
    """Read requests from JSON lines; blank lines are passed over.

    Args:
        lines: E.g. of a file.

    Raises:
        InvalidArgumentError: For a line that is no request, and where there is none. Nothing is
            left out silently.

    Example:
        >>> read_requests([b'{"memory_id": "mem_1", "id": "ticket 7"}'])[0].id
        'ticket 7'
    """
    requests = []
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        try:
            requests.append(EraseRequest.from_dict(_object(line)))
        except InvalidArgumentError as error:
            raise InvalidArgumentError(f"Line {number} of the requests: {error}") from error
    if not requests:
        raise InvalidArgumentError(
            'There are no erase requests; give one JSON object per line, e.g. {"scope": '
            '{"user_id": "u1"}}.'
        )
    return requests


def _object(line: bytes) -> dict[str, Any]:
    try:
        values = orjson.loads(line)
    except orjson.JSONDecodeError as error:
        raise InvalidArgumentError("It is no JSON.") from error
    if not isinstance(values, dict):
        raise InvalidArgumentError("It is no JSON object.")
    return values


def _check_text(name: str, value: Any) -> None:
    if not isinstance(value, str) or not value.strip():
        raise InvalidArgumentError(
            f"{name} of an erase request must be a string that is not blank, got {value!r}."
        )
