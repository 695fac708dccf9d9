"""Typed forms of what `EventStreams.ingest_events` takes; dictionaries with these names do as well.

Nothing is checked here: one reader checks both forms, so that both are refused for the same
reasons in the same words.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Any

__all__ = [
    "Content",
    "IngestEventsConfig",
    "IngestionDirectContentsSource",
    "IngestionDirectContentsSourceEvent",
    "MemoryGenerationTriggerConfig",
    "MemoryGenerationTriggerConfigGenerationTriggerRule",
    "MemoryMetadataMergeStrategy",
    "MemoryMetadataValue",
    "Part",
]


class MemoryMetadataMergeStrategy(StrEnum):
    """How metadata meets that of an existing memory."""

    OVERWRITE = "OVERWRITE"
    MERGE = "MERGE"
    REQUIRE_EXACT_MATCH = "REQUIRE_EXACT_MATCH"


@dataclass(frozen=True, kw_only=True)
class Part:
    """A part of what was said.

    Attributes:
        text: The text; None for a part of another kind.
        inline_data: Anything else, with its `mime_type`; only a placeholder of it is kept.
        file_data: Likewise, by reference.
    """

    text: str | None = None
    inline_data: Mapping[str, Any] | None = None
    file_data: Mapping[str, Any] | None = None

    @classmethod
    def from_text(cls, *, text: str) -> "Part":
        """Make a part of a text."""
        return cls(text=text)


@dataclass(frozen=True, kw_only=True)
class Content:
    """What somebody said.

    Attributes:
        role: ``"user"``, ``"model"`` or ``"assistant"``.
        parts: What was said.
    """

    role: str
    parts: Sequence[Part | Mapping[str, Any]]


@dataclass(frozen=True, kw_only=True)
class IngestionDirectContentsSourceEvent:
    """One event.

    Attributes:
        content: What was said.
        event_id: Names it within its stream: it is taken once. None: it is never a duplicate.
        event_time: When it was said: ISO 8601, or a datetime; None: when it is ingested.
    """

    content: Content | Mapping[str, Any]
    event_id: str | None = None
    event_time: str | datetime | None = None


@dataclass(frozen=True, kw_only=True)
class IngestionDirectContentsSource:
    """The events of a request."""

    events: Sequence[IngestionDirectContentsSourceEvent | Mapping[str, Any]]


@dataclass(frozen=True, kw_only=True)
class MemoryGenerationTriggerConfigGenerationTriggerRule:
    """When memories are made of what is pending in a stream.

    Attributes:
        event_count: Once so many new events are there.
        idle_duration: Once no new event has come for so long: ``"300s"``, a multiple of 60.
        fixed_interval: At this pace, likewise; not together with `idle_duration`.
        overlap_event_count: So many of the events already processed open the next window again.
    """

    event_count: int | None = None
    idle_duration: str | None = None
    fixed_interval: str | None = None
    overlap_event_count: int | None = None


@dataclass(frozen=True, kw_only=True)
class MemoryGenerationTriggerConfig:
    """The trigger of a stream."""

    generation_rule: (
        MemoryGenerationTriggerConfigGenerationTriggerRule | Mapping[str, Any] | None
    ) = None


@dataclass(frozen=True, kw_only=True)
class MemoryMetadataValue:
    """A typed value: exactly one of these."""

    string_value: str | None = None
    double_value: float | None = None
    bool_value: bool | None = None
    timestamp_value: str | datetime | None = None


@dataclass(frozen=True, kw_only=True)
class IngestEventsConfig:
    """What holds for one request.

    Attributes:
        force_flush: Make memories of what is pending, whatever the trigger.
        wait_for_completion: Return once that is done.
        revision_labels: For the revisions that are made.
        revision_expire_time: When these revisions may be dropped: ISO 8601, or a datetime.
        revision_ttl: Likewise, so long after they were made: ``"2592000s"``.
        disable_memory_revisions: Keep nothing of what is superseded.
        metadata: For the memories that are made or updated.
        metadata_merge_strategy: How it meets the metadata of existing memories.
    """

    force_flush: bool | None = None
    wait_for_completion: bool | None = None
    revision_labels: Mapping[str, str] | None = None
    revision_expire_time: str | datetime | None = None
    revision_ttl: str | None = None
    disable_memory_revisions: bool | None = None
    metadata: Mapping[str, MemoryMetadataValue | Mapping[str, Any]] | None = None
    metadata_merge_strategy: MemoryMetadataMergeStrategy | str | None = None
