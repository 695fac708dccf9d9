"""When attempts may start where a coordinator keeps the limits: the worker's side.

A task on the worker's loop exchanges with the coordinator while there is work: which share of the
requests in flight is this worker's, and, where starts are limited or counted, which starts. An
attempt waits for such a start, never for an exchange of its own.

A coordinator that cannot be reached is tried again a few times; nothing starts meanwhile once the
lease is over. Then the worker goes on alone with its part of the limits, divided by the workers
that there were, and keeps looking for the coordinator. A run with bounds stops instead: alone,
nobody can keep them. So does one of which it was never heard whether it has bounds.
"""

import asyncio
import contextlib
import logging
import math
from collections import deque
from collections.abc import Callable, Mapping
from typing import Any

from memorypipe.errors import BudgetError, ModelError, RetryableModelError, StoppedError
from memorypipe.llm.limits.adaptive import MAX_PAUSE_S, OVERLOAD_KINDS
from memorypipe.llm.limits.call_cost import CallCost
from memorypipe.llm.limits.control import INTERRUPT, Ask, Coordinator, Grant, GroupLimits
from memorypipe.llm.limits.counts import LimitCounts
from memorypipe.llm.limits.local_starts import LocalStarts
from memorypipe.llm.limits.peer_clock import PeerClock
from memorypipe.llm.limits.schedule import allowed_lateness_s
from memorypipe.llm.limits.shares import LEASE_S
from memorypipe.llm.limits.slots import Slots

__all__ = ["SharedStarts"]

# The first exchange may find the coordinator still starting up.
_FIRST_TIMEOUT_S = 30.0
_TIMEOUT_S = 2.0
_TRIES = 4
_RETRY_S = 0.5
_LOOK_AGAIN_S = 5.0

# Between exchanges: never less than the first; while starts are missing, while slots are missing,
# and otherwise.
_LEAST_REST_S = 0.005
_START_REST_S = 0.05
_SLOT_REST_S = 0.1
_REST_S = 0.25

# The coordinator takes us for dead after its lease; we stop a little before.
_LEASE_MARGIN_S = 0.1

# Starts that are only counted, not spaced, are kept in stock: so many, and asked for below so many.
_STOCK = 16
_STOCK_LOW = 4

# A worker tells its counters when it falls idle, and so often while it is busy: what it counted
# since the last time is lost with it where it is killed.
_SNAPSHOT_S = 2.0

_SMOOTHING = 0.1

_logger = logging.getLogger(__name__)


