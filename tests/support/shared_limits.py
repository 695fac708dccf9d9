"""Several workers and their coordinator on one virtual clock."""

import asyncio
import random
from dataclasses import dataclass, field

from memorypipe.llm.limits.control import Ask, Bounds, Grant
from memorypipe.llm.limits.limits import Limits
from memorypipe.llm.limits.run_control import RunControl
from memorypipe.llm.types import Reply

__all__ = ["Caller", "NearCoordinator"]

# The coordinator's clock has another beginning than that of the workers.
_AHEAD_S = 5_000.0


@dataclass(kw_only=True)
class NearCoordinator:
    """The state machine, asked over a wire that takes its time.

    Attributes:
        is_gone: Whether it can be reached no more.
        error: What asking it raises; None where it answers.
        exchanges: How often it was asked.
    """

    bounds: Bounds = field(default_factory=Bounds)
    delay_s: tuple[float, float] = (0.001, 0.008)
    rng: random.Random = field(default_factory=lambda: random.Random(3))  # noqa: S311  # a test's dice
    is_gone: bool = False
    error: Exception | None = None
    exchanges: int = 0
    control: RunControl | None = None

    async def exchange(self, ask: Ask) -> Grant:
        if self.is_gone:
            raise ConnectionError("gone")
        if self.error is not None:
            raise self.error
        self.exchanges += 1
        await asyncio.sleep(self.rng.uniform(*self.delay_s) / 2)
        now = asyncio.get_running_loop().time() + _AHEAD_S
        if self.control is None:
            self.control = RunControl(self.bounds, now)
        grant = self.control.exchange(ask, now)
        await asyncio.sleep(self.rng.uniform(*self.delay_s) / 2)
        return grant

    def totals(self) -> dict[str, object]:
        assert self.control is not None
        return self.control.totals()


class Caller:
    """A worker that calls as fast as its limits allow, and can be killed."""

    def __init__(  # noqa: PLR0913  # the limits and the calls
        self,
        name: str,
        coordinator: NearCoordinator,
        *,
        max_qps: float | None = None,
        max_concurrency: int = 64,
        max_tokens_per_minute: int | None = None,
        lanes: int = 64,
        latency_s: float = 0.1,
        tokens: int = 100,
        may_be_bounded: bool = True,
    ) -> None:
        self.limits = Limits(
            max_qps,
            max_concurrency,
            max_tokens_per_minute,
            coordinator=coordinator,
            worker=name,
            group="g",
            snapshot=lambda: {"name": name, "started": self.limits.counts.started},
            may_be_bounded=may_be_bounded,
        )
        self.starts: list[float] = []
        self.errors: list[BaseException] = []
        self.spent = 0
        self._lanes = lanes
        self._latency_s = latency_s
        self._tokens = tokens
        self._tasks: list[asyncio.Task[None]] = []

    def start(self, calls: int | None = None) -> None:
        """Begin to call, so often or until told to stop."""
        left = iter(range(calls)) if calls is not None else iter(int, 1)

        async def lane() -> None:
            for _ in left:
                async with self.limits.attempt(self._tokens / 2) as attempt:
                    self.starts.append(asyncio.get_running_loop().time())
                    await asyncio.sleep(self._latency_s)
                    self.spent += self._tokens
                    half = self._tokens // 2
                    attempt.replied(
                        Reply(content="", prompt_tokens=half, completion_tokens=self._tokens - half)
                    )

        self._tasks = [asyncio.ensure_future(lane()) for _ in range(self._lanes)]

    async def done(self) -> None:
        """Wait until all calls are made, or have failed."""
        results = await asyncio.gather(*self._tasks, return_exceptions=True)
        self.errors = [each for each in results if isinstance(each, BaseException)]
        await self.limits.close()

    def kill(self) -> None:
        """Vanish without a word."""
        shared = self.limits._shared
        assert shared is not None
        if shared._task is not None:
            shared._task.cancel()
        for task in self._tasks:
            task.cancel()
        # What is cancelled would ask again: a dead worker does not.
        shared._coordinator = NearCoordinator(is_gone=True)
