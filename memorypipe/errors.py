"""Every error of the package, as one tree.

::

    MemoryPipeError
    ├── InvalidArgumentError (also ValueError)    what the caller passed cannot work
    │   └── InvalidRequestError                   one of many requests, which it numbers
    ├── InvalidCellError (also ValueError)        a cell of a row cannot be read
    ├── LogFormatError (also ValueError)          a log, or one of its lines, cannot be read
    ├── ModelError                                a model call gave no usable reply
    │   ├── RetryableModelError                   worth another attempt (connection, 429, 5xx, …)
    │   ├── RejectedRequestError                  final for this row (400)
    │   ├── EndpointError                         final for the job (key, model or address is wrong)
    │   ├── JournalMissError                      only the journal may answer, and it cannot
    │   └── StoppedError                          the worker was told to stop before the call
    │       └── BudgetError                       a bound of the run is reached
    ├── JournalError                              the reply journal cannot do what was asked
    ├── PlanError                                 a plan or run record cannot be used
    └── TableError                                the memory table cannot do what was asked
        ├── TableNotFoundError
        ├── TableVersionError                     written by a newer library
        ├── RunConflictError                      this run id was committed with other actions
        ├── ConflictError                         memories changed since the plan was made
        ├── UndoConflictError                     later runs built on the run to undo
        └── HistoryGoneError                      the past asked for is no longer kept

Every error survives pickling: workers raise them, the driver shows them.
"""

from collections.abc import Sequence
from datetime import datetime

__all__ = [
    "BudgetError",
    "ConflictError",
    "EndpointError",
    "HistoryGoneError",
    "InvalidArgumentError",
    "InvalidCellError",
    "InvalidRequestError",
    "JournalError",
    "JournalMissError",
    "LogFormatError",
    "MemoryPipeError",
    "ModelError",
    "PlanError",
    "RejectedRequestError",
    "RetryableModelError",
    "RunConflictError",
    "StoppedError",
    "TableError",
    "TableNotFoundError",
    "TableVersionError",
    "UndoConflictError",
]


class MemoryPipeError(Exception):
    """Base of all errors that this package raises on purpose."""


class InvalidArgumentError(MemoryPipeError, ValueError):
    """A parameter or option cannot work; the message names it, its value and the choices."""


class InvalidRequestError(InvalidArgumentError):
    """One of many requests cannot work.

    Attributes:
        number: Which one, from 0.
        reason: What is wrong with it.
    """

    def __init__(self, number: int, reason: str) -> None:
        super().__init__(number, reason)
        self.number = number
        self.reason = reason

    def __str__(self) -> str:
        return f"Request {self.number}: {self.reason}"


class InvalidCellError(MemoryPipeError, ValueError):
    """A cell cannot be read; the message names the row and the reason."""


class LogFormatError(MemoryPipeError, ValueError):
    """A log, or one line of it, cannot be read as conversations."""


class ModelError(MemoryPipeError):
    """A model call gave no usable reply."""


class RetryableModelError(ModelError):
    """The same request may succeed later.

    Attributes:
        kind: The class of the failure, e.g. ``"timeout"``, ``"http_429"``.
        retry_after_s: What the endpoint asked us to wait, in seconds; None where it said nothing.
    """

    def __init__(
        self, message: str, kind: str = "error", retry_after_s: float | None = None
    ) -> None:
        super().__init__(message, kind, retry_after_s)
        self.kind = kind
        self.retry_after_s = retry_after_s

    def __str__(self) -> str:
        return str(self.args[0])


class RejectedRequestError(ModelError):
    """The endpoint rejects this request for good (400): final for its row.

    Attributes:
        rejects_schema: True where it is the `response_format` that the endpoint does not take.
    """

    def __init__(self, message: str, *, rejects_schema: bool = False) -> None:
        super().__init__(message)
        self.rejects_schema = rejects_schema


class EndpointError(ModelError):
    """The endpoint cannot serve this job: wrong key, model, address, or no quota left.

    Attributes:
        status: The HTTP status that told so; None where it was something else.
    """

    def __init__(self, message: str, *, status: int | None = None) -> None:
        super().__init__(message)
        self.status = status


class StoppedError(ModelError):
    """The worker was told to stop before this call was made."""


class BudgetError(StoppedError):
    """A bound of the run (calls, tokens or cost) is reached; what is left can be taken up later.

    Attributes:
        bound: The bound's name: ``"max_calls"``, ``"max_tokens"`` or ``"max_cost"``.
    """

    def __init__(self, message: str, *, bound: str = "") -> None:
        super().__init__(message)
        self.bound = bound


class JournalMissError(ModelError):
    """The journal alone may answer, and it does not know this request."""


class JournalError(MemoryPipeError):
    """The reply journal cannot do what was asked."""


class PlanError(MemoryPipeError):
    """A plan or a run record cannot be used as asked."""


class TableError(MemoryPipeError):
    """The memory table cannot do what was asked."""


class TableNotFoundError(TableError):
    """There is no memory table at this place."""


class TableVersionError(TableError):
    """The table was written by a newer version of the library."""


class RunConflictError(TableError):
    """This run id is already in the table, with other actions."""


class ConflictError(TableError):
    """Memories that the actions were decided against have changed since.

    Attributes:
        memory_ids: The memories that changed, sorted.
    """

    def __init__(self, message: str, memory_ids: Sequence[str] = ()) -> None:
        super().__init__(message, tuple(memory_ids))
        self.memory_ids = tuple(memory_ids)

    def __str__(self) -> str:
        return str(self.args[0])


class UndoConflictError(TableError):
    """Later runs built on what a run did, so that it cannot be undone alone.

    Attributes:
        run_ids: These runs, newest first.
    """

    def __init__(self, message: str, run_ids: Sequence[str] = ()) -> None:
        super().__init__(message, tuple(run_ids))
        self.run_ids = tuple(run_ids)

    def __str__(self) -> str:
        return str(self.args[0])


class HistoryGoneError(TableError):
    """The past that was asked for is no longer kept.

    Attributes:
        horizon: Commit time (UTC) from which on the table's history is whole; None where it is
            not the horizon that stands in the way.
    """

    def __init__(self, message: str, horizon: datetime | None = None) -> None:
        super().__init__(message, horizon)
        self.horizon = horizon

    def __str__(self) -> str:
        return str(self.args[0])
