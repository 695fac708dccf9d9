"""What is known of a journal's segments: taken from indexes where there are some, else scanned."""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from memorypipe.llm.journal.index import Covered, Index
from memorypipe.llm.journal.lines import Scan
from memorypipe.llm.journal.places import Places

__all__ = ["INDEX_SUFFIX", "SEGMENT_SUFFIX", "Catalog", "Source"]

OnScan = Callable[[str, Scan], None]

SEGMENT_SUFFIX = ".jsonl"
INDEX_SUFFIX = ".idx"
# Compactions that end just while one looks: more of them in a row are not to be expected.
_MAX_LOOKS = 5


class Source(Protocol):
    """Where segments and indexes lie: a folder or an object store."""

    def listing(self) -> Mapping[str, int]:
        """Give the names of segments and indexes, and their sizes in bytes."""
        ...

    def indexes(self, names: Sequence[str]) -> dict[str, Index | None]:
        """Open indexes; None where one is gone or cannot be used."""
        ...

    def scans(self, tails: Mapping[str, int]) -> Iterator[tuple[str, Scan | None]]:
        """Scan segments, each from an offset on; None where one is gone."""
        ...


@dataclass(kw_only=True)
class _Segment:
    covered: Covered
    seen_bytes: int = 0
    is_torn: bool = False


