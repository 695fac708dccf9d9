"""Addresses of journals, and what can be done with a journal as a whole."""

import asyncio
from pathlib import Path

import pytest

from memorypipe.errors import InvalidArgumentError, JournalError
from memorypipe.llm.journal.local import LocalJournal
from memorypipe.llm.journal.open import (
    absolute_journal,
    check_journal,
    compact_journal,
    drop_scopes,
    open_journal,
    take_inventory,
)
from memorypipe.llm.journal.types import Inventory, JournalSettings
from memorypipe.llm.types import Reply
from tests.support.journals import KEYS, REPLY, fill, local, put

ANN = '[["user_id","ann"]]'


@pytest.mark.parametrize(
    "address",
    [
        *("ftp://host/j", "file://host/j", "s3:///j", "S3://bucket/j"),
        *("s3://key:secret@bucket/j", "s3://bucket/j?token=secret", "gs://bucket/j#secret"),
    ],
)
def test_addresses_that_cannot_work_are_refused_and_no_secret_is_told(address: str) -> None:
    with pytest.raises(InvalidArgumentError, match="journal must be") as caught:
        open_journal(address)
    assert "secret" not in str(caught.value)


def test_an_address_is_checked_without_opening_it(tmp_path: Path) -> None:
    for uri in (str(tmp_path / "none"), (tmp_path / "none").as_uri(), "s3://no-such-bucket/j"):
        check_journal(uri)
    assert not list(tmp_path.iterdir())
    with pytest.raises(InvalidArgumentError, match="journal must be") as caught:
        check_journal("s3://key:secret@bucket/j")
    assert "secret" not in str(caught.value)


def test_without_its_extra_an_object_store_is_refused_only_where_it_would_be_opened() -> None:
    def find_nothing(_module: str) -> None:
        return None

    with pytest.raises(JournalError, match=r"memorypipe\[object-store\]"):
        check_journal("s3://bucket/j", find_module=find_nothing)
    check_journal("s3://bucket/j", is_opened_here=False, find_module=find_nothing)
    check_journal("folder", find_module=find_nothing)


def test_a_relative_folder_means_the_same_from_every_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert absolute_journal("a/journal") == str(tmp_path / "a" / "journal")
    for uri in ("/var/journal", "file:///var/journal", "s3://bucket/j"):
        assert absolute_journal(uri) == uri


def test_a_file_address_is_a_folder(tmp_path: Path) -> None:
    folder = tmp_path / "with space"
    fill(folder, KEYS[:1])
    journal = open_journal(folder.as_uri())
    assert isinstance(journal, LocalJournal)
    assert asyncio.run(journal.get(KEYS[0])) == REPLY
    journal.close()


def test_an_inventory_counts_by_indexes_and_by_scans(tmp_path: Path) -> None:
    fill(tmp_path, KEYS[:2])
    fill(tmp_path, KEYS[2:3], index_from_bytes=1 << 20)
    with (tmp_path / "torn.jsonl").open("wb") as file:
        file.write(b"\x00\n{")
    found = take_inventory(str(tmp_path))
    assert (found.segments, found.usable, found.unusable, found.unreadable) == (3, 3, 0, 2)
    assert found.models == {"m-1": 3}
    assert found.index_bytes == sum(path.stat().st_size for path in tmp_path.glob("*.idx"))
    assert found.oldest is not None
    assert found.newest is not None
    assert found.oldest <= found.newest


def test_an_empty_journal_has_an_inventory_too(tmp_path: Path) -> None:
    assert take_inventory(str(tmp_path)) == Inventory(
        segments=0,
        size_bytes=0,
        index_bytes=0,
        usable=0,
        unusable=0,
        unreadable=0,
        models={},
        oldest=None,
        newest=None,
    )


def test_where_there_is_no_journal_the_error_says_so(tmp_path: Path) -> None:
    gone = str(tmp_path / "gone")
    for work in (take_inventory, compact_journal):
        with pytest.raises(JournalError, match="no journal at"):
            work(gone)
    assert not Path(gone).exists()


def test_scopes_are_erased_and_evidence_of_others_stays(tmp_path: Path) -> None:
    journal = local(tmp_path)
    put(journal, KEYS[0], scope_key=ANN)
    put(journal, KEYS[1], usable=False)
    journal.close()
    assert drop_scopes(str(tmp_path), [ANN]).erased == 1
    assert (take_inventory(str(tmp_path)).usable, take_inventory(str(tmp_path)).unusable) == (0, 1)


@pytest.mark.parametrize("index_from_bytes", [0, 1 << 20])
def test_an_unusable_reply_is_given_only_to_who_repeats_a_run(
    tmp_path: Path, index_from_bytes: int
) -> None:
    def given(key: str) -> list[bool]:
        journal = local(tmp_path)
        replies = [asyncio.run(journal.get(key, unusable=want)) for want in (False, True)]
        journal.close()
        return [reply is not None for reply in replies]

    journal = local(tmp_path, index_from_bytes=index_from_bytes)
    put(journal, KEYS[0], usable=False)
    assert asyncio.run(journal.get(KEYS[0], unusable=True)) == REPLY
    journal.close()
    assert given(KEYS[0]) == [False, True]
    compact_journal(str(tmp_path))
    assert given(KEYS[0]) == [False, True]


def test_a_usable_reply_goes_before_an_unusable_one(tmp_path: Path) -> None:
    journal = local(tmp_path)
    put(journal, KEYS[0], usable=True)
    bad = Reply(content="bad")
    asyncio.run(journal.put(KEYS[0], bad, usable=False))
    assert asyncio.run(journal.get(KEYS[0], unusable=True)) == REPLY
    journal.close()


@pytest.mark.parametrize("scopes", [[], ANN])
def test_scopes_must_be_named(tmp_path: Path, scopes: "list[str] | str") -> None:
    with pytest.raises(InvalidArgumentError, match="scope_keys"):
        drop_scopes(str(tmp_path), scopes)


def test_an_object_store_is_a_journal_like_any_other() -> None:
    uri = "memory://unit/journal"

    async def main() -> None:
        journal = open_journal(uri, settings=JournalSettings(linger_s=0))
        await journal.put(KEYS[0], REPLY, usable=True, scope_key=ANN)
        await journal.put(KEYS[1], REPLY, usable=True)
        journal.close()
        assert take_inventory(uri).usable == 2
        assert compact_journal(uri).merged == 2
        assert drop_scopes(uri, {ANN}).erased == 1
        again = open_journal(uri)
        assert [await again.get(key) for key in KEYS[:2]] == [None, REPLY]
        again.close()

    asyncio.run(main())
