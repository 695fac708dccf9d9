"""What the limits of one worker have let through so far."""

from dataclasses import dataclass

__all__ = ["LimitCounts"]


@dataclass(kw_only=True)
class LimitCounts:
    """Counters since a worker's start; waits are added up over attempts.

    Attributes:
        in_flight: Attempts started and not yet done.
        max_in_flight: The most that `in_flight` has been.
        started: Attempts started.
        answered: Replies.
        overloaded: Refusals for overload.
        calls: Calls that came to an end, each with all its attempts.
        failed_calls: Of these, the ones that gave nothing that can be used.
        tokens: Prompt and completion tokens of the replies.
        cost: What they cost; 0 without prices.
        waited_concurrency_s: Seconds waited for a slot.
        waited_tokens_s: Seconds waited for tokens.
        waited_qps_s: Seconds waited for a start: by the pace, or from the coordinator.
        waited_pause_s: Seconds waited because the endpoint takes nothing from anyone.
    """

    in_flight: int = 0
    max_in_flight: int = 0
    started: int = 0
    answered: int = 0
    overloaded: int = 0
    calls: int = 0
    failed_calls: int = 0
    tokens: int = 0
    cost: float = 0.0
    waited_concurrency_s: float = 0.0
    waited_tokens_s: float = 0.0
    waited_qps_s: float = 0.0
    waited_pause_s: float = 0.0
