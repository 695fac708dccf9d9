"""What every kind of journal is to those who use it, and what can be set."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

from memorypipe.llm.types import Reply

__all__ = ["Compaction", "Inventory", "Journal", "JournalSettings", "JournalStats"]

_MEGABYTE = 1024 * 1024


@dataclass(frozen=True, kw_only=True)
class JournalSettings:
    """How a journal is kept; what the defaults give suits millions of replies.

    Attributes:
        segment_bytes: A segment that has reached this size is finished.
        index_from_bytes: Smaller segments are scanned at the start instead of being indexed.
        memory_bytes: Indexes are held in memory up to this; what is beyond is mapped.
        look_every_s: A miss looks for what others have written, at most this often.
        idle_s: After such a pause a writer begins a new segment, since others may take the old
            one for finished.
        finished_after_s: A segment of another machine counts as finished after such a pause.
        compacted_bytes: Compaction makes segments of this size; it holds the keys of one of them
            in memory, and repeated replies go where they come together in one.
        linger_s: On object stores, a reply waits this long for others to be stored with it.
        batch_bytes: On object stores, replies are stored at once when there is as much.
    """

    segment_bytes: int = 64 * _MEGABYTE
    index_from_bytes: int = 64 * 1024
    memory_bytes: int = 64 * _MEGABYTE
    look_every_s: float = 1.0
    idle_s: float = 300.0
    finished_after_s: float = 600.0
    compacted_bytes: int = 256 * _MEGABYTE
    linger_s: float = 0.25
    batch_bytes: int = _MEGABYTE


@dataclass(frozen=True, kw_only=True)
class JournalStats:
    """What a journal handle knows and has done.

    Attributes:
        size_bytes: Size of the segments when they were last looked at.
        segments: Their number.
        known: Replies that can be found; a repeated one may count more than once.
        unreadable: Lines passed over: torn tails, and lines damaged on disk.
        hits: Requests answered.
        misses: Requests not known.
        written: Replies written by this handle.
    """

    size_bytes: int
    segments: int
    known: int
    unreadable: int
    hits: int
    misses: int
    written: int


@dataclass(frozen=True, kw_only=True)
class Inventory:
    """What lies in a journal.

    Attributes:
        segments: Number of segments.
        size_bytes: Their size.
        index_bytes: Size of the indexes beside them.
        usable: Replies that may be used again; repeated ones count each time.
        unusable: Replies kept as evidence only.
        unreadable: Lines that nobody can read: torn tails, and lines damaged on disk.
        models: Usable replies per model name, as the endpoint reports it.
        oldest: When the segment that rests longest was last written, in seconds since 1970; None
            where there is none.
        newest: The same of the segment that was written last.
    """

    segments: int
    size_bytes: int
    index_bytes: int
    usable: int
    unusable: int
    unreadable: int
    models: Mapping[str, int]
    oldest: float | None
    newest: float | None


@dataclass(frozen=True, kw_only=True)
class Compaction:
    """What a compaction did.

    Attributes:
        merged: Segments that were read and replaced.
        made: Segments that stand in their place.
        left_alone: Segments of writers that may still be at work.
        kept: Lines that were kept.
        dropped: Lines that were left out: repeated, unusable, damaged or torn.
        erased: Lines of the given scopes that were taken out.
    """

    merged: int = 0
    made: int = 0
    left_alone: int = 0
    kept: int = 0
    dropped: int = 0
    erased: int = 0


class Journal(Protocol):
    """A handle on a journal; not to be shared between threads, loops or processes.

    Where equal requests were answered more than once, any usable reply may be given: equal
    requests have equal meaning.
    """

    @property
    def stats(self) -> JournalStats:
        """What this handle knows and has done."""
        ...

    async def get(self, key: str, *, unusable: bool = False) -> Reply | None:
        """Give a reply to a request; None where there is none.

        Args:
            key: From `journal_key`.
            unusable: Whether, where there is no usable reply, the last unusable one will do: a run
                is repeated with its bad replies.
        """
        ...

    async def put(
        self, key: str, reply: Reply, *, usable: bool, scope_key: str | None = None
    ) -> None:
        """Write a reply down; when this returns it survives the end of the process.

        Args:
            key: From `journal_key`.
            reply: What was paid for.
            usable: False keeps it from being used again; it is kept as evidence.
            scope_key: Whose data it holds, so that it can be erased.

        Raises:
            OSError: Where a file cannot be written in full; later replies go to a new segment.
            JournalError: Where an object store does not take it.
        """
        ...

    async def flush(self) -> None:
        """Wait until every `put` under way has written its reply down."""
        ...

    def close(self) -> None:
        """Finish what was written; another reply would begin a new segment."""
        ...
