"""How long a run takes under its limits, and which of them binds. Pure."""

from dataclasses import dataclass

__all__ = ["Limits", "Load", "Pace", "phase_time"]


@dataclass(frozen=True, kw_only=True)
class Limits:
    """The limits of a whole run, over all workers.

    Attributes:
        concurrency: Requests in flight.
        max_qps: Starts per second; None for no limit.
        max_tokens_per_minute: Prompt and completion tokens per minute; None for no limit.
        workers: Worker processes.
    """

    concurrency: int
    max_qps: float | None = None
    max_tokens_per_minute: int | None = None
    workers: int = 1


@dataclass(frozen=True, kw_only=True)
class Load:
    """The calls of one stage.

    Attributes:
        calls: Calls to be paid.
        tokens: Their prompt and completion tokens.
        latency_s: Seconds of one call at the endpoint.
        cpu_s: Seconds that a worker works for one call.
        longest_chain: Calls that wait for each other, one after the other.
        chains: How many such chains there are; 0 where no call waits for another.
    """

    calls: float
    tokens: float
    latency_s: float
    cpu_s: float
    longest_chain: float = 1.0
    chains: float = 0.0


@dataclass(frozen=True, kw_only=True)
class Pace:
    """How long a stage takes.

    Attributes:
        wall_s: Seconds.
        limit: What it waits for: ``"max_concurrency"``, ``"max_qps"``,
            ``"max_tokens_per_minute"``, ``"longest_scope"``, ``"workers"``, or ``"nothing"``.
    """

    wall_s: float
    limit: str


def phase_time(limits: Limits, *loads: Load) -> Pace:
    """Say how long stages take that are worked on together: as long as the limit that binds makes.

    Args:
        limits: Of the run.
        loads: What there is to do. A chain of the last one with calls begins when a call of each
            of those before it is answered.

    Example:
        >>> load = Load(calls=600, tokens=900_000, latency_s=2.0, cpu_s=0.01)
        >>> phase_time(Limits(concurrency=64, max_qps=5.0), load)
        Pace(wall_s=122.0, limit='max_qps')
    """
    asked = [load for load in loads if load.calls > 0]
    if not asked:
        return Pace(wall_s=0.0, limit="nothing")
    *before, last = asked
    side_by_side = min(limits.concurrency, last.chains or last.calls)
    # Chains in one worker wait for each other's work where there is more of it than of waiting.
    step_s = max(last.latency_s + last.cpu_s, last.cpu_s * side_by_side / limits.workers)
    chain_s = max(last.longest_chain - 1.0, 0.0) * step_s
    begins_s = sum(load.latency_s + load.cpu_s for load in before)
    calls = sum(load.calls for load in asked)
    bounds = {
        "max_concurrency": sum(load.calls * load.latency_s for load in asked) / limits.concurrency,
        "workers": sum(load.calls * load.cpu_s for load in asked) / limits.workers,
        "longest_scope": begins_s + chain_s if chain_s else 0.0,
    }
    if limits.max_qps is not None:
        bounds["max_qps"] = calls / limits.max_qps
    if limits.max_tokens_per_minute is not None:
        tokens = sum(load.tokens for load in asked)
        bounds["max_tokens_per_minute"] = 60.0 * tokens / limits.max_tokens_per_minute
    limit = max(bounds, key=lambda name: bounds[name])
    return Pace(wall_s=round(bounds[limit] + last.latency_s, 6), limit=limit)
