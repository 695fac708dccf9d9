"""What a worker and the coordinator of its run tell each other: the seam between them.

Workers that share limits, or a run that has bounds, have a coordinator: one object per run that
all workers ask. How it is reached (a Ray actor) is not known here.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from memorypipe.llm.spec import ModelSpec

__all__ = ["Ask", "Bounds", "Connect", "Coordinator", "Grant", "GroupLimits"]


@dataclass(frozen=True, kw_only=True)
class GroupLimits:
    """Limits that several workers keep together.

    Attributes:
        max_qps: Starts per second; None for no limit.
        max_concurrency: Requests in flight.
        max_tokens_per_minute: Prompt and completion tokens per minute; None for no limit.
    """

    max_qps: float | None
    max_concurrency: int
    max_tokens_per_minute: int | None


@dataclass(frozen=True, kw_only=True)
class Bounds:
    """Where a run stops, whatever is left.

    Attributes:
        max_calls: Requests sent; None for no bound.
        max_tokens: Prompt and completion tokens together, those of failed calls too.
        max_cost: In the currency of the prices.
    """

    max_calls: int | None = None
    max_tokens: int | None = None
    max_cost: float | None = None


@dataclass(frozen=True, kw_only=True)
class Ask:
    """What a worker tells and asks for.

    Attributes:
        worker: Names the worker process and object; a name that falls silent is taken for dead.
        group: Names the limits that it shares with others.
        limits: Of that group.
        in_flight: Attempts under way.
        waiting: Attempts that wait for a start.
        tokens_each: What one attempt is expected to cost, in tokens.
        cost_each: The same in the currency of the prices; 0 without prices.
        unused_starts: Starts that were granted and will not be used.
        tokens: Tokens spent since the last time.
        cost: Money spent since the last time.
        answered: Replies since the last time.
        overloaded: Refusals for overload (429, 503, 529) since the last time.
        pause_s: How long the endpoint asked everyone to wait; 0 where it did not.
        snapshot: The worker's counters since its start, JSON values; None where unchanged.
    """

    worker: str
    group: str
    limits: GroupLimits
    in_flight: int = 0
    waiting: int = 0
    tokens_each: float = 0.0
    cost_each: float = 0.0
    unused_starts: int = 0
    tokens: int = 0
    cost: float = 0.0
    answered: int = 0
    overloaded: int = 0
    pause_s: float = 0.0
    snapshot: Mapping[str, Any] | None = None


@dataclass(frozen=True, kw_only=True)
class Grant:
    """What the coordinator answers.

    Attributes:
        starts_in_s: Reserved starts, in seconds from now; each may be used once, not earlier.
        concurrency: Requests that the worker may have in flight until the next grant.
        bound: Name of the bound that is reached (`Bounds`), None while there is none.
        reason: What the bound is and how much was used, in words.
    """

    starts_in_s: tuple[float, ...] = field(default=())
    concurrency: int = 0
    bound: str | None = None
    reason: str | None = None


class Coordinator(Protocol):
    """The coordinator as a worker sees it."""

    async def exchange(self, ask: Ask) -> Grant:
        """Tell and ask; called often while there is work, and at least twice a second."""
        ...


Connect = Callable[[ModelSpec], Coordinator | None]
"""Finds the coordinator of a spec; None where the worker is on its own."""
