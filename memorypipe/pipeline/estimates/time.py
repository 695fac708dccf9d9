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


def phase_time(load: Load, limits: Limits) -> Pace:
    """Say how long a stage takes: as long as the limit that binds makes it.

    Args:
        load: What there is to do.
        limits: Of the run.

    Example:
        >>> load = Load(calls=600, tokens=900_000, latency_s=2.0, cpu_s=0.01)
        >>> phase_time(load, Limits(concurrency=64, max_qps=5.0))
        Pace(wall_s=122.0, limit='max_qps')
    """
    if load.calls <= 0:
        return Pace(wall_s=0.0, limit="nothing")
    side_by_side = min(limits.concurrency, load.chains or load.calls)
    # Calls that run side by side in one worker wait for each other's work.
    step_s = load.latency_s + load.cpu_s * max(side_by_side / limits.workers, 1.0)
    bounds = {
        "max_concurrency": load.calls * load.latency_s / limits.concurrency,
        "workers": load.calls * load.cpu_s / limits.workers,
        "longest_scope": max(load.longest_chain - 1.0, 0.0) * step_s,
    }
    if limits.max_qps is not None:
        bounds["max_qps"] = load.calls / limits.max_qps
    if limits.max_tokens_per_minute is not None:
        bounds["max_tokens_per_minute"] = 60.0 * load.tokens / limits.max_tokens_per_minute
    limit = max(bounds, key=lambda name: bounds[name])
    return Pace(wall_s=round(bounds[limit] + load.latency_s, 6), limit=limit)
