"""A folder as the place of a Parquet table: names are given once."""

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from memorypipe.table.parquet.places import Folder, Place, open_place


@pytest.fixture
def place(tmp_path: Path) -> Folder:
    return Folder(str(tmp_path / "made" / "late"))


def test_of_many_who_want_a_name_one_gets_it(place: Folder, tmp_path: Path) -> None:
    with ThreadPoolExecutor(8) as pool:
        got = list(pool.map(lambda each: place.create("m/1", bytes([each]) * 99), range(16)))
    assert got.count(True) == 1
    assert place.read("m/1") == bytes([got.index(True)]) * 99
    assert [file.name for file in (tmp_path / "made/late/m").iterdir()] == ["1"]


def test_a_name_that_cannot_be_made_is_an_error_and_not_a_lost_race(
    place: Folder, tmp_path: Path
) -> None:
    place.write("file", b"")
    with pytest.raises(OSError, match="File exists"):
        place.create("file/1", b"x")
    assert (tmp_path / "made/late/file").read_bytes() == b""


def test_a_file_is_not_written_twice(place: Folder) -> None:
    place.write("data/a", b"first")
    with pytest.raises(FileExistsError):
        place.write("data/a", b"second")
    assert place.read("data/a") == b"first"


def test_a_listing_gives_names_as_they_are_read(place: Folder) -> None:
    assert place.listing("data") == {}
    place.write("data/a", b"x")
    assert [place.read(name) for name in place.listing("data")] == [b"x"]


def test_removing_what_is_gone_is_no_error(place: Folder) -> None:
    place.write("data/a", b"x")
    place.remove("data/a")
    place.remove("data/a")
    assert place.identity("data/a") is None


def test_a_file_that_was_replaced_has_another_identity(place: Folder, tmp_path: Path) -> None:
    place.write("a", b"x")
    before = place.identity("a")
    other = tmp_path / "b"
    other.write_bytes(b"y")
    place.replace("a", other)
    assert place.identity("a") not in (None, before)
    assert (place.read("a"), other.exists()) == (b"y", False)


def test_paths_and_file_addresses_are_folders_and_others_are_not(tmp_path: Path) -> None:
    asked = []

    def objects(uri: str) -> Any:
        asked.append(uri)
        return None

    (tmp_path / "a b").write_bytes(b"x")
    for uri in (str(tmp_path), f"file://{tmp_path}"):
        opened: Place = open_place(uri, objects)
        assert opened.read("a b") == b"x"
    open_place("s3://bucket/t", objects)
    assert asked == ["s3://bucket/t"]
