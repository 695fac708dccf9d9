"""From a request to a reply: the journal first, then the endpoint, within all limits.

Whatever can be paid for once is paid for once: what the journal knows is not sent, equal requests
on their way are sent once, and what the endpoint has rejected for good is not sent again.
"""

import asyncio
import contextlib
import random
import time
from collections.abc import Callable, Coroutine
from copy import copy
from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypeVar

from memorypipe.errors import (
    EndpointError,
    JournalMissError,
    ModelError,
    RejectedRequestError,
    StoppedError,
)
from memorypipe.llm.journal.keys import journal_key
from memorypipe.llm.journal.types import Journal
from memorypipe.llm.limits.limits import Limits
from memorypipe.llm.retry import EndpointHealth, is_retryable, next_wait_s
from memorypipe.llm.spec import ModelSpec
from memorypipe.llm.stage import COMPLETE_STATUSES, USABLE_STATUSES, Reading
from memorypipe.llm.tally import Tally
from memorypipe.llm.tokens import estimate_request_tokens
from memorypipe.llm.types import Model, Reply, Request

if TYPE_CHECKING:
    from memorypipe.llm.owner import Owner

__all__ = ["Caller"]

ValueT = TypeVar("ValueT")
Read = Callable[[Reply], Reading[ValueT]]
Correct = Callable[[Request, Reply, Reading[Any]], Request]

# Rejections that are remembered; so many different ones are a sign of something else.
_KNOWN_REJECTIONS = 10_000


