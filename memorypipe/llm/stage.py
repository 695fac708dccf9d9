"""What a stage of model work is: how to ask, how to read, how to cut in two.

A stage is pure. The worker owns sending, retrying, journalling and counting; the stage owns what
the words mean.
"""

from dataclasses import dataclass, field
from typing import Generic, Literal, Protocol, TypeVar

from memorypipe.llm.types import Reply, Request

__all__ = ["COMPLETE_STATUSES", "USABLE_STATUSES", "Outcome", "Reading", "ReadingStatus", "Stage"]

TaskT = TypeVar("TaskT")
ValueT = TypeVar("ValueT")
ValueT_co = TypeVar("ValueT_co", covariant=True)

ReadingStatus = Literal["ok", "empty", "truncated", "incomplete", "parse_error", "refused"]

# All that was asked for is there.
COMPLETE_STATUSES = frozenset({"ok", "empty"})

# A truncated reply is worth keeping: asked again it would be cut again.
USABLE_STATUSES = frozenset({"ok", "empty", "truncated"})


@dataclass(frozen=True, kw_only=True)
class Reading(Generic[ValueT_co]):
    """What a stage made of one reply.

    Attributes:
        value: The items that could be read; None where none could.
        status: How the reading went; ``"incomplete"``: it was read whole, but does not answer all
            that was asked.
        error: Why it is not `ok` or `empty`, in words that the model may be told.
        dropped_items: Items that were left out because they could not be read.
        repaired: Characters that no store can hold and that were replaced.
    """

    value: ValueT_co | None
    status: ReadingStatus
    error: str | None = None
    dropped_items: int = 0
    repaired: int = 0


@dataclass(frozen=True, kw_only=True)
class Outcome(Generic[ValueT_co]):
    """What came of one task, all its requests taken together.

    Attributes:
        value: The items; None where the task failed.
        status: As of `Reading`, or ``"llm_error"`` where no reply came.
        error: The error class and message; never a key, prompt or row.
        attempts: Requests sent; 0 where the journal answered.
        failures: How often each failure class occurred on the way, as sorted pairs.
        prompt_tokens: Over all replies paid for, bad ones too.
        completion_tokens: As `prompt_tokens`.
        latency_ms: Over all requests, waiting for the limits not counted.
        cached: True where every reply came from the journal.
        raw_reply: The last reply's content where the status is neither `ok` nor `empty`.
    """

    value: ValueT_co | None
    status: str
    error: str | None = None
    attempts: int = 0
    failures: tuple[tuple[str, int], ...] = ()
    prompt_tokens: int = 0
    completion_tokens: int = 0
    latency_ms: float = 0.0
    cached: bool = False
    repaired: int = 0
    dropped_items: int = 0
    model: str | None = None
    raw_reply: str | None = field(default=None, repr=False)


class Stage(Protocol[TaskT, ValueT]):
    """One kind of model work.

    Attributes:
        kind: What it is called where work is counted, e.g. ``"extract"``.
        prompt_hash: Hash of the instructions, the format rule and the schema.
    """

    kind: str
    prompt_hash: str

    def request(self, task: TaskT) -> Request:
        """Build the request of a task."""
        ...

    def read(self, task: TaskT, reply: Reply) -> Reading[ValueT]:
        """Read a reply; never raises on what a model says."""
        ...

    def split(self, task: TaskT) -> tuple[TaskT, TaskT] | None:
        """Cut a task whose reply did not fit; None where it can't be cut further."""
        ...

    def merge(
        self, task: TaskT, first: ValueT | None, second: ValueT | None, whole: ValueT | None
    ) -> ValueT:
        """Put the values of the two halves of `task` together.

        Args:
            task: The task that was cut in two.
            first: Of its first half; None where that failed.
            second: Of its second half; likewise.
            whole: What could be read of the reply that was cut; it stands in for a half that
                failed.
        """
        ...