class Catalog:
    """The segments of a journal as one handle knows them.

    One thread may look while another one finds replies and adds its own.

    Args:
        memory_bytes: Indexes are copied into memory up to this; what is beyond stays mapped.

    Attributes:
        places: Where the replies are.
        mapped: The indexes that stay mapped, by name.
        size_bytes: Size of all segments at the last look.
        index_bytes: Size of all indexes at the last look.
    """

    def __init__(self, memory_bytes: int) -> None:
        self.places = Places()
        self.mapped: dict[str, Index] = {}
        self.size_bytes = self.index_bytes = 0
        self._memory_bytes = memory_bytes
        self._names: list[str] = []
        self._numbers: dict[str, int] = {}
        self._segments: dict[str, _Segment] = {}
        self._own: set[str] = set()
        self._tried: set[str] = set()
        # Indexes that were opened, and the segments of theirs that were not there.
        self._early: dict[str, frozenset[str]] = {}

    def segment(self, number: int) -> Covered | None:
        """Tell what is known of a segment; None where it was gone at the last look."""
        found = self._segments.get(self._names[number])
        return None if found is None else found.covered

    def pass_over(self, index_name: str) -> None:
        """Never open this index: it holds nothing new."""
        self._tried.add(index_name)

    def segments(self) -> list[Covered]:
        """Tell what is known of each segment that was there at the last look."""
        return [one.covered for one in list(self._segments.values())]

    @property
    def unreadable(self) -> int:
        """Lines that cannot be read, torn tails among them."""
        known = list(self._segments.values())
        return sum(one.covered.unreadable + one.is_torn for one in known)

    def add_own(self, name: str) -> int:
        """Take in a segment that this handle writes, and passes over in each look."""
        self._own.add(name)
        self._segment(name)
        return self._number(name)

    def finish(self, covered: Covered) -> None:
        """Tell all that is in a segment that nobody writes to any more."""
        self._segment(covered.name).covered = covered
        self._own.discard(covered.name)

    def wanted(self, listing: Mapping[str, int]) -> tuple[list[str], dict[str, int]]:
        """Tell what a look would read: indexes, and segments with the offset to scan from."""
        indexes = [name for name in listing if _is_index(name) and self._is_new(name, listing)]
        tails = {}
        for name, size_bytes in listing.items():
            known = self._segments.get(name)
            seen_bytes = 0 if known is None else max(known.seen_bytes, known.covered.size_bytes)
            if _is_segment(name) and name not in self._own and size_bytes > seen_bytes:
                tails[name] = 0 if known is None else known.covered.size_bytes
        return sorted(indexes), tails

    def look(self, source: Source, on_scan: OnScan = lambda _name, _scan: None) -> set[str]:
        """Take in what is new since the last look, and let go of what is gone.

        Args:
            source: Where to look.
            on_scan: Told of every segment that had to be scanned from its beginning.

        Returns:
            The names of the segments that are gone.
        """
        gone: set[str] = set()
        for _ in range(_MAX_LOOKS):
            newly_gone, is_complete = self._look_once(source, on_scan)
            gone |= newly_gone
            if is_complete:
                break
        return gone

    def _look_once(self, source: Source, on_scan: OnScan) -> tuple[set[str], bool]:
        """Look; also tell whether everything that was listed was still there to be read."""
        listing = source.listing()
        gone = self._segments.keys() - listing.keys() - self._own
        for name in gone:
            del self._segments[name]
        indexes, _ = self.wanted(listing)
        self._take_indexes(source.indexes(indexes), listing)
        _, tails = self.wanted(listing)
        is_complete = True
        for name, scan in source.scans(tails):
            if scan is None:
                is_complete = False
                continue
            self._take_scan(name, scan, listing[name])
            if not tails[name]:
                on_scan(name, scan)
        self.size_bytes = sum(size for name, size in listing.items() if _is_segment(name))
        self.index_bytes = sum(size for name, size in listing.items() if _is_index(name))
        return gone, is_complete

    def map(self, indexes: Mapping[str, Index]) -> None:
        """Take these mapped indexes in the place of those before."""
        self.mapped = dict(indexes)
        self._tried.update(indexes)
        self.places.map([(index, self._renumber(index)) for index in indexes.values()])

    def _segment(self, name: str) -> _Segment:
        if name not in self._segments:
            nothing = Covered(name=name, size_bytes=0, usable=0, unusable=0, unreadable=0)
            self._segments[name] = _Segment(covered=nothing)
        return self._segments[name]

    def _number(self, name: str) -> int:
        if name not in self._numbers:
            self._numbers[name] = len(self._names)
            self._names.append(name)
        return self._numbers[name]

    def _renumber(self, index: Index) -> list[int]:
        return [self._number(one.name) for one in index.covered]

    def _take_scan(self, name: str, scan: Scan, size_bytes: int) -> None:
        self.places.add(self._number(name), scan.places)
        segment = self._segment(name)
        segment.covered = _sum(segment.covered, scan)
        segment.seen_bytes = max(size_bytes, scan.end + scan.torn_bytes)
        segment.is_torn = scan.torn_bytes > 0

    def _take_indexes(self, opened: Mapping[str, Index | None], listing: Mapping[str, int]) -> None:
        found = {name: index for name, index in opened.items() if index is not None}
        for name, index in opened.items():
            covered = () if index is None else index.covered
            self._early[name] = frozenset(one.name for one in covered) - listing.keys()
        self._tried.update(opened)
        room = self._memory_bytes - self.places.memory_bytes
        loaded: list[Index] = []
        mapped: dict[str, Index] = {}
        # Small ones first: they are many, and each would cost every look-up a search.
        for name in sorted(self._choose(found, listing), key=lambda name: len(found[name])):
            room -= found[name].size_bytes
            if room < 0:
                mapped[name] = found[name]
            elif found[name].is_sound():
                loaded.append(found[name])
        self.places.load([(index, self._renumber(index)) for index in loaded])
        if mapped:
            self.map({**self.mapped, **mapped})
        for index in (*loaded, *mapped.values()):
            self._cover(index, listing)

    def _is_new(self, name: str, listing: Mapping[str, int]) -> bool:
        """Whether an index can tell something that it could not at the last look.

        It is there before the segment that a compaction makes; and segments of an old one may be
        gone for good.
        """
        missing = self._early.get(name, frozenset())
        return name not in self._tried or any(segment in listing for segment in missing)

    def _choose(self, found: Mapping[str, Index], listing: Mapping[str, int]) -> Iterator[str]:
        """Choose the indexes that tell something new, those of most segments first."""
        covered = {name: one.covered.size_bytes for name, one in self._segments.items()}
        for name in sorted(found, key=lambda name: -len(found[name].covered)):
            new = [
                one
                for one in found[name].covered
                if covered.get(one.name, 0) < one.size_bytes <= listing.get(one.name, -1)
                and one.name not in self._own
            ]
            if new:
                covered.update((one.name, one.size_bytes) for one in new)
                yield name

    def _cover(self, index: Index, listing: Mapping[str, int]) -> None:
        for one in index.covered:
            if one.name in listing and one.name not in self._own:
                segment = self._segment(one.name)
                if one.size_bytes > segment.covered.size_bytes:
                    segment.covered = one


def _is_segment(name: str) -> bool:
    return name.endswith(SEGMENT_SUFFIX)


def _is_index(name: str) -> bool:
    return name.endswith(INDEX_SUFFIX)


def _sum(known: Covered, scan: Scan) -> Covered:
    return Covered(
        name=known.name,
        size_bytes=scan.end,
        usable=known.usable + scan.usable,
        unusable=known.unusable + scan.unusable,
        unreadable=known.unreadable + scan.unreadable,
        models=Counter(known.models) + scan.models,
    )
