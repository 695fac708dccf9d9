"""The flush: claim what is due, make memories of it, and move the streams on.

A claim is a commit of the log: it seals what is due, and no other flush takes it. Its id is made
of the windows, and names the run. Whoever finds a claim whose owner is gone takes it over and
runs it again under that id: memories are committed once, then the streams move on.
"""

import threading
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import AbstractContextManager
from dataclasses import asdict, dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

import orjson

from memorypipe.errors import InvalidArgumentError
from memorypipe.streams.generation import (
    Generate,
    Generated,
    Generation,
    generation_id,
    make_batch,
)
from memorypipe.streams.ids import operation_name
from memorypipe.streams.leases import Leases
from memorypipe.streams.log import Log
from memorypipe.streams.state import StreamState
from memorypipe.streams.view import Record, View

__all__ = ["FlushReport", "FlushedStream", "Flushing", "to_us"]

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_TICK = timedelta(microseconds=1)
_MAX_ERROR_CHARS = 500


def to_us(moment: datetime) -> int:
    """Give a time as microseconds since 1970."""
    return (moment - _EPOCH) // _TICK


@dataclass(frozen=True, kw_only=True)
class FlushedStream:
    """One stream that was due.

    Attributes:
        scope: Its scope.
        stream_id: Its name in there.
        reason: Why it was due: ``"force_flush"``, ``"retry"`` (an earlier try failed),
            ``"no_rule"``, ``"event_count"``, ``"idle_duration"``, ``"fixed_interval"``,
            ``"24_hours"``, or ``"taken_over"`` (the process that began was killed).
        events: How many events.
        operation: Name of its operation.
        run_id: The run.
        error: Why its events stay pending; None where memories were made of them.
        created: Memories made.
        updated: Memories updated.
        deleted: Memories deleted.
    """

    scope: Mapping[str, str]
    stream_id: str
    reason: str
    events: int
    operation: str
    run_id: str
    error: str | None = None
    created: int = 0
    updated: int = 0
    deleted: int = 0


@dataclass(frozen=True, kw_only=True)
class FlushReport:
    """What a flush found and did.

    Attributes:
        evaluated: Streams looked at.
        streams: Those that were due; one twice where it was taken over, and what came to it
            meanwhile was due, too.
        run_ids: The runs: none where nothing was due; a second one for streams that keep no
            revisions, and one for each that was taken over.
    """

    evaluated: int
    streams: tuple[FlushedStream, ...] = ()
    run_ids: tuple[str, ...] = ()

    @property
    def failed(self) -> int:
        """How many streams failed."""
        return sum(each.error is not None for each in self.streams)

    def to_dict(self) -> dict[str, Any]:
        """Give the report as JSON values."""
        return {**asdict(self), "failed": self.failed}