class Caller:
    """Gets replies; belongs to one event loop.

    Args:
        spec: What to call, and how.
        model: The live model.
        limits: Of its calls.
        journal: Keeps the replies; None: nothing is kept, and equal requests are each sent.
        rng: Dice of the retry jitter.
    """

    def __init__(
        self,
        spec: ModelSpec,
        *,
        model: Model,
        limits: Limits,
        journal: Journal | None,
        rng: random.Random,
    ) -> None:
        self._spec = spec
        self._model = model
        self._limits = limits
        self._journal = journal
        self._rng = rng
        self._health = EndpointHealth()
        self._schema_works = True
        self._under_way: dict[str, _UnderWay] = {}
        self._rejected: dict[str, RejectedRequestError] = {}
        self._stop_signal = asyncio.Event()
        self._key_reads = 0
        self._key_turn = asyncio.Lock()
        self.stopped: EndpointError | None = None
        self.owner: Owner | None = None

    def reset(self) -> None:
        """Forget what was given up, so that a new job may try it again."""
        self.stopped = None
        self._stop_signal.clear()
        self._health = EndpointHealth()
        self._rejected.clear()

    async def close(self) -> None:
        """Call off what is under way."""
        tasks = [under_way.task for under_way in self._under_way.values()]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def ask(  # noqa: PLR0913  # what to ask, and what may become of the reply
        self,
        request: Request,
        read: Read[ValueT],
        tally: Tally,
        *,
        correct: Correct,
        may_split: Callable[[], bool],
        scope_key: str | None = None,
    ) -> tuple[Reply, Reading[ValueT]]:
        """Get a reply and its reading.

        Args:
            request: What to send; the parameters of the spec win over its own.
            read: Reads a reply; whether it can be used decides if the journal may serve it again.
            tally: The budget that it is paid from.
            correct: Gives the request that follows a reply that cannot be used. Such a reply is
                served again where the journal knows what came of its correction.
            may_split: Tells whether the task can still be cut in two. Where it cannot, a reply
                that was cut is asked for again, or its task would stay undone for ever.
            scope_key: Whose data the reply holds, for the journal.

        Raises:
            ModelError: Where no reply came.
        """
        request = self._complete(request)
        if self._journal is None:
            return await self._call(request, read, tally)
        key = self._key(request)
        known = await self._journal.get(key, unusable=True)
        if known is not None:
            reading = read(known)
            corrections = tally.attempts_left - 1
            if self._may_serve(reading, may_split) or await self._is_corrected(
                request, known, read=read, correct=correct, corrections=corrections
            ):
                tally.counts.hit()
                # A later run goes on where the attempts of the one before ended; one that only
                # repeats it ends there too.
                tally.hit(known, takes_attempt=self._spec.journal_only)
                return known, reading
        return await self._ask_once(key, request, read, tally, scope_key)

    def _complete(self, request: Request) -> Request:
        params = self._spec.params
        return replace(request, params={**request.params, **params}) if params else request

    def _key(self, request: Request) -> str:
        spec = self._spec
        return journal_key(
            spec.endpoint, spec.model, request.params, request.messages, spec.repeat_key
        )

    def _may_serve(self, reading: Reading[Any], may_split: Callable[[], bool]) -> bool:
        if self._spec.journal_only or reading.status in COMPLETE_STATUSES:
            return True
        return reading.status == "truncated" and may_split()

    async def _is_corrected(
        self,
        request: Request,
        reply: Reply,
        *,
        read: Read[Any],
        correct: Correct,
        corrections: int,
    ) -> bool:
        """Whether the journal knows a usable end of what followed an unusable reply."""
        for _ in range(corrections):
            request = self._complete(correct(request, reply, read(reply)))
            known = None
            if self._journal is not None:
                known = await self._journal.get(self._key(request), unusable=True)
            if known is None:
                return False
            if read(known).status in USABLE_STATUSES:
                return True
            reply = known
        return False

    async def _ask_once(
        self,
        key: str,
        request: Request,
        read: Read[ValueT],
        tally: Tally,
        scope_key: str | None,
    ) -> tuple[Reply, Reading[ValueT]]:
        """Ask the endpoint, or wait for the reply to an equal request on its way there."""
        under_way = self._under_way.get(key)
        if under_way is not None:
            reply, _ = await under_way.wait()
            tally.counts.hit()
            tally.hit(reply, takes_attempt=True)
            return reply, read(reply)
        tally.counts.miss()
        if self._spec.journal_only:
            raise JournalMissError(
                f"The journal {self._spec.journal!r} has no reply to this request, and "
                f"journal_only asks nobody else. Run once without journal_only, with the same "
                f"endpoint name, model, parameters and prompts."
            )
        if key in self._rejected:
            raise copy(self._rejected[key]) from None
        work = self._ask_and_keep(key, request, read, tally, scope_key)
        under_way = _UnderWay(work, lambda mine: self._forget(key, mine))
        self._under_way[key] = under_way
        reply, reading = await under_way.wait()
        return reply, reading

    def _forget(self, key: str, under_way: "_UnderWay") -> None:
        if self._under_way.get(key) is under_way:
            del self._under_way[key]

    async def _ask_and_keep(
        self,
        key: str,
        request: Request,
        read: Read[ValueT],
        tally: Tally,
        scope_key: str | None,
    ) -> tuple[Reply, Reading[ValueT]]:
        try:
            reply, reading = await self._call(request, read, tally)
        except RejectedRequestError as error:
            if len(self._rejected) < _KNOWN_REJECTIONS:
                self._rejected[key] = error
            raise
        if self._journal is not None:
            # Beside a later reply that is whole, one that was cut must not be found.
            usable = reading.status in COMPLETE_STATUSES
            await self._journal.put(key, reply, usable=usable, scope_key=scope_key)
        return reply, reading

    async def _call(
        self, request: Request, read: Read[ValueT], tally: Tally
    ) -> tuple[Reply, Reading[ValueT]]:
        """Get a reply and its reading from the endpoint, and tell whether it can be used."""
        try:
            reply = await self._attempts(request, tally)
        except StoppedError:
            raise
        except ModelError:
            self._limits.call_ended(failed=True)
            raise
        reading = read(reply)
        self._limits.call_ended(failed=reading.status not in USABLE_STATUSES)
        return reply, reading

    async def _attempts(self, request: Request, tally: Tally) -> Reply:
        """Send a request until a reply comes or the attempts are used up."""
        attempt = 0
        while True:
            attempt += 1
            tally.take()
            key_reads = self._key_reads
            asked_s = time.monotonic()
            try:
                reply = await self._send(request, tally, again=attempt > 1)
            except ModelError as error:
                self._note_failure(error, tally)
                if isinstance(error, EndpointError):
                    await self._read_key_again(key_reads)
                if not self._is_worth_another(error) or not tally.attempts_left:
                    raise
                wait_s = next_wait_s(
                    error,
                    attempt,
                    rng=self._rng,
                    strain=self._health.strain,
                    taken_s=time.monotonic() - asked_s,
                )
                await self._pause(wait_s)
                continue
            self._health.success(time.monotonic())
            tally.paid(reply)
            return reply

    def _note_failure(self, error: ModelError, tally: Tally) -> None:
        """Count a failure, and give the endpoint up where it is final for the job."""
        tally.fail(getattr(error, "kind", type(error).__name__))
        if isinstance(error, StoppedError):
            tally.give_back()
        gave_up = self._health.failure(error, time.monotonic()) == "stop"
        if gave_up and isinstance(error, EndpointError) and self.stopped is None:
            self.stopped = error
            self._stop_signal.set()

    async def _read_key_again(self, known_reads: int) -> None:
        """Read the key again, once for all requests that failed with the one before."""
        async with self._key_turn:
            if self._key_reads == known_reads and self.stopped is None:
                self._key_reads += 1
                # A source that fails for a moment costs no row its attempts: the old key is kept.
                with contextlib.suppress(EndpointError):
                    await self._model.refresh_key()

    def _is_worth_another(self, error: ModelError) -> bool:
        if self.stopped is not None:
            return False
        return is_retryable(error) or isinstance(error, EndpointError)

    async def _pause(self, wait_s: float) -> None:
        """Wait between attempts, but not beyond a stop or the end of what may be sent."""
        ends = [
            asyncio.ensure_future(event.wait()) for event in (self._stop_signal, self._limits.ended)
        ]
        try:
            await asyncio.wait(ends, timeout=wait_s, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for end in ends:
                end.cancel()

    async def _send(self, request: Request, tally: Tally, *, again: bool) -> Reply:
        """Send once; a schema that the server does not know is left out from then on."""
        has_own_schema = (
            "response_format" in request.params and "response_format" not in self._spec.params
        )
        try:
            return await self._send_as_is(request, tally, may_be_plain=has_own_schema, again=again)
        except RejectedRequestError as error:
            if not (has_own_schema and error.rejects_schema):
                raise
        self._schema_works = False
        return await self._send_as_is(request, tally, may_be_plain=True, again=True)

    async def _send_as_is(
        self, request: Request, tally: Tally, *, may_be_plain: bool, again: bool
    ) -> Reply:
        tokens = estimate_request_tokens(request.messages)
        async with self._limits.attempt(tokens, first=again or tally.goes_first) as attempt:
            if may_be_plain and not self._schema_works:
                # Known only now that its turn has come.
                request = _plain(request)
            if self.stopped is not None:
                raise StoppedError("The endpoint was given up; this request was not sent.")
            if self.owner is not None and self.owner.is_gone():
                raise StoppedError("The process that wanted this reply has ended; it was not sent.")
            tally.counts.sent()
            started_s = time.monotonic()
            try:
                reply = await self._model.complete(request)
            except ModelError as error:
                kind = getattr(error, "kind", type(error).__name__)
                tally.counts.failed(kind, (time.monotonic() - started_s) * 1e3)
                attempt.failed(error)
                raise
            tally.counts.replied(reply, attempt.replied(reply))
            return reply


def _plain(request: Request) -> Request:
    """Give a request without its schema."""
    params = {k: v for k, v in request.params.items() if k != "response_format"}
    return replace(request, params=params)


class _UnderWay:
    """A request on its way, and how many wait for its reply; without any it is called off.

    Args:
        work: Gets the reply.
        forget: Called with this object when nobody may join any more.
    """

    def __init__(
        self, work: Coroutine[Any, Any, tuple[Reply, Any]], forget: Callable[["_UnderWay"], None]
    ) -> None:
        self.task = asyncio.ensure_future(work)
        self.task.add_done_callback(lambda _: forget(self))
        self._forget = forget
        self._waiting = 0

    async def wait(self) -> tuple[Reply, Any]:
        self._waiting += 1
        try:
            return await asyncio.shield(self.task)
        except ModelError as error:
            # A new one each: what many raise gathers the traceback of all of them.
            raise copy(error) from None
        finally:
            self._waiting -= 1
            if not self._waiting and not self.task.done():
                self._forget(self)
                self.task.cancel()
