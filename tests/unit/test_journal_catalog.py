"""What a look takes in, and what it does where things come and go meanwhile."""

from collections.abc import Iterator, Mapping, Sequence

from memorypipe.llm.journal.catalog import Catalog
from memorypipe.llm.journal.index import Index, covered_by, make_run
from memorypipe.llm.journal.lines import Scan, encode_line, scan_lines
from tests.support.journals import KEYS, REPLY


class Shelf:
    """Segments and indexes in memory; can change between the listing and the reading."""

    def __init__(self) -> None:
        self.segments: dict[str, list[bytes]] = {}
        self.made: dict[str, Index] = {}
        self.after_listing: dict[str, list[bytes]] = {}
        self.gone_after_listing: set[str] = set()
        self.scanned: list[str] = []
        self.opened: list[str] = []

    def write(self, name: str, keys: list[str]) -> None:
        self.segments[name] = [encode_line(k, REPLY, usable=True, scope_key=None) for k in keys]

    def index_of(self, name: str) -> Index:
        scan = scan_lines(self.segments[name])
        return Index(covered=[covered_by(name, scan)], run=make_run(scan.places), crc=0)

    def listing(self) -> Mapping[str, int]:
        sizes = {name: sum(map(len, lines)) for name, lines in self.segments.items()}
        sizes |= dict.fromkeys(self.made, 1)
        for name in self.gone_after_listing:
            del self.segments[name]
        self.gone_after_listing = set()
        self.segments |= self.after_listing
        self.after_listing = {}
        return sizes

    def indexes(self, names: Sequence[str]) -> dict[str, Index | None]:
        self.opened += names
        return {name: self.made.get(name) for name in names}

    def scans(self, tails: Mapping[str, int]) -> Iterator[tuple[str, Scan | None]]:
        for name in tails:
            self.scanned.append(name)
            yield name, scan_lines(self.segments[name]) if name in self.segments else None


def finds(catalog: Catalog, key: str) -> bool:
    places = [catalog.segment(number) for number, _ in catalog.places.find(key)]
    return any(place is not None for place in places)


def test_a_compaction_that_ends_during_a_look_hides_nothing() -> None:
    shelf, catalog = Shelf(), Catalog(memory_bytes=0)
    shelf.write("old.jsonl", KEYS[:2])
    shelf.gone_after_listing = {"old.jsonl"}
    shelf.after_listing = {"compact.1.jsonl": list(shelf.segments["old.jsonl"])}
    catalog.look(shelf)
    assert [finds(catalog, key) for key in KEYS[:3]] == [True, True, False]
    assert [one.name for one in catalog.segments()] == ["compact.1.jsonl"]


def test_an_index_that_comes_before_its_segment_is_used_when_the_segment_is_there() -> None:
    shelf, catalog = Shelf(), Catalog(memory_bytes=0)
    shelf.write("compact.1.jsonl", KEYS[:2])
    shelf.made["compact.1.idx"] = shelf.index_of("compact.1.jsonl")
    lines = shelf.segments.pop("compact.1.jsonl")
    catalog.look(shelf)
    assert not finds(catalog, KEYS[0])
    shelf.segments["compact.1.jsonl"] = lines
    catalog.look(shelf)
    assert finds(catalog, KEYS[0])
    assert shelf.scanned == []


def test_an_index_of_segments_that_are_gone_is_opened_once() -> None:
    shelf, catalog = Shelf(), Catalog(memory_bytes=1 << 20)
    for number in range(2):
        shelf.write(f"w{number}.jsonl", KEYS[number : number + 1])
    whole = [shelf.index_of(f"w{number}.jsonl").covered[0] for number in range(2)]
    run = make_run({key: number << 40 for number, key in enumerate(KEYS[:2])})
    shelf.made["merged.idx"] = Index(covered=whole, run=run, crc=0)
    del shelf.segments["w0.jsonl"]
    for _ in range(3):
        catalog.look(shelf)
    assert shelf.opened == ["merged.idx"]


def test_an_index_that_covers_more_than_there_is_counts_for_nothing() -> None:
    """A segment that lost its end, by a restored backup say, is scanned."""
    shelf, catalog = Shelf(), Catalog(memory_bytes=0)
    shelf.write("w.jsonl", KEYS[:2])
    shelf.made["w.idx"] = shelf.index_of("w.jsonl")
    shelf.write("w.jsonl", KEYS[:1])
    catalog.look(shelf)
    assert [finds(catalog, key) for key in KEYS[:2]] == [True, False]


def test_indexes_of_many_segments_come_before_those_of_few() -> None:
    shelf, catalog = Shelf(), Catalog(memory_bytes=0)
    for number in range(3):
        shelf.write(f"w{number}.jsonl", KEYS[number : number + 1])
        shelf.made[f"w{number}.idx"] = shelf.index_of(f"w{number}.jsonl")
    whole = [shelf.made[f"w{number}.idx"].covered[0] for number in range(3)]
    run = make_run({key: number << 40 for number, key in enumerate(KEYS[:3])})
    shelf.made["merged.idx"] = Index(covered=whole, run=run, crc=0)
    catalog.look(shelf)
    assert list(catalog.mapped) == ["merged.idx"]
    assert all(finds(catalog, key) for key in KEYS[:3])
    assert len(catalog.places) == 3