class Flushing:
    """Runs generations, one at a time in this process.

    Args:
        log: Gives the log for as long as a context lasts.
        leases: Tells others that this process is at work.
        generate: Makes the memories; None where this process makes none.
    """

    def __init__(
        self,
        log: Callable[[], AbstractContextManager[Log]],
        leases: Leases,
        generate: Generate | None,
    ) -> None:
        self._log = log
        self._leases = leases
        self._generate = generate
        self._turn = threading.Lock()

    @property
    def can_generate(self) -> bool:
        """Whether this process makes memories."""
        return self._generate is not None

    def flush(self, now_us: int) -> FlushReport:
        """Run everything that is due."""
        return self._flush(now_us, None)

    def run_one(self, key: bytes, number: int, now_us: int) -> bool:
        """Run the generation of one operation, where it is due; False where there is none to run.

        Args:
            key: Its stream.
            number: Its number there.
            now_us: The time.
        """
        with self._turn:
            with self._log() as log:
                view = log.view()
                state = view.state(key)
                if state is None or view.operation(key, number) is not None:
                    return True
                is_sealed = state.sealed is not None and state.sealed.operation == number
                if is_sealed and self._is_held(view, state):
                    return False
                if not is_sealed and key not in view.due(now_us):
                    return False
            return bool(self._run(now_us, {key}).streams)

    def _is_held(self, view: View, state: StreamState) -> bool:
        claim = view.claims.get(state.sealed.claim) if state.sealed else None
        return claim is not None and self._leases.is_held(claim["owner"])

    def _flush(self, now_us: int, keys: Collection[bytes] | None) -> FlushReport:
        if self._generate is None:
            raise InvalidArgumentError(
                "pipeline is None: this process only ingests; give EventStreams a pipeline to "
                "flush."
            )
        with self._turn:
            return self._run(now_us, keys)

    def _run(self, now_us: int, keys: Collection[bytes] | None) -> FlushReport:
        """Run what others were at, then what is due: events that came to the same streams too."""
        with self._leases.hold() as owner:
            claims = self._take_over(now_us, owner, keys)
            streams = self._work(claims, now_us, owner["token"])
            failed = {key for key, stream in streams if stream.error is not None}
            due = self._claim(now_us, owner, keys, without=failed)
            streams += self._work(due, now_us, owner["token"])
        with self._log() as log:
            evaluated = log.view().count()
        return FlushReport(
            evaluated=evaluated,
            streams=tuple(stream for _, stream in streams),
            run_ids=(*claims, *due),
        )

    def _take_over(
        self, now_us: int, owner: Mapping[str, Any], keys: Collection[bytes] | None
    ) -> dict[str, dict[str, Any]]:
        """Take over the claims whose owners are gone."""
        taken: dict[str, dict[str, Any]] = {}

        def build(view: View) -> Record | None:
            taken.clear()
            for name, claim in view.claims.items():
                is_wanted = keys is None or any(key.hex() in claim["streams"] for key in keys)
                if is_wanted and not self._leases.is_held(claim["owner"]):
                    reasons = dict.fromkeys(claim["streams"], "taken_over")
                    taken[name] = {**claim, "owner": owner, "streams": reasons}
            return Record(at_us=now_us, claims=taken) if taken else None

        with self._log() as log:
            log.commit(build)
        return taken

    def _claim(
        self,
        now_us: int,
        owner: Mapping[str, Any],
        keys: Collection[bytes] | None,
        *,
        without: Collection[bytes],
    ) -> dict[str, dict[str, Any]]:
        """Seal what is due, so that nobody else takes it; some streams are left for later."""
        claims: dict[str, dict[str, Any]] = {}

        def build(view: View) -> Record | None:
            claims.clear()
            reasons = view.due(now_us)
            due = {
                key: state
                for key in (reasons if keys is None else reasons.keys() & set(keys))
                if key not in without
                and (state := view.state(key)) is not None
                and state.sealed is None
            }
            sealed: dict[bytes, StreamState] = {}
            for has_revisions in (True, False):
                part = {
                    key: state
                    for key, state in sorted(due.items())
                    if bool(state.config.get("no_revisions")) is not has_revisions
                }
                if not part:
                    continue
                name = generation_id(part)
                claims[name] = {
                    "owner": owner,
                    "streams": {key.hex(): reasons[key] for key in part},
                    "has_revisions": has_revisions,
                }
                for key, state in part.items():
                    sealed[key] = state.seal(name, view.last_event, view.default_rule)
            if not claims:
                return None
            return Record(at_us=now_us, states=sealed, claims=claims)

        with self._log() as log:
            log.commit(build)
        return claims

    def _work(
        self, claims: Mapping[str, Mapping[str, Any]], now_us: int, token: str
    ) -> list[tuple[bytes, FlushedStream]]:
        """Make the memories of claims, one after the other, and move their streams on."""
        return [
            worked
            for name, claim in claims.items()
            for worked in self._work_on(name, claim, now_us, token)
        ]

    def _work_on(
        self, name: str, claim: Mapping[str, Any], now_us: int, token: str
    ) -> Iterator[tuple[bytes, FlushedStream]]:
        with self._log() as log:
            view = log.view()
            states = {
                key: state
                for key in map(bytes.fromhex, claim["streams"])
                if (state := view.state(key)) is not None and state.sealed is not None
            }
            batches = [make_batch(view, key, state) for key, state in states.items()]
        generation = Generation(run_id=name, batches=batches, has_revisions=claim["has_revisions"])
        made = self._made(generation)
        with self._log() as log:
            log.commit(lambda view: _finished(view, name, made, now_us, token))
        for key, state in states.items():
            yield key, _report(key, state, claim["streams"][key.hex()], name, made[key])

    def _made(self, generation: Generation) -> dict[bytes, Generated]:
        """Generate; what goes wrong there is the end of these operations, not of the flush."""
        if self._generate is None:
            raise AssertionError(generation.run_id)
        keys = [batch.key for batch in generation.batches]
        # Nothing to read in it: all that was said is blank.
        told = [batch for batch in generation.batches if batch.messages]
        if not told:
            return {key: Generated() for key in keys}
        try:
            found = self._generate(
                Generation(
                    run_id=generation.run_id,
                    batches=told,
                    has_revisions=generation.has_revisions,
                )
            )
        except Exception as error:  # noqa: BLE001  # told by each operation, which is what callers ask
            why = f"{type(error).__name__}: {error}"[:_MAX_ERROR_CHARS]
            return {key: Generated(error=why) for key in keys}
        return {key: found.get(key, Generated()) for key in keys}


def _finished(
    view: View, name: str, made: Mapping[bytes, Generated], now_us: int, token: str
) -> Record | None:
    """Make the commit that ends a claim; None where another process has taken it over."""
    claim = view.claims.get(name)
    if claim is None or claim["owner"]["token"] != token:
        return None
    states: dict[bytes, StreamState] = {}
    operations: dict[tuple[bytes, int], dict[str, Any]] = {}
    for key, generated in made.items():
        state = view.state(key)
        if state is None or state.sealed is None or state.sealed.claim != name:
            continue
        is_done = generated.error is None
        states[key] = state.processed() if is_done else state.reopened()
        operations[key, state.sealed.operation] = {
            "status": "done" if is_done else "failed",
            "error": generated.error,
            "run_id": name,
            "memories": [memory.to_dict() for memory in generated.memories],
        }
    return Record(at_us=now_us, states=states, operations=operations, claims={name: None})


def _report(
    key: bytes, state: StreamState, reason: str, run_id: str, made: Generated
) -> FlushedStream:
    sealed = state.sealed
    if sealed is None:
        raise AssertionError(key)
    actions = [memory.action for memory in made.memories]
    return FlushedStream(
        scope=dict(orjson.loads(state.scope_key)),
        stream_id=state.stream_id,
        reason=reason,
        events=sealed.pending,
        operation=operation_name(key, sealed.operation),
        run_id=run_id,
        error=made.error,
        created=actions.count("CREATED"),
        updated=actions.count("UPDATED"),
        deleted=actions.count("DELETED"),
    )
