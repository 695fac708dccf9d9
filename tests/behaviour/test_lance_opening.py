"""The newest version of a local Lance dataset is found without listing all versions."""

import os
import shutil
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from pathlib import Path
from typing import Any

import lance
import pyarrow as pa
import pytest

from memorypipe.errors import TableNotFoundError
from memorypipe.table.lance.dataset import Footers, open_dataset
from memorypipe.table.lance.tidy import tidy


def write(uri: str, *rows: int, mode: str = "append") -> None:
    """Write a version as another process would: past `open_dataset`."""
    lance.write_dataset(pa.table({"number": pa.array(rows, pa.int64())}), uri, mode=mode)
    versions = Path(uri, "_versions")
    written = min(versions.glob("*.manifest")).stat().st_mtime_ns
    os.utime(versions, ns=(written, written))  # however busy the machine is


def numbers(uri: str) -> list[int]:
    """Give the rows of the newest version."""
    found: list[int] = open_dataset(uri).to_table()["number"].to_pylist()
    return found


@pytest.fixture
def uri(tmp_path: Path) -> str:
    """Give the address of a dataset of which this process has seen version 1."""
    place = str(tmp_path / "some.lance")
    write(place, 0, mode="create")
    assert numbers(place) == [0]
    return place


@pytest.fixture
def listings(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Note what is opened without saying which version."""
    noted: list[str] = []
    real = lance.dataset

    def watched(uri: str, version: int | None = None, **how: Any) -> Any:
        if version is None:
            noted.append(uri)
        return real(uri, version, **how)

    monkeypatch.setattr(lance, "dataset", watched)
    return noted


def test_what_others_committed_is_found_without_a_listing(uri: str, listings: list[str]) -> None:
    for number in (1, 2, 3):
        write(uri, number)
    listings.clear()
    assert numbers(uri) == [0, 1, 2, 3]
    write(uri, 4)
    listings.clear()
    assert numbers(uri) == [0, 1, 2, 3, 4]
    assert listings == []


def test_many_versions_later_a_listing_finds_the_newest(
    uri: str, listings: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("memorypipe.table.lance.dataset._MOST_ASKED", 3)
    for number in range(1, 6):
        write(uri, number)
    listings.clear()
    assert numbers(uri) == [0, 1, 2, 3, 4, 5]
    assert len(listings) == 1


@pytest.mark.parametrize("versions", [1, 2, 3, 6])
def test_another_dataset_in_its_place_is_opened_at_its_own_newest(uri: str, versions: int) -> None:
    write(uri, 1)
    write(uri, 2)
    assert numbers(uri) == [0, 1, 2]
    shutil.rmtree(uri)
    write(uri, 100, mode="create")
    for number in range(101, 100 + versions):
        write(uri, number)
    assert numbers(uri) == list(range(100, 100 + versions))


def test_where_the_seen_version_was_cleaned_away_the_newest_is_found(uri: str) -> None:
    write(uri, 1)
    write(uri, 2)
    lance.dataset(uri).cleanup_old_versions(retain_versions=1)
    assert [version["version"] for version in lance.dataset(uri).versions()] == [3]
    assert numbers(uri) == [0, 1, 2]


@pytest.mark.parametrize("seen", [2, 3])
def test_where_a_version_between_was_cleaned_away_the_newest_is_found(uri: str, seen: int) -> None:
    """Versions that have a tag stay, and so do some where a cleaning was broken off."""
    for number in range(1, seen):
        write(uri, number)
    assert len(numbers(uri)) == seen
    lance.dataset(uri).tags.create("keep", seen)
    for number in range(seen, 9):
        write(uri, number)
    lance.dataset(uri).cleanup_old_versions(retain_versions=1, error_if_tagged_old_versions=False)
    assert len(lance.dataset(uri).versions()) == 2
    oldest = max(Path(uri, "_versions").glob("*.manifest"))
    os.utime(oldest, (0, 0))  # what is cleaned away is old
    assert numbers(uri) == numbers(uri) == list(range(9))


def test_a_dataset_without_a_row_is_opened_once(tmp_path: Path, listings: list[str]) -> None:
    uri = str(tmp_path / "empty.lance")
    write(uri, mode="create")
    assert numbers(uri) == []
    listings.clear()
    assert numbers(uri) == []
    assert listings == []


def test_a_dataset_that_is_gone_is_said_to_be_gone(uri: str) -> None:
    shutil.rmtree(uri)
    with pytest.raises(TableNotFoundError, match="no memory table"):
        open_dataset(uri)


def test_footers_are_shared_until_the_cache_is_full_of_old_ones(uri: str) -> None:
    footers = Footers(most_bytes=1 << 16, opened_between_looks=4)
    sessions = []
    for number in range(40):
        write(uri, number)
        session = footers.session()
        assert lance.dataset(uri, session=session).count_rows() == number + 2
        sessions.append(session)
    changes = [n for n in range(1, 40) if not sessions[n].is_same_as(sessions[n - 1])]
    assert changes, "the cache was full of files that had gone out of use"
    assert all(later - earlier >= 4 for earlier, later in pairwise([0, *changes]))


def test_old_versions_are_looked_for_once_an_hour(
    uri: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("memorypipe.table.lance.tidy._CLEAN_EVERY", 1)
    monkeypatch.setattr("memorypipe.table.lance.tidy.KEPT", timedelta(microseconds=1))
    start = datetime(2025, 1, 1, tzinfo=UTC)
    kept = []
    for minutes in (0, 59, 60, 61, -5):
        write(uri, minutes)
        tidy(lance.dataset(uri), now=start + timedelta(minutes=minutes))
        kept.append(len(lance.dataset(uri).versions()))
    assert kept == [1, 2, 1, 2, 1], "what lies in the future was no look of ours"
