"""What model access cost: counters that add up over workers and restarts."""

from collections import Counter
from dataclasses import dataclass, field, fields
from typing import Any

from memorypipe.llm.types import Reply

__all__ = ["Usage"]


@dataclass(kw_only=True)
class Usage:
    """Counters of one worker, or of several merged.

    Attributes:
        calls: Requests asked for, those that the journal answered included.
        attempts: Requests sent.
        journal_hits: Requests that the journal answered.
        failures: Attempts without a usable reply, by class, e.g. ``{"http_429": 3}``.
        prompt_tokens: Of all replies paid for, unusable ones too.
        completion_tokens: As `prompt_tokens`.
        max_in_flight: The most requests in flight at one time; merging takes the largest.
        waited_qps_s: Seconds that requests waited for their turn under `max_qps`, added up.
        waited_concurrency_s: As `waited_qps_s`, for a slot under `max_concurrency`.
        waited_tokens_s: As `waited_qps_s`, under `max_tokens_per_minute`.
        waited_retry_s: As `waited_qps_s`, between attempts.

    Example:
        >>> (Usage(calls=1) + Usage(calls=2, failures=Counter(timeout=1))).to_dict()["calls"]
        3
    """

    calls: int = 0
    attempts: int = 0
    journal_hits: int = 0
    failures: Counter[str] = field(default_factory=Counter)
    prompt_tokens: int = 0
    completion_tokens: int = 0
    max_in_flight: int = 0
    waited_qps_s: float = 0.0
    waited_concurrency_s: float = 0.0
    waited_tokens_s: float = 0.0
    waited_retry_s: float = 0.0

    def add_reply(self, reply: Reply) -> None:
        """Count the tokens of a reply that was paid for."""
        self.prompt_tokens += reply.prompt_tokens
        self.completion_tokens += reply.completion_tokens

    def add_failure(self, kind: str) -> None:
        """Count an attempt that gave no usable reply."""
        self.failures[kind] += 1

    def __add__(self, other: "Usage") -> "Usage":
        merged: dict[str, Any] = {}
        for counter in fields(self):
            mine, theirs = getattr(self, counter.name), getattr(other, counter.name)
            largest = counter.name == "max_in_flight"
            merged[counter.name] = max(mine, theirs) if largest else mine + theirs
        return Usage(**merged)

    def to_dict(self) -> dict[str, Any]:
        """Give the counters as JSON values; failure classes are sorted."""
        values = {counter.name: getattr(self, counter.name) for counter in fields(self)}
        return {**values, "failures": dict(sorted(self.failures.items()))}
