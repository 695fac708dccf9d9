"""Index files: what was written is found, what is damaged is not used, merging keeps all."""

from pathlib import Path

import numpy as np
import pytest

from memorypipe.llm.journal.index import (
    Covered,
    Index,
    find_in,
    make_run,
    map_index,
    merge_indexes,
    write_index,
)


def covered(name: str) -> Covered:
    return Covered(
        name=name, size_bytes=9, usable=1, unusable=2, unreadable=3, models={"m": 1, "é": 2}
    )


def made(path: Path, places: dict[str, int], *names: str) -> Index:
    write_index(path, [covered(name) for name in names], make_run(places))
    index = map_index(path)
    assert index is not None
    return index


def test_an_index_comes_back_as_it_was_written(tmp_path: Path) -> None:
    places = {f"{half:016x}{half:016x}": half % 97 for half in (0, 5, 2**63, 2**64 - 1)}
    index = made(tmp_path / "a.idx", places, "a.jsonl", "b.jsonl")
    assert list(index.covered) == [covered("a.jsonl"), covered("b.jsonl")]
    assert index.is_sound()
    assert len(index) == 4
    for key, place in places.items():
        assert list(find_in(index.run, int(key[:16], 16))) == [place]
    assert list(find_in(index.run, 6)) == []
    assert [path.name for path in tmp_path.iterdir()] == ["a.idx"], "no draft is left"


def test_an_empty_index_is_one_too(tmp_path: Path) -> None:
    index = made(tmp_path / "a.idx", {}, "a.jsonl")
    assert index.is_sound()
    assert list(find_in(index.run, 0)) == []


def test_of_equal_halves_the_last_comes_first() -> None:
    run = make_run({f"{7:016x}{rest:016x}": rest for rest in range(3)})
    assert list(find_in(run, 7)) == [2, 1, 0]


@pytest.mark.parametrize("part_entries", [1, 7, 1 << 20])
def test_merging_keeps_every_place_and_renumbers_the_segments(
    tmp_path: Path, part_entries: int
) -> None:
    rng = np.random.default_rng(3)
    halves = [int(half) for half in rng.integers(0, 2**64 - 1, 40, dtype=np.uint64)]
    keys = [f"{half:016x}" + "0" * 16 for half in halves]
    first = made(tmp_path / "1.idx", dict(zip(keys[:15], range(15), strict=True)), "a", "b")
    second = made(tmp_path / "2.idx", {}, "c")
    third = made(tmp_path / "3.idx", dict(zip(keys[15:], range(25), strict=True)), "d")
    merge_indexes([first, second, third], tmp_path / "merged.idx", part_entries=part_entries)
    merged = map_index(tmp_path / "merged.idx")
    assert merged is not None
    assert merged.is_sound()
    assert [one.name for one in merged.covered] == ["a", "b", "c", "d"]
    for number, half in enumerate(halves):
        place = number if number < 15 else 3 << 40 | number - 15
        assert list(find_in(merged.run, half)) == [place]


def test_a_file_that_is_cut_anywhere_is_not_used(tmp_path: Path) -> None:
    path = tmp_path / "a.idx"
    made(path, {"0" * 32: 1}, "a.jsonl")
    whole = path.read_bytes()
    for end in range(len(whole)):
        path.write_bytes(whole[:end])
        assert map_index(path) is None
    path.write_bytes(whole + b"x")
    assert map_index(path) is None
    assert map_index(tmp_path / "gone.idx") is None
