"""`EventStreams`: events in, memories out when a trigger is met."""

import inspect
import os
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from memorypipe import ids
from memorypipe.errors import InvalidArgumentError, InvalidRequestError
from memorypipe.streams.background import AutoFlush
from memorypipe.streams.flush import Flushing, FlushReport, to_us
from memorypipe.streams.generation import Generate
from memorypipe.streams.ids import operation_name, read_operation_name, stream_key
from memorypipe.streams.ingest import Ingestion, ingest
from memorypipe.streams.leases import Leases
from memorypipe.streams.log import Log
from memorypipe.streams.operations import IngestedBatch, Operation
from memorypipe.streams.request import DEFAULT_STREAM, Request, read_request
from memorypipe.streams.rules import Rule
from memorypipe.streams.state import StreamState
from memorypipe.streams.view import Record, View
from memorypipe.table.times import Clock, now_utc, read_clock

if TYPE_CHECKING:  # it imports Ray, which those who only ingest need not wait for
    from memorypipe.pipeline.pipeline import MemoryPipeline

__all__ = ["EventStreams"]

_FOLDER = "streams"
_POLL_S = 0.2


class EventStreams:
    """Takes events in at any time, and makes memories of them when a trigger is met.

    A stream is exactly a scope and a `stream_id`. Events, triggers and operations are stored in
    ``streams/`` beside the table; several processes may ingest and flush at once.

    Args:
        table: The memory table: a local folder.
        pipeline: What makes memories; its table must be this one. None where this process only
            ingests: others flush. A function of a `memorypipe.streams.generation.Generation`
            will do as well.
        clock: Gives the time of ingestion, and that of `flush`; must give aware times.
        auto_flush: Whether a thread flushes every `flush_every_s`, until `close`.
        flush_every_s: Seconds from one such flush to the next.

    Raises:
        InvalidArgumentError: For a place that is no local folder, the pipeline of another table,
            or `auto_flush` without a pipeline.
    """

    def __init__(  # noqa: PLR0913  # one keyword per independent choice
        self,
        table: str | os.PathLike[str],
        *,
        pipeline: "MemoryPipeline | Generate | None" = None,
        clock: Clock = now_utc,
        auto_flush: bool = False,
        flush_every_s: float = 60.0,
        log: Callable[[Path], Log] = Log,
    ) -> None:
        self.table_uri = _local(os.fspath(table))
        self._clock = clock
        path = Path(self.table_uri) / _FOLDER
        self._log = log(path)
        self._lock = threading.RLock()
        generate, self._redact = _generate(pipeline, self.table_uri)
        self._flushing = Flushing(self._locked_log, Leases(path), generate)
        self._auto: AutoFlush | None = None
        if auto_flush:
            if generate is None:
                raise InvalidArgumentError("auto_flush=True needs a pipeline, got pipeline=None.")
            self._auto = AutoFlush(self.flush, every_s=flush_every_s)
            self._auto.start()

    def __repr__(self) -> str:
        return f"EventStreams({self.table_uri!r})"

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """End the thread that flushes; a flush under way comes to its end."""
        if self._auto is not None:
            self._auto.stop()

    def ingest_events(
        self,
        *,
        scope: Mapping[str, Any],
        stream_id: str = DEFAULT_STREAM,
        direct_contents_source: Any = None,
        generation_trigger_config: Any = None,
        config: Any = None,
    ) -> Operation:
        """Take events in; returns once they are on disk.

        All arguments are dictionaries or objects with the same fields, such as those of
        `memorypipe.streams.types`.

        Args:
            scope: One to five pairs.
            stream_id: Names the stream within the scope.
            direct_contents_source: ``{"events": [{"content": {"role", "parts"}, "event_id",
                "event_time"}]}``. An `event_id` is taken once in a stream, its first content
                stands.
            generation_trigger_config: ``{"generation_rule": {…}}`` with `event_count`,
                `idle_duration` or `fixed_interval`, and `overlap_event_count`. None for the rule
                that the stream has, else the table's, else memories are made at once.
            config: Any of `force_flush`, `wait_for_completion`, `revision_labels`,
                `revision_expire_time` or `revision_ttl`, `disable_memory_revisions`, `metadata`
                and `metadata_merge_strategy`.

        Returns:
            The operation that the stream's pending events are part of. Where the request itself
            makes them due, `Operation.wait` makes the memories; else the next `flush` does that
            finds its trigger met.

        Raises:
            InvalidArgumentError: For anything that cannot be; nothing of the request is stored.
            TableError: If it could not be stored; the message says whether that is certain.
        """
        request = read_request(
            scope=scope,
            stream_id=stream_id,
            direct_contents_source=direct_contents_source,
            generation_trigger_config=generation_trigger_config,
            config=config,
        )
        return self._ingest([request]).operations[0]

    def ingest_batch(self, requests: Iterable[Mapping[str, Any]]) -> IngestedBatch:
        """Take many requests in at once, in one commit: all of them, or none.

        Args:
            requests: Mappings with the arguments of `ingest_events`.

        Returns:
            The operation of each, and how many events were new.

        Raises:
            InvalidRequestError: As `ingest_events`, with the number of the request.
            TableError: As `ingest_events`.
        """
        return self._ingest([_numbered(n, each) for n, each in enumerate(requests)])

    def _ingest(self, requests: list[Request]) -> IngestedBatch:
        if self._redact is not None:
            requests = [self._redact(request) for request in requests]
        now_us = self._now_us()
        found: list[Ingestion] = []

        def build(view: View) -> Record | None:
            found[:] = [ingest(view, requests, now_us)]
            return found[0].record

        with self._lock:
            self._log.commit(build)
        made = [Operation(operation_name(key, number), self) for key, number in found[0].operations]
        for request, operation in zip(requests, made, strict=True):
            if request.waits:
                operation.wait()
        events, new = sum(len(each.events) for each in requests), sum(found[0].taken)
        return IngestedBatch(
            operations=tuple(made), events=events, new=new, duplicates=events - new
        )

    def flush(self, now: datetime | None = None) -> FlushReport:
        """Find all streams that are due, and make memories of what is pending in them, in one run.

        Args:
            now: The time; None asks the clock.

        Returns:
            What was due, why, and what came of it. An error of a stream is in there, and its
            events stay pending.

        Raises:
            InvalidArgumentError: For a time without a zone, or where there is no pipeline.
            TableError: If the streams cannot be read or written.
        """
        return self._flushing.flush(self._now_us(now))

    def due(self, now: datetime | None = None) -> dict[str, str]:
        """Give the operations that a flush would run, with the reason; nothing is changed."""
        now_us = self._now_us(now)
        with self._locked_log() as log:
            view = log.view()
            found: dict[str, str] = {}
            for key, reason in view.due(now_us).items():
                state = view.state(key)
                if state is not None and state.sealed is None:
                    found[state.operation_name(key)] = reason
            return found

    def count(self) -> int:
        """Count the streams."""
        with self._locked_log() as log:
            return log.view().count()

    def set_default_trigger(self, generation_trigger_config: Any) -> None:
        """Set the rule of all streams that have none of their own.

        Args:
            generation_trigger_config: As for `ingest_events`; None for no rule, so that memories
                are made at once.

        Raises:
            InvalidArgumentError: For a rule that cannot be.
        """
        rule = Rule.read(generation_trigger_config)
        now_us = self._now_us()

        def build(view: View) -> Record | None:
            if view.default_rule == rule:
                return None
            settings = {
                **view.settings,
                "default_rule": None if rule is None else rule.to_dict(),
                "default_set_us": now_us,
            }
            return Record(at_us=now_us, settings=settings)

        with self._lock:
            self._log.commit(build)

    def get_operation(self, name: str) -> Operation:
        """Give an operation by its name, in any process.

        Raises:
            InvalidArgumentError: If there is none of that name.
        """
        key, number = read_operation_name(name)
        with self._locked_log() as log:
            state = log.view().state(key)
        if state is None or not 1 <= number <= state.operation:
            raise InvalidArgumentError(f"name {name!r} is the name of no operation here.")
        return Operation(name, self)

    def pending(self, scope: Mapping[str, Any], stream_id: str = DEFAULT_STREAM) -> int:
        """Count the events of a stream that no memories were made of yet."""
        key = stream_key(ids.scope_key(scope), stream_id)
        with self._locked_log() as log:
            state = log.view().state(key)
        return 0 if state is None else _waiting(state)

    def ending(self, name: str) -> Mapping[str, Any] | None:
        """Give how an operation ended, for `Operation`; None where it has not."""
        key, number = read_operation_name(name)
        with self._locked_log() as log:
            return log.view().operation(key, number)

    def wait(self, name: str, timeout_s: float | None) -> None:
        """Run or await an operation, for `Operation.wait`."""
        key, number = read_operation_name(name)
        ends_at = None if timeout_s is None else time.monotonic() + timeout_s
        while self.ending(name) is None:
            if self._flushing.can_generate and self._flushing.run_one(key, number, self._now_us()):
                continue
            left_s = _POLL_S if ends_at is None else ends_at - time.monotonic()
            if left_s <= 0:
                return
            time.sleep(min(_POLL_S, left_s))

    @contextmanager
    def _locked_log(self) -> Iterator[Log]:
        with self._lock:
            yield self._log

    def _now_us(self, now: datetime | None = None) -> int:
        return to_us(read_clock(self._clock if now is None else lambda: now))


