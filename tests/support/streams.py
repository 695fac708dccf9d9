"""Event streams in tests: a clock that stands, makers of memories without a model, a reference."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from memorypipe.streams.generation import Generated, Generation
from memorypipe.streams.log import Log
from memorypipe.streams.streams import EventStreams

__all__ = [
    "KEY",
    "SCOPE",
    "START",
    "FakeClock",
    "Recorder",
    "Reference",
    "Window",
    "event",
    "ingest",
    "open_streams",
    "rule",
    "small_log",
    "source",
]

START = datetime(2026, 1, 1, tzinfo=UTC)
SCOPE = {"user_id": "123"}
KEY = (("user_id", "123"),)


class FakeClock:
    """A clock that goes on when it is told to."""

    def __init__(self) -> None:
        self.now = START

    def __call__(self) -> datetime:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += timedelta(seconds=seconds)


@dataclass(frozen=True)
class Window:
    """What one generation had of one stream: message texts."""

    scope: tuple[tuple[str, str], ...]
    stream_id: str
    overlap: tuple[str, ...]
    messages: tuple[str, ...]


@dataclass
class Recorder:
    """Makes no memory, and keeps what it was asked; fails for streams named in `failing`."""

    windows: list[Window] = field(default_factory=list)
    generations: list[Generation] = field(default_factory=list)
    failing: set[str] = field(default_factory=set)
    error: Exception | None = None

    def __call__(self, generation: Generation) -> Mapping[bytes, Generated]:
        self.generations.append(generation)
        if self.error is not None:
            raise self.error
        found: dict[bytes, Generated] = {}
        for batch in generation.batches:
            if batch.stream_id in self.failing:
                found[batch.key] = Generated(error="the model is away")
                continue
            self.windows.append(
                Window(
                    scope=tuple(sorted(batch.scope.items())),
                    stream_id=batch.stream_id,
                    overlap=tuple(each["content"] for each in batch.overlap),
                    messages=tuple(each["content"] for each in batch.messages),
                )
            )
        return found


def event(
    text: str, event_id: str | None = None, role: str = "user", **more: Any
) -> dict[str, Any]:
    """Make an event in dictionary form."""
    named = {} if event_id is None else {"event_id": event_id}
    return {"content": {"role": role, "parts": [{"text": text}]}, **named, **more}


def source(*events: Mapping[str, Any]) -> dict[str, Any]:
    return {"events": list(events)}


def rule(**values: Any) -> dict[str, Any]:
    return {"generation_rule": values}


def ingest(streams: EventStreams, *events: dict[str, Any], **more: Any) -> Any:
    return streams.ingest_events(scope=SCOPE, direct_contents_source=source(*events), **more)


def small_log(path: Path) -> Log:
    """A log that writes a checkpoint every few commits, and removes what that replaces at once."""
    return Log(path, commits=3, events=1_000, kept_s=0.0)


def open_streams(table: Path, clock: FakeClock, recorder: Recorder) -> EventStreams:
    return EventStreams(table, pipeline=recorder, clock=clock, log=small_log)


@dataclass
class _Pending:
    text: str
    said_s: float
    ingested_s: float


@dataclass
class _Stream:
    rule: Mapping[str, int] | None = None
    rule_set_s: float = 0.0
    pending: list[_Pending] = field(default_factory=list)
    processed: list[str] = field(default_factory=list)
    ids: set[str] = field(default_factory=set)
    is_forced: bool = False


@dataclass
class Reference:
    """The triggers, stream by stream and event by event, as they are described."""

    default: Mapping[str, int] | None = None
    default_set_s: float = 0.0
    streams: dict[str, _Stream] = field(default_factory=dict)
    windows: list[tuple[str, tuple[str, ...], tuple[str, ...]]] = field(default_factory=list)

    def ingest(
        self,
        name: str,
        now_s: float,
        events: Sequence[tuple[str, str | None, float | None]],
        rule: Mapping[str, int] | None,
        *,
        force: bool,
    ) -> None:
        stream = self.streams.setdefault(name, _Stream())
        if rule is not None and rule != stream.rule:
            stream.rule, stream.rule_set_s = rule, now_s
        for text, event_id, said_s in events:
            if event_id is not None and event_id in stream.ids:
                continue
            if event_id is not None:
                stream.ids.add(event_id)
            at_s = now_s if said_s is None else said_s
            stream.pending.append(_Pending(text, at_s, now_s))
        if force and stream.pending:
            stream.is_forced = True

    def flush(self, now_s: float) -> None:
        for name, stream in sorted(self.streams.items()):
            if stream.pending and self._is_due(stream, now_s):
                self._flush(name, stream)

    def _is_due(self, stream: _Stream, now_s: float) -> bool:
        rule, set_s = stream.rule, stream.rule_set_s
        if rule is None:
            rule, set_s = self.default, self.default_set_s
        newest_s = max(each.ingested_s for each in stream.pending)
        if stream.is_forced or rule is None or now_s - newest_s >= 24 * 3600:
            return True
        if len(stream.pending) >= rule.get("event_count", 10**9):
            return True
        if "idle" in rule and now_s - newest_s >= rule["idle"]:
            return True
        return "every" in rule and self._has_ticked(stream, rule["every"], set_s, now_s)

    def _has_ticked(self, stream: _Stream, every_s: int, set_s: float, now_s: float) -> bool:
        oldest_s = min(each.ingested_s for each in stream.pending)
        tick_s = set_s + every_s
        while tick_s <= now_s:
            if tick_s > oldest_s:
                return True
            tick_s += every_s
        return False

    def _flush(self, name: str, stream: _Stream) -> None:
        rule = stream.rule if stream.rule is not None else self.default
        wanted = (rule or {}).get("overlap", 0)
        overlap = stream.processed[-wanted:] if wanted else []
        ordered = sorted(stream.pending, key=lambda each: each.said_s)  # stable: ties by arrival
        texts = [each.text for each in ordered]
        self.windows.append((name, tuple(overlap), tuple(texts)))
        stream.processed += texts
        stream.pending, stream.is_forced = [], False