class SharedStarts:
    """Lets attempts start as a coordinator grants it.

    Args:
        coordinator: Who is asked.
        limits: Those of the group.
        slots: Of this worker; their number is its share.
        counts: What was let through; told to the coordinator.
        cost: Foretells what attempts cost.
        worker: This worker's name.
        group: Names the limits that are shared.
        snapshot: Gives the worker's counters; None where it has none.
        ended: Set when nothing will start any more.
        may_be_bounded: Whether there may be bounds as long as the coordinator has not said.
    """

    def __init__(  # noqa: PLR0913  # what it says about itself, and what it works on
        self,
        coordinator: Coordinator,
        limits: GroupLimits,
        *,
        slots: Slots,
        counts: LimitCounts,
        cost: CallCost,
        worker: str,
        group: str,
        snapshot: Callable[[], Mapping[str, Any]] | None,
        ended: asyncio.Event,
        may_be_bounded: bool,
    ) -> None:
        self._coordinator = coordinator
        self._limits = limits
        self._slots = slots
        self._counts = counts
        self._cost = cost
        self._name = (worker, group)
        self._snapshot = snapshot
        self._snapshot_due_s = -math.inf
        self._may_be_bounded = may_be_bounded
        self._lateness_s = allowed_lateness_s(limits.max_qps)
        self._clock = PeerClock()
        self._grant = Grant()
        self._lease_until_s = -math.inf
        self._line: deque[asyncio.Future[bool]] = deque()
        self._starts: deque[float] = deque()
        self._handed_over = 0
        self._timer: asyncio.TimerHandle | None = None
        self._prompt_tokens = 0.0
        self._retry_after_s = 0.0
        self._paused_until_s = -math.inf
        self._alone: LocalStarts | None = None
        self._error: Callable[[], StoppedError] | None = None
        self._ended = ended
        self._news = asyncio.Event()
        self._turn = asyncio.Lock()
        self._task: asyncio.Task[None] | None = None

    # --- what attempts do ---

    def announce(self, prompt_tokens: float) -> None:
        """Hear of an attempt that is about to wait for a slot.

        Raises:
            BudgetError: Where a bound of the run is reached.
            StoppedError: Where the run was stopped, or nobody can keep its bounds any more.
        """
        if self._error is not None:
            raise self._error()
        weight = _SMOOTHING if self._prompt_tokens else 1.0
        self._prompt_tokens += weight * (prompt_tokens - self._prompt_tokens)
        if self._task is None:
            self._task = asyncio.get_running_loop().create_task(self._serve())
        elif not self._slots.capacity and not self._slots.waiting:
            self._news.set()

    async def wait(self, prompt_tokens: float) -> float:
        """Wait for a start; the caller starts before it awaits anything else.

        Args:
            prompt_tokens: What the prompt is estimated to cost.

        Returns:
            The tokens that were reserved here, for `done`.

        Raises:
            BudgetError: As `announce`.
            StoppedError: As `announce`.
        """
        loop = asyncio.get_running_loop()
        asked_s = loop.time()
        while True:
            if self._error is not None:
                raise self._error()
            if self._alone is not None:
                return await self._alone.wait(prompt_tokens)
            if not self._line and self._starts_at_once(loop.time()):
                return 0.0
            if await self._queue():
                self._counts.waited_qps_s += loop.time() - asked_s
                return 0.0

    def done(self, reserved: float, spent: int) -> None:
        """Settle the tokens of an attempt; the coordinator hears of them by and by."""
        if self._alone is not None:
            self._alone.done(reserved, spent)

    def replied(self) -> None:
        """Hear of a reply."""
        if self._alone is not None:
            self._alone.replied()

    def failed(self, error: ModelError) -> None:
        """Hear of a failure; only a refusal for overload says something about the pace."""
        if self._alone is not None:
            self._alone.failed(error)
        if isinstance(error, RetryableModelError) and error.kind in OVERLOAD_KINDS:
            self._counts.overloaded += 1
            self._retry_after_s = max(self._retry_after_s, error.retry_after_s or 0.0)

    def pause(self, wait_s: float) -> None:
        """Let nothing start for a time: here at once, elsewhere when the coordinator knows."""
        if self._alone is not None:
            self._alone.pause(wait_s)
        until_s = asyncio.get_running_loop().time() + min(wait_s, MAX_PAUSE_S)
        if until_s > self._paused_until_s:
            self._paused_until_s = until_s
            # Reserved starts of that time go back.
            self._starts = deque(at_s for at_s in self._starts if at_s >= until_s)
            self._news.set()

    async def flush(self) -> None:
        """Exchange now; returns when the coordinator has answered, or cannot be reached."""
        try:
            await self._exchange(with_snapshot=True)
        except Exception:  # what was paid for must not be lost over the accounts
            _logger.debug("The last counts could not be told.", exc_info=True)

    async def close(self) -> None:
        """End the task, and exchange a last time if there was any work."""
        task, self._task = self._task, None
        if task is not None:
            task.cancel()
            await asyncio.wait([task])
        if self._timer is not None:
            self._timer.cancel()
        if self._grant.now_s:
            await self.flush()

    # --- starts ---

    def _starts_at_once(self, now: float) -> bool:
        if now > self._lease_until_s or now < self._paused_until_s:
            return False
        if not self._grant.reserved:
            return True
        taken = self._take(now)
        if len(self._starts) < _STOCK_LOW and self._limits.max_qps is None:
            self._news.set()
        return taken

    def _take(self, now: float) -> bool:
        """Use a reserved start whose time has come; those missed by too much are dropped."""
        while self._starts and self._starts[0] <= now:
            if now - self._starts.popleft() <= self._lateness_s:
                return True
        return False

    async def _queue(self) -> bool:
        """Wait in line; gives whether a start came, else everything has to be looked at anew."""
        turn: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
        self._line.append(turn)
        if len(self._line) == len(self._starts) + 1:
            self._news.set()
        self._set_timer()
        try:
            return await turn
        finally:
            if turn.done() and not turn.cancelled() and turn.exception() is None:
                self._handed_over -= turn.result()
            elif turn in self._line:
                self._line.remove(turn)

    def _set_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._line and self._starts:
            loop = asyncio.get_running_loop()
            self._timer = loop.call_at(self._starts[0], self._hand_out)

    def _hand_out(self) -> None:
        """Give the starts whose time has come to those first in line."""
        self._timer = None
        now = asyncio.get_running_loop().time()
        while self._line and self._take(now):
            turn = self._line.popleft()
            if not turn.done():
                self._handed_over += 1
                turn.set_result(True)
        self._set_timer()

    def _wake_all(self, error: Callable[[], BaseException] | None = None) -> None:
        """Let everyone in line look again, or fail."""
        while self._line:
            turn = self._line.popleft()
            if turn.done():
                continue
            if error is None:
                turn.set_result(False)
            else:
                turn.set_exception(error())

    # --- the exchange ---

    @property
    def _is_idle(self) -> bool:
        return not self._slots.in_use and not self._slots.waiting

    async def _serve(self) -> None:
        """Exchange while there is work, and once more when there is none."""
        failures = 0
        while True:
            self._news.clear()
            was_idle = self._is_idle
            try:
                await self._exchange(with_snapshot=was_idle or self._snapshot_is_due())
            except Exception as error:  # noqa: BLE001  # else those who wait would hang for ever
                may_pass = isinstance(error, ConnectionError | TimeoutError)
                failures = failures + 1 if may_pass else _TRIES
                if failures >= _TRIES:
                    self._go_on_alone(error)
                rest_s = _LOOK_AGAIN_S if failures >= _TRIES else _RETRY_S
            else:
                failures = 0
                rest_s = self._rest_s()
            if was_idle and self._is_idle:
                self._task = None
                return
            await self._rest(rest_s)

    def _snapshot_is_due(self) -> bool:
        return asyncio.get_running_loop().time() >= self._snapshot_due_s

    async def _rest(self, rest_s: float) -> None:
        await asyncio.sleep(_LEAST_REST_S)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(rest_s):
                await self._news.wait()

    def _rest_s(self) -> float:
        if len(self._line) > len(self._starts) or not self._slots.capacity:
            return _START_REST_S
        return _SLOT_REST_S if self._slots.waiting else _REST_S

    async def _exchange(self, *, with_snapshot: bool) -> None:
        async with self._turn:
            clock = asyncio.get_running_loop().time
            ask = self._ask(clock(), with_snapshot=with_snapshot)
            sent_s = clock()
            timeout_s = _TIMEOUT_S if self._grant.now_s else _FIRST_TIMEOUT_S
            async with asyncio.timeout(timeout_s):
                grant = await self._coordinator.exchange(ask)
            if ask.snapshot is not None:
                self._snapshot_due_s = clock() + _SNAPSHOT_S
            if self._retry_after_s == ask.retry_after_s:
                self._retry_after_s = 0.0
            self._clock.note(sent_s, clock(), grant.now_s)
            self._lease_until_s = sent_s + LEASE_S - _LEASE_MARGIN_S
            self._accept(grant)

    def _ask(self, now: float, *, with_snapshot: bool) -> Ask:
        if self._is_idle:
            self._starts.clear()
        while self._starts and now - self._starts[0] > self._lateness_s:
            self._starts.popleft()
        counts, slots = self._counts, self._slots
        worker, group = self._name
        return Ask(
            worker=worker,
            group=group,
            limits=self._limits,
            in_flight=counts.in_flight,
            slots=slots.in_use,
            share=slots.capacity,
            demand=slots.in_use + slots.waiting,
            waiting=self._wanted_starts(),
            held_starts=len(self._starts) + self._handed_over,
            started=counts.started,
            tokens_each=self._cost.tokens(self._prompt_tokens),
            cost_each=self._cost.money(self._prompt_tokens),
            tokens=counts.tokens,
            cost=counts.cost,
            answered=counts.answered,
            overloaded=counts.overloaded,
            calls=counts.calls,
            failed_calls=counts.failed_calls,
            retry_after_s=self._retry_after_s,
            pause_s=max(0.0, self._paused_until_s - now),
            snapshot=self._snapshot() if with_snapshot and self._snapshot else None,
        )

    def _wanted_starts(self) -> int:
        wanted = len(self._line)
        if self._limits.max_qps is None:
            wanted = max(wanted, min(wanted + self._slots.waiting, _STOCK))
        return max(0, wanted - len(self._starts))

    def _accept(self, grant: Grant) -> None:
        self._grant = grant
        self._alone = None
        ours_s = self._clock.ours_s(grant.now_s)
        self._starts.extend(ours_s + in_s for in_s in grant.starts_in_s)
        self._slots.resize(grant.concurrency)
        if grant.bound == INTERRUPT:
            self._end(lambda: StoppedError(grant.reason or ""))
        elif grant.bound is not None:
            self._end(lambda: BudgetError(grant.reason or "", bound=grant.bound or ""))
        elif not grant.reserved and asyncio.get_running_loop().time() >= self._paused_until_s:
            self._wake_all()
        else:
            self._hand_out()

    def _go_on_alone(self, error: Exception) -> None:
        """Keep a part of the limits without a coordinator, or stop where there are bounds."""
        was_reached = self._grant.now_s > 0
        if self._grant.bounded or (self._may_be_bounded and not was_reached):
            if self._error is None:
                reason = _lost_reason(error, was_reached=was_reached)
                self._end(lambda: StoppedError(reason))
            return
        if self._alone is None:
            _logger.warning(
                "The coordinator of the shared limits cannot be reached (%s); until it is, this "
                "worker keeps its part of them alone, as one of %d.",
                type(error).__name__,
                self._grant.workers,
            )
            limits, workers = self._limits, self._grant.workers
            self._starts.clear()
            self._slots.resize(max(1, limits.max_concurrency // workers))
            tokens = limits.max_tokens_per_minute
            self._alone = LocalStarts(
                None if limits.max_qps is None else limits.max_qps / workers,
                None if tokens is None else max(1, tokens // workers),
                slots=self._slots,
                counts=self._counts,
                cost=self._cost,
            )
            self._wake_all()

    def _end(self, error: Callable[[], StoppedError]) -> None:
        self._error = error
        self._ended.set()
        self._slots.fail_waiting(error)
        self._wake_all(error)


def _lost_reason(error: Exception, *, was_reached: bool) -> str:
    why = (
        "without it the bounds of the run cannot be kept"
        if was_reached
        else "whether the run has bounds is not known without it"
    )
    return (
        f"The coordinator of the run cannot be reached ({type(error).__name__}), and {why}: "
        f"nothing more is sent. Start the run again; what it has done is kept."
    )