def _waiting(state: StreamState) -> int:
    return state.pending + (0 if state.sealed is None else state.sealed.pending)


_FIELDS = tuple(inspect.signature(read_request).parameters)


def _numbered(number: int, arguments: Mapping[str, Any]) -> Request:
    try:
        return read_request(**arguments)
    except InvalidArgumentError as error:
        raise InvalidRequestError(number, str(error)) from error
    except TypeError as error:
        reason = (
            f"it must have the field scope, and of others only {', '.join(_FIELDS[1:])}; it has "
            f"{sorted(map(str, arguments))!r}."
        )
        raise InvalidRequestError(number, reason) from error


def _local(table: str) -> str:
    path = table.removeprefix("file://")
    if "://" in path or not path.strip():
        raise InvalidArgumentError(
            f"table must be a local folder, where the streams lie beside it, got {table!r}."
        )
    return str(Path(path).absolute())


def _generate(pipeline: Any, table_uri: str) -> tuple[Generate | None, Any]:
    """Give what makes memories, and what redacts requests."""
    if pipeline is None or not hasattr(pipeline, "table_uri"):
        return pipeline, None
    if pipeline.table_uri != table_uri:
        raise InvalidArgumentError(
            f"pipeline has the table {pipeline.table_uri!r}, the streams have {table_uri!r}; give "
            "both the same."
        )
    from memorypipe.streams.on_pipeline import PipelineGenerate, redacting  # noqa: PLC0415  # imports Ray

    return PipelineGenerate(pipeline), redacting(pipeline)
