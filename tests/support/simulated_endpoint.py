"""An endpoint and its callers on a virtual clock: what the limits make of refusals."""

import asyncio
import random
from collections.abc import Callable
from dataclasses import dataclass, field

from memorypipe.errors import RetryableModelError
from memorypipe.llm.limits.limits import Limits
from memorypipe.llm.retry import EndpointHealth, next_wait_s
from memorypipe.llm.types import Reply

__all__ = ["SimulatedEndpoint", "call_all", "keep_calling"]

_REFUSAL_S = 0.005


@dataclass(kw_only=True)
class SimulatedEndpoint:
    """Answers after a latency, or refuses at once.

    Attributes:
        refuses: Whether it refuses a call, asked with itself.
        answered_at_s: When each reply was given.
        refused_at_s: When each refusal was.
        in_flight: Calls that it works on.
    """

    refuses: Callable[["SimulatedEndpoint"], bool]
    latency_s: float = 0.2
    retry_after_s: float | None = None
    refusal_s: float = _REFUSAL_S
    rng: random.Random = field(default_factory=lambda: random.Random(7))  # noqa: S311  # a test's dice
    answered_at_s: list[float] = field(default_factory=list)
    refused_at_s: list[float] = field(default_factory=list)
    in_flight: int = 0
    health: EndpointHealth = field(default_factory=EndpointHealth)

    async def call(self) -> Reply:
        clock = asyncio.get_running_loop().time
        if self.refuses(self):
            await asyncio.sleep(self.refusal_s)
            self.refused_at_s.append(clock())
            raise RetryableModelError("busy", "http_429", self.retry_after_s)
        self.in_flight += 1
        await asyncio.sleep(self.latency_s * self.rng.uniform(0.7, 1.3))
        self.in_flight -= 1
        self.answered_at_s.append(clock())
        return Reply(content="", prompt_tokens=100, completion_tokens=50)


async def _one(limits: Limits, endpoint: SimulatedEndpoint) -> None:
    clock = asyncio.get_running_loop().time
    attempt_number = 0
    while True:
        attempt_number += 1
        asked_s = clock()
        async with limits.attempt(100, first=attempt_number > 1) as attempt:
            try:
                attempt.replied(await endpoint.call())
            except RetryableModelError as error:
                attempt.failed(error)
                endpoint.health.failure(error, clock())
                failure = error
            else:
                endpoint.health.success(clock())
                return
        wait_s = next_wait_s(
            failure,
            attempt_number,
            rng=endpoint.rng,
            strain=endpoint.health.strain,
            taken_s=clock() - asked_s,
        )
        await asyncio.sleep(wait_s)


async def call_all(limits: Limits, endpoint: SimulatedEndpoint, *, rows: int, lanes: int) -> float:
    """Answer so many rows, so many at a time, each tried until it is; gives the seconds taken."""
    began_s = asyncio.get_running_loop().time()
    left = iter(range(rows))

    async def lane() -> None:
        for _ in left:
            await _one(limits, endpoint)

    await asyncio.gather(*(lane() for _ in range(lanes)))
    return asyncio.get_running_loop().time() - began_s


async def keep_calling(
    limits: Limits, endpoint: SimulatedEndpoint, *, seconds: float, lanes: int
) -> None:
    """Answer row after row for a time."""

    async def lane() -> None:
        while True:
            await _one(limits, endpoint)

    tasks = [asyncio.ensure_future(lane()) for _ in range(lanes)]
    await asyncio.sleep(seconds)
    for task in tasks:
        task.cancel()
    await asyncio.wait(tasks)
