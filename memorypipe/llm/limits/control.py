"""What a worker and the coordinator of its run tell each other: the seam between them.

Workers that share limits, or a run that has bounds, have a coordinator: one object per run that
all workers ask. How it is reached (a Ray actor) is not known here.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from memorypipe.llm.spec import ModelSpec

__all__ = ["INTERRUPT", "Ask", "Bounds", "Connect", "Coordinator", "Grant", "GroupLimits"]

INTERRUPT = "interrupt"
"""In the place of a bound: somebody stopped the run."""


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

    Everything is a state or a sum since the worker's start, never a difference: an exchange that
    got lost, or came twice, changes nothing.

    Attributes:
        worker: Names the worker process and object; a name that falls silent is taken for dead.
        group: Names the limits that it shares with others.
        limits: Of that group.
        in_flight: Attempts under way.
        slots: Attempts that hold one of the requests in flight, those waiting for a start too.
        share: Requests in flight that the worker believes it may have.
        demand: Requests in flight that it could use.
        waiting: Starts that it could use and does not have.
        held_starts: Starts that it was granted and has not used yet; what was granted and is
            neither held nor started will not be used.
        started: Attempts started.
        tokens_each: What one attempt is expected to cost, in tokens.
        cost_each: The same in the currency of the prices; 0 without prices.
        tokens: Tokens spent.
        cost: Money spent.
        answered: Replies.
        overloaded: Refusals for overload (429, 503, 529).
        calls: Calls that came to an end, each with all its attempts.
        failed_calls: Of these, the ones that gave nothing that can be used.
        retry_after_s: The longest wait that a refusal since the last grant asked for.
        pause_s: How long the endpoint, by its own count, takes nothing from anyone.
        snapshot: The worker's counters since its start, JSON values; None where unchanged.
    """

    worker: str
    group: str
    limits: GroupLimits
    in_flight: int = 0
    slots: int = 0
    share: int = 0
    demand: int = 0
    waiting: int = 0
    held_starts: int = 0
    started: int = 0
    tokens_each: float = 0.0
    cost_each: float = 0.0
    tokens: int = 0
    cost: float = 0.0
    answered: int = 0
    overloaded: int = 0
    calls: int = 0
    failed_calls: int = 0
    retry_after_s: float = 0.0
    pause_s: float = 0.0
    snapshot: Mapping[str, Any] | None = None


@dataclass(frozen=True, kw_only=True)
class Grant:
    """What the coordinator answers.

    Attributes:
        now_s: When, by the coordinator's clock.
        starts_in_s: Reserved starts, in seconds from `now_s`; each may be used once, not earlier.
        concurrency: Requests that the worker may have in flight until the next grant.
        reserved: Whether starts need a reservation at all; else only `concurrency` limits them.
        bounded: Whether the run has bounds, so that nothing may be sent without a coordinator.
        workers: Workers that share the limits now, at least 1.
        bound: Name of the bound that is reached (`Bounds`), or `INTERRUPT`, or ``"failures"``
            where most calls fail; None while there is none.
        reason: What the bound is and how much was used, in words.
    """

    now_s: float = 0.0
    starts_in_s: tuple[float, ...] = ()
    concurrency: int = 0
    reserved: bool = True
    bounded: bool = False
    workers: int = 1
    bound: str | None = None
    reason: str | None = None


class Coordinator(Protocol):
    """The coordinator as a worker sees it."""

    async def exchange(self, ask: Ask) -> Grant:
        """Tell and ask; called often while there is work, and at least twice a second.

        Raises:
            ConnectionError: Where the coordinator cannot be reached.
        """
        ...


Connect = Callable[[ModelSpec], Coordinator | None]
"""Finds the coordinator of a spec; None where the worker is on its own."""
