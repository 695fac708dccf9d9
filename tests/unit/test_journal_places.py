"""Places are found wherever they lie: as they came, sorted in memory, or mapped."""

from memorypipe.llm.journal.index import Covered, Index, make_run
from memorypipe.llm.journal.places import Places

KEYS = [f"{number * 0x9E3779B97F4A7C15 % 2**64:016x}" + "0" * 16 for number in range(200_000)]
A_SEGMENT = Covered(name="x", size_bytes=1, usable=1, unusable=0, unreadable=0)


def index_of(places: dict[str, int]) -> Index:
    return Index(covered=[A_SEGMENT], run=make_run(places), crc=0)


def test_many_places_are_sorted_away_and_still_found() -> None:
    places = Places()
    for number, key in enumerate(KEYS):
        places.put(key, 3, number)
    assert len(places) == len(KEYS)
    assert places.memory_bytes > 16 * 100_000, "a dictionary of all would take ten times as much"
    assert len(places._runs) <= 2
    for number in range(0, len(KEYS), 1_999):
        assert list(places.find(KEYS[number])) == [(3, number)]


def test_loaded_and_mapped_indexes_take_the_numbers_they_are_given() -> None:
    places = Places()
    places.load([(index_of({KEYS[0]: 5}), [7]), (index_of({KEYS[1]: 6}), [9])])
    places.map([(index_of({KEYS[2]: 1 << 40 | 8}), [4, 2])])
    places.add(1, {KEYS[3]: 10, KEYS[0]: 11})
    assert list(places.find(KEYS[0])) == [(1, 11), (7, 5)]
    assert [list(places.find(key)) for key in KEYS[1:4]] == [[(9, 6)], [(2, 8)], [(1, 10)]]
    assert list(places.find(KEYS[4])) == []
    places.map([])
    assert list(places.find(KEYS[2])) == []
