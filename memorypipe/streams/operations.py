"""Operations: what callers hold while memories are made of what they ingested."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from memorypipe.streams.generation import MadeMemory

__all__ = ["IngestedBatch", "Operation", "OperationResult"]


@dataclass(frozen=True, kw_only=True)
class OperationResult:
    """What an operation came to.

    Attributes:
        run_id: The run that made the memories; None where nothing was pending.
        memories: What was made, updated and deleted.
    """

    run_id: str | None
    memories: tuple[MadeMemory, ...] = ()


class _Streams(Protocol):
    """What an operation asks of the streams that it is of."""

    def ending(self, name: str) -> Mapping[str, Any] | None:
        """Give how an operation ended; None where it has not."""
        ...

    def wait(self, name: str, timeout_s: float | None) -> None:
        """Run or await an operation."""
        ...


class Operation:
    """The making of memories of what is pending in a stream; made by `EventStreams`.

    All calls on a stream have the same one until its generation starts. It is stored with the
    events: `EventStreams.get_operation` gives it again, in any process.

    Args:
        name: Its name.
        streams: The streams that it is of.
    """

    def __init__(self, name: str, streams: _Streams) -> None:
        self.name = name
        self._streams = streams

    def __repr__(self) -> str:
        return f"Operation({self.name!r})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Operation) and other.name == self.name

    def __hash__(self) -> int:
        return hash(self.name)

    @property
    def done(self) -> bool:
        """Whether it has ended, well or not."""
        return self._streams.ending(self.name) is not None

    @property
    def error(self) -> str | None:
        """Why it failed; its events are pending still, in the stream's next operation."""
        ending = self._streams.ending(self.name)
        return None if ending is None else ending["error"]

    @property
    def result(self) -> OperationResult | None:
        """What it came to; None where it has not ended, or has failed."""
        ending = self._streams.ending(self.name)
        if ending is None or ending["error"] is not None:
            return None
        return OperationResult(
            run_id=ending["run_id"],
            memories=tuple(MadeMemory.from_dict(each) for each in ending["memories"]),
        )

    def wait(self, timeout_s: float | None = None) -> bool:
        """Run the generation where it is due, or else await its end.

        Args:
            timeout_s: Seconds to wait for a generation that is not due yet, or that another
                process works on; None waits as long as it takes. One that runs here is not
                cut short.

        Returns:
            Whether the operation has ended.
        """
        self._streams.wait(self.name, timeout_s)
        return self.done


@dataclass(frozen=True, kw_only=True)
class IngestedBatch:
    """What became of many requests.

    Attributes:
        operations: Of each request the operation that it is part of.
        events: Events in them.
        new: Those that were taken.
        duplicates: Those that were there before.
    """

    operations: tuple[Operation, ...]
    events: int
    new: int
    duplicates: int
