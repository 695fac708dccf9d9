"""What one task has cost so far, and what it may still cost."""

from collections import Counter
from dataclasses import dataclass, field
from typing import TypeVar

from memorypipe.errors import ModelError
from memorypipe.llm.metrics import WorkerMetrics
from memorypipe.llm.stage import Outcome, Reading
from memorypipe.llm.types import Reply

__all__ = ["Tally"]

ValueT = TypeVar("ValueT")


@dataclass(kw_only=True)
class Tally:
    """The one attempt budget of a task, shared by retries, corrections and halves.

    Attributes:
        attempts_left: Requests that may still be sent.
        counts: Of all tasks of its kind.
        goes_first: Whether its requests go before those of others that wait as well.
        attempts: Requests sent.
        hits: Replies that came from the journal.
        last_reply: The reply that the outcome stands on.
    """

    attempts_left: int
    counts: WorkerMetrics
    goes_first: bool = False
    attempts: int = 0
    hits: int = 0
    failures: Counter[str] = field(default_factory=Counter)
    prompt_tokens: int = 0
    completion_tokens: int = 0
    latency_ms: float = 0.0
    last_reply: Reply | None = None

    def take(self) -> None:
        """Use one attempt; the caller has seen that one is left."""
        self.attempts += 1
        self.attempts_left -= 1

    def give_back(self) -> None:
        """Give an attempt back that was not sent after all."""
        self.attempts -= 1
        self.attempts_left += 1

    def fail(self, kind: str) -> None:
        """Count a failure class."""
        self.failures[kind] += 1

    def paid(self, reply: Reply) -> None:
        """Add what a reply cost."""
        self.prompt_tokens += reply.prompt_tokens
        self.completion_tokens += reply.completion_tokens
        self.latency_ms += reply.latency_ms

    def hit(self, reply: Reply, *, takes_attempt: bool) -> None:
        """Count a reply that cost nothing.

        Args:
            reply: The reply.
            takes_attempt: Whether the budget shrinks as if it had been sent for.
        """
        self.attempts_left -= takes_attempt
        self.hits += 1
        self.last_reply = reply

    def failed(self, error: ModelError) -> Outcome[ValueT]:
        """Close the account of a task to which no reply came."""
        return self._close(None, "llm_error", f"{type(error).__name__}: {error}")

    def outcome(self, reading: Reading[ValueT]) -> Outcome[ValueT]:
        """Close the account of a task with its reading."""
        return self._close(reading, reading.status, reading.error)

    def _close(
        self, reading: Reading[ValueT] | None, status: str, error: str | None
    ) -> Outcome[ValueT]:
        reply = self.last_reply
        return Outcome(
            value=reading.value if reading else None,
            status=status,
            error=error,
            attempts=self.attempts,
            failures=tuple(sorted(self.failures.items())),
            prompt_tokens=self.prompt_tokens,
            completion_tokens=self.completion_tokens,
            latency_ms=self.latency_ms,
            cached=self.hits > 0 and self.attempts == 0,
            repaired=reading.repaired if reading else 0,
            dropped_items=reading.dropped_items if reading else 0,
            model=reply.model if reply else None,
            raw_reply=None if status in {"ok", "empty"} or not reply else reply.content,
        )
