"""Whether the calls of a run get through: when most fail it pauses, tries again, gives up. Pure.

A run whose endpoint is down would leave window after window open, each after all its attempts. So
once over half of the last calls have failed nothing more starts. After a while one request is
sent; its reply lets everything go on, its failure makes the next wait longer. After the last wait
the run stops, to be taken up later.
"""

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass

from memorypipe.llm.limits.control import Ask

__all__ = ["JUDGED_CALLS", "WAITS_S", "RunHealth"]

JUDGED_CALLS = 200
"""Calls that ended last, by which a run is judged. A call is a request with all its attempts."""

WAITS_S = (10.0, 20.0, 40.0, 80.0, 160.0)
"""How long nothing starts, before the first probe and after each that failed."""

# After a pause fewer calls tell that nothing has changed.
_JUDGED_AGAIN = 20

# A probe that was not sent by then, or whose worker has been silent for so long, is given anew.
_UNSENT_S = 2.0
_SILENT_S = 5.0


@dataclass(kw_only=True)
class _Probe:
    """The one request that is on its way in a pause.

    Attributes:
        worker: Who sends it.
        given_s: When it was granted.
        heard_s: When its worker spoke last.
        started: Attempts that the worker had started before.
        ended: Of these, the ones that had ended.
        answered: Of these, the ones with a reply.
    """

    worker: str
    given_s: float
    heard_s: float
    started: int
    ended: int
    answered: int


class RunHealth:
    """Judges a run by the calls that its workers tell of.

    Args:
        judged_calls: As `JUDGED_CALLS`.
        waits_s: As `WAITS_S`.

    Attributes:
        gave_up: Why the run is to stop; None while it is not.
    """

    def __init__(
        self, *, judged_calls: int = JUDGED_CALLS, waits_s: Sequence[float] = WAITS_S
    ) -> None:
        self._judged_calls = judged_calls
        self._needed = judged_calls
        self._waits_s = tuple(waits_s)
        self._recent: deque[tuple[int, int]] = deque()
        self._told: dict[str, tuple[int, int]] = {}
        self._pauses = 0
        self._until_s: float | None = None
        self._probe: _Probe | None = None
        self._why = ""
        self.gave_up: str | None = None

    @property
    def is_paused(self) -> bool:
        """Whether nothing but a probe may start."""
        return self._until_s is not None

    def paused(self, now: float) -> str | None:
        """Say why nothing starts, and for how long; None where the run goes on."""
        if self._until_s is None:
            return None
        if self._probe is not None:
            return f"{self._why} One request is on its way, to see whether that has changed."
        wait_s = max(0.0, self._until_s - now)
        return f"{self._why} Nothing is sent for {wait_s:.0f} s; then one request tries again."

    def hear(self, ask: Ask, now: float) -> None:
        """Hear what a worker tells of its calls."""
        before = self._told.get(ask.worker, (0, 0))
        self._told[ask.worker] = (ask.calls, ask.failed_calls)
        ended, failed = ask.calls - before[0], ask.failed_calls - before[1]
        if self.gave_up is not None:
            return
        if self._until_s is not None:
            self._hear_of_probe(ask, now)
        elif ended > 0:
            self._count(ended, failed, now)

    def probe(self, ask: Ask, now: float) -> bool:
        """Whether this worker may send the one request of a pause now; then it counts as sent."""
        if self._until_s is None or now < self._until_s or self._probe is not None:
            return False
        self._probe = _Probe(
            worker=ask.worker,
            given_s=now,
            heard_s=now,
            started=ask.started,
            ended=ask.started - ask.in_flight,
            answered=ask.answered,
        )
        return True

    def _count(self, ended: int, failed: int, now: float) -> None:
        self._recent.append((ended, failed))
        total = sum(n for n, _ in self._recent)
        while total - self._recent[0][0] >= self._judged_calls:
            total -= self._recent.popleft()[0]
        if total < self._needed:
            return
        bad = sum(n for _, n in self._recent)
        if 2 * bad > total:
            self._why = f"{bad:,} of the last {total:,} calls have failed."
            self._pause(now)
        elif total >= self._judged_calls:
            self._pauses, self._needed = 0, self._judged_calls

    def _pause(self, now: float) -> None:
        self._probe = None
        if self._pauses == len(self._waits_s):
            waited_s = sum(self._waits_s)
            self._until_s = None
            self.gave_up = (
                f"{self._why} It was tried again {self._pauses} times in {waited_s:.0f} s, and it "
                "did not get better. What is left can be taken up later."
            )
            return
        self._until_s = now + self._waits_s[self._pauses]
        self._pauses += 1

    def _hear_of_probe(self, ask: Ask, now: float) -> None:
        probe = self._probe
        if probe is None:
            return
        if probe.worker != ask.worker:
            if now - probe.heard_s > _SILENT_S:
                self._probe = None
            return
        probe.heard_s = now
        if ask.answered > probe.answered:
            self._until_s, self._probe = None, None
            self._recent.clear()
            self._needed = min(_JUDGED_AGAIN, self._judged_calls)
        elif ask.started - ask.in_flight > probe.ended:
            self._pause(now)
        elif ask.started == probe.started and now - probe.given_s > _UNSENT_S:
            self._probe = None
