"""What is erased is nowhere any more, stays away, and everything else stays as it was."""

from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import lance
import orjson
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from lance.file import LanceFileReader

from memorypipe import ids
from memorypipe.errors import HistoryGoneError, InvalidArgumentError, TableError
from memorypipe.llm.batch.records import BatchFolder
from memorypipe.llm.journal.open import take_inventory
from memorypipe.pipeline.plans.plan import Plan
from memorypipe.table.erasing.erase import erase
from memorypipe.table.erasing.requests import EraseRequest
from memorypipe.table.storage import Storage
from memorypipe.table.table import MemoryTable
from tests.support.erasable import (
    fill_all,
    fill_batches,
    fill_journal,
    fill_run,
    fill_table,
    key_of,
    marker_of,
    message_of,
    scope_of,
)
from tests.support.memory_table import memory_table
from tests.support.table_actions import USER, SteppingClock, actions, add, ledger, minted

EVERYTHING = ("live", "deleted", "invalid", "expired", "history")


# What lies beside the table is the same for every back end.
beside_the_table = pytest.mark.parametrize("backend", ["parquet"])


def erase_scope(number: int) -> EraseRequest:
    return EraseRequest(scope=scope_of(number))


def values_in(folder: Path) -> Iterator[tuple[Path, bytes]]:
    """Read every file raw and, where it is a table, all its values as text."""
    for path in sorted(folder.rglob("*")):
        if path.is_file():
            yield path, path.read_bytes()
            if path.suffix == ".parquet":
                yield path, repr(pq.read_table(path).to_pylist()).encode()
            elif path.suffix == ".lance":
                yield (
                    path,
                    repr(LanceFileReader(str(path)).read_all().to_table().to_pylist()).encode(),
                )


def traces_of(folder: str, *words: str) -> list[str]:
    """Name the files that hold any of some words, in any way that JSON or Arrow write them."""
    forms = {form for word in words for form in _forms(word)}
    return sorted(
        {str(path) for path, data in values_in(Path(folder)) if any(form in data for form in forms)}
    )


def _forms(word: str) -> set[bytes]:
    escaped = orjson.dumps(word).decode()[1:-1]
    return {each.encode() for each in (word, escaped, repr(word)[1:-1], ascii(word)[1:-1])}


@pytest.mark.parametrize(
    "scopes", [12, pytest.param(1000, marks=pytest.mark.slow)], ids="{} scopes".format
)
def test_after_an_erasure_no_file_holds_anything_of_the_scope_and_all_else_is_there(
    table: MemoryTable, scopes: int
) -> None:
    fill_all(table, range(scopes))
    gone = scopes // 2
    before = table.to_arrow(include=EVERYTHING)
    assert traces_of(table.uri, marker_of(gone))

    receipt = table.erase([erase_scope(gone)])

    words = (marker_of(gone), key_of(gone), f"person-{gone:05d}", message_of(gone))
    assert traces_of(table.uri, *words) == []
    assert receipt.is_complete
    others = before.filter(pa.compute.not_equal(before["scope_key"], key_of(gone)))
    assert table.to_arrow(include=EVERYTHING).equals(others)
    assert len(traces_of(table.uri, marker_of(0))) > 1
    assert len(table.ledger_keys()) == scopes - 1
    assert take_inventory(f"{table.uri}/journal").usable == scopes - 1
    assert Plan(table.uri, "r1").actions().num_rows == scopes - 1


def test_the_receipt_counts_what_went_and_what_was_searched_and_says_what_is_out_of_reach(
    table: MemoryTable,
) -> None:
    fill_all(table, range(4))
    request = EraseRequest(scope=scope_of(1), id="ticket 7", reason="asked by mail")
    receipt = table.erase([request])
    found = receipt.to_dict()
    assert found["requests"] == [
        {"scope": scope_of(1), "id": "ticket 7", "reason": "asked by mail"}
    ]
    assert (found["complete"], found["blocked_scopes"]) == (True, 1)
    assert (found["version_before"], found["version"]) == (2, 3)
    removed = found["removed"]
    assert (removed["memories"], removed["live_memories"], removed["revisions"]) == (2, 2, 3)
    assert (removed["ledger_rows"], removed["replies"], removed["batch_lines"]) == (1, 1, 2)
    assert (removed["run_files"], removed["run_file_rows"]) == (6, 6)
    checked = found["checked"]
    files = [path for path in Path(table.uri).rglob("*") if path.is_file()]
    assert checked["files"] == len(files)
    assert checked["size_bytes"] == sum(path.stat().st_size for path in files)
    assert checked["tables"] > 5
    # "Likes tea very much" is what others say too.
    assert (checked["left"], checked["shared"]) == ([], 1)
    assert any("'batch_1' at http://host/v1" in place for place in found["not_reached"])
    orjson.dumps(found)


@beside_the_table
def test_a_preview_tells_the_same_numbers_and_changes_nothing(table: MemoryTable) -> None:
    fill_all(table, range(4))
    before = dict(values_in(Path(table.uri)))
    preview = table.preview_erase([erase_scope(1)])
    assert dict(values_in(Path(table.uri))) == before
    removed = table.erase([erase_scope(1)]).removed
    assert preview == removed.__class__(**{**vars(removed), "run_rows": 0})


def test_an_erased_scope_takes_nothing_in_until_it_is_unblocked(
    table: MemoryTable, reopen: Callable[[], MemoryTable]
) -> None:
    fill_table(table, range(2))
    table.erase([erase_scope(1)])
    late = actions(add("New", scope=scope_of(1)), add("Other", scope=scope_of(0)))
    rows = pa.concat_tables([ledger("m1", scope=scope_of(1)), ledger("m1", scope=scope_of(0))])
    result = reopen().commit(late, run_id="late", ledger=rows)
    assert (result.outcome, result.added) == ("landed", 1)
    assert result.held_back[key_of(1)].startswith("erased: ")
    assert reopen().commit(late, run_id="late", ledger=rows).held_back == result.held_back
    assert table.count(scope_of(1)) == 0
    assert (table.is_erased(scope_of(1)), table.is_erased(scope_of(0))) == (True, False)
    assert traces_of(table.uri, key_of(1)) == []

    assert table.unblock(scope_of(1)).outcome == "landed"
    assert table.unblock(scope_of(1)).outcome == "nothing"
    assert table.commit(late, run_id="again").held_back == {}
    assert table.count(scope_of(1)) == 1


def test_a_conflict_in_an_erased_scope_stops_nobody_else(table: MemoryTable) -> None:
    fill_table(table, range(2))
    table.erase([erase_scope(1)])
    memory_id = minted(f"First {marker_of(1)}", scope_of(1))
    old_plan = actions(
        add("Other", scope=scope_of(0)),
        add("x", scope=scope_of(1)) | {"event": "UPDATE", "memory_id": memory_id},
    )
    result = table.commit(old_plan, run_id="plan", base_version=2)
    assert (result.added, list(result.held_back)) == (1, [key_of(1)])


def test_a_commit_for_erased_scopes_alone_changes_nothing(table: MemoryTable) -> None:
    table.erase([EraseRequest(scope=USER)])
    result = table.commit(actions(add("New")), run_id="r9", ledger=ledger("m1"))
    assert (result.outcome, list(result.held_back)) == ("nothing", [ids.scope_key(USER)])
    assert table.version == 1


def test_neither_undo_nor_undo_of_undo_brings_an_erased_scope_back(table: MemoryTable) -> None:
    fill_table(table, range(3))
    table.erase([erase_scope(1)])
    table.undo("r2")
    assert table.count(scope_of(1), include=EVERYTHING) == 0
    assert {f"First {marker_of(0)}", f"First {marker_of(2)}"} <= set(
        table.to_arrow()["text"].to_pylist()
    )
    table.undo("undo-r2")
    assert table.count(scope_of(1), include=EVERYTHING) == 0
    assert f"Second {marker_of(0)}" in table.to_arrow()["text"].to_pylist()


@beside_the_table
def test_an_erasure_cannot_be_undone(table: MemoryTable) -> None:
    fill_table(table, range(2))
    receipt = table.erase([erase_scope(1)])
    with pytest.raises(TableError, match="erase"):
        table.undo(str(receipt.run_id))


def test_moments_before_an_erasure_cannot_be_read_any_more(table: MemoryTable) -> None:
    fill_table(table, range(2))
    table.erase([erase_scope(1)])
    with pytest.raises(HistoryGoneError):
        table.as_of(2)
    assert table.as_of(3).count() == table.count()


def test_run_rows_name_neither_the_scope_nor_its_memories(table: MemoryTable) -> None:
    fill_table(table, range(2))
    held = actions(
        add("x", scope=scope_of(0)) | {"event": "DELETE", "memory_id": "mem_none"},
        add("Ok", scope=scope_of(1)),
    )
    table.commit(held, run_id="r3", on_conflict="skip", labels={"for": key_of(0)})
    before = table.runs()
    assert key_of(0) in str(before.to_pylist())
    table.erase([erase_scope(0)])
    runs = table.runs()
    assert key_of(0) not in str(runs.to_pylist())
    kept = ["run_id", "commit_number", "committed_at", "added", "kind"]
    assert runs.select(kept).slice(0, 3).equals(before.select(kept))
    assert table.commit(held, run_id="r3", on_conflict="skip").outcome == "already_landed"


def test_a_source_goes_with_every_memory_that_was_built_on_it(table: MemoryTable) -> None:
    fill_all(table, range(3))
    receipt = table.erase([EraseRequest(source_id=message_of(1))])
    assert receipt.is_complete
    assert receipt.removed.memories == 1
    assert traces_of(table.uri, marker_of(1), message_of(1)) == []
    assert table.to_arrow(scope_of(1))["text"].to_pylist() == ["Likes tea very much"]

    # The message stays dealt with, under a key that nobody can read, whatever is undone.
    assert len(table.ledger_keys()) == 3
    table.undo("r1", reopen=True, cascade=True)
    assert len(table.ledger_keys()) == 1
    assert table.commit(actions(add("New", scope=scope_of(1))), run_id="r9").added == 1


def test_a_source_is_erased_in_one_scope_alone_where_that_is_asked(table: MemoryTable) -> None:
    both = [add(f"Text {marker_of(n)}", scope=scope_of(n), source_ids=["m1"]) for n in range(2)]
    table.commit(actions(*both), run_id="r1")
    table.erase([EraseRequest(source_id="m1", scope=scope_of(1))])
    assert table.to_arrow()["text"].to_pylist() == [f"Text {marker_of(0)}"]


def test_a_memory_goes_with_all_its_revisions_and_the_evidence_of_its_scope(
    table: MemoryTable,
) -> None:
    fill_all(table, range(3))
    memory_id = minted(f"First {marker_of(1)}", scope_of(1))
    receipt = table.erase([EraseRequest(memory_id=memory_id)])
    assert receipt.is_complete
    assert (receipt.removed.memories, receipt.removed.revisions) == (1, 2)
    assert traces_of(table.uri, marker_of(1), memory_id) == []
    assert table.count(scope_of(1)) == 1
    assert not table.is_erased(scope_of(1))


def test_what_is_not_there_is_erased_too_and_the_scope_is_blocked(table: MemoryTable) -> None:
    receipt = table.erase([erase_scope(7), EraseRequest(memory_id="mem_none")])
    assert receipt.is_complete
    assert receipt.removed.memories == 0
    assert table.is_erased(scope_of(7))
    again = table.erase([erase_scope(7)])
    assert (again.run_id, again.version) == (None, receipt.version)


@beside_the_table
def test_an_erasure_is_refused_while_a_run_is_under_way(table: MemoryTable) -> None:
    fill_table(table, range(2))
    now = (table.commit_time + timedelta(seconds=1)).isoformat()
    fill_run(table, "busy", range(2), status="running", heartbeat_at=now)
    with pytest.raises(TableError, match="'busy' is under way"):
        table.erase([erase_scope(1)])
    assert table.count(scope_of(1)) == 2
    assert Plan(table.uri, "busy").actions().num_rows == 2


@beside_the_table
def test_journals_elsewhere_are_erased_and_searched_where_they_are_named(
    table: MemoryTable, tmp_path: Path
) -> None:
    fill_table(table, range(2))
    fill_journal(str(tmp_path / "elsewhere"), range(2))
    receipt = table.erase([erase_scope(1)], journals=[str(tmp_path / "elsewhere")])
    assert (receipt.removed.replies, receipt.is_complete) == (1, True)
    assert traces_of(str(tmp_path / "elsewhere"), marker_of(1)) == []
    assert traces_of(str(tmp_path / "elsewhere"), marker_of(0))


@beside_the_table
def test_a_file_that_nobody_knows_of_and_that_holds_the_text_is_told(table: MemoryTable) -> None:
    fill_table(table, range(2))
    stray = Path(table.uri) / "notes.txt"
    stray.write_text(f"He said {marker_of(1)} to {key_of(1)}")
    receipt = table.erase([erase_scope(1)])
    assert not receipt.is_complete
    assert [each.path for each in receipt.checked.left] == [str(stray)]


@beside_the_table
def test_a_batch_that_was_not_sent_goes_whole_and_of_one_that_was_the_replies_are_ignored(
    table: MemoryTable,
) -> None:
    fill_table(table, range(2))
    fill_batches(table, range(2), "written")
    sent = fill_batches(table, range(2), "created")
    table.erase([erase_scope(1)])
    batches = BatchFolder(Path(table.uri) / "batches")
    assert [each.name for each in batches.records()] == [sent.name]
    assert list(batches.keys(sent.name).values()) == [key_of(0)]


@beside_the_table
def test_what_killed_processes_left_half_written_goes(table: MemoryTable) -> None:
    fill_all(table, range(2))
    left = [
        Path(table.uri) / "runs" / "r1" / ".run.json.new",
        Path(table.uri) / "batches" / ".new-999999999-x-results",
        Path(table.uri) / "batches" / "nameless.jsonl",
    ]
    for path in left:
        path.write_text(marker_of(1))
    assert table.erase([erase_scope(1)]).is_complete
    assert not any(path.exists() for path in left)


@beside_the_table
def test_to_forget_with_purge_is_to_erase(table: MemoryTable) -> None:
    fill_all(table, range(3))
    memory_id = minted(f"First {marker_of(1)}", scope_of(1))
    assert table.forget(memory_id, purge=True).deleted == 1
    assert table.forget(scope=scope_of(2), purge=True).deleted == 2
    assert traces_of(table.uri, marker_of(1), marker_of(2)) == []
    assert table.forget(scope=scope_of(2), purge=True).outcome == "nothing"
    (Path(table.uri) / "notes.txt").write_text(f"Second {marker_of(0)}")
    with pytest.raises(TableError, match=r"found again in 1 file, .*notes\.txt"):
        table.forget(scope=scope_of(0), purge=True)


class _Killed(Exception):  # noqa: N818  # it stands for an end, not for an error
    """The process ends here."""


class _FailingStorage:
    """A storage whose purge ends the process."""

    def __init__(self, storage: Storage) -> None:
        self._storage = storage

    def __getattr__(self, name: str) -> Any:
        return getattr(self._storage, name)

    def purge(self) -> None:
        raise _Killed


def test_an_erasure_that_was_killed_is_completed_by_repeating_it(table: MemoryTable) -> None:
    fill_all(table, range(3))
    failing: Any = _FailingStorage(table._storage)
    request = EraseRequest(source_id=message_of(1))
    with pytest.raises(_Killed):
        MemoryTable(table.uri, failing, SteppingClock()).erase([request])
    assert traces_of(table.uri, marker_of(1))
    assert table.erase([request]).is_complete
    assert traces_of(table.uri, marker_of(1), message_of(1)) == []


class _KeepingStorage(_FailingStorage):
    """A storage whose purge does nothing."""

    def purge(self) -> None:
        return


def test_the_search_sees_rows_that_are_only_marked_as_deleted_and_old_versions(
    table: MemoryTable,
) -> None:
    fill_table(table, range(3))
    keeping: Any = _KeepingStorage(table._storage)
    receipt = MemoryTable(table.uri, keeping, SteppingClock()).erase([erase_scope(1)])
    assert not receipt.is_complete
    assert sum(each.rows for each in receipt.checked.left) >= 3
    assert all(each.texts for each in receipt.checked.left)
    assert table.erase([erase_scope(1)]).is_complete


@beside_the_table
def test_ledger_files_of_commits_that_failed_go_too(table: MemoryTable) -> None:
    fill_table(table, range(3))
    (named,) = (Path(table.uri) / "ledger").iterdir()
    left = named.with_name("left.parquet")
    left.write_bytes(named.read_bytes())
    others = named.with_name("others.parquet")
    pq.write_table(pq.read_table(named).slice(0, 1), others)
    assert table.erase([erase_scope(1)]).is_complete
    assert (left.exists(), others.exists()) == (False, True)


@beside_the_table
def test_no_request_is_refused(table: MemoryTable) -> None:
    with pytest.raises(InvalidArgumentError, match="at least one"):
        table.erase([])


def test_indexes_and_tags_keep_nothing(tmp_path: Path) -> None:
    table = MemoryTable.open(tmp_path / "table", backend="lance")
    fill_table(table, range(20))
    dataset = lance.dataset(f"{table.uri}/memories.lance")
    dataset.create_scalar_index("scope_key", "BTREE")
    dataset.create_scalar_index("search_text", "INVERTED")
    dataset.tags.create("keep", dataset.version)
    receipt = table.erase([erase_scope(7)])
    assert receipt.is_complete
    assert traces_of(table.uri, marker_of(7), key_of(7)) == []


def test_nothing_is_erased_where_what_is_left_could_not_be_searched() -> None:
    storage, clock = memory_table()._storage, SteppingClock()
    request = EraseRequest(scope=USER)
    MemoryTable("memory://table", storage, clock).commit(actions(add("Likes tea")), run_id="a")
    with pytest.raises(InvalidArgumentError, match="Nothing was erased"):
        erase(storage, "memory://table", [request], clock=clock)
    assert MemoryTable("", storage, clock).count() == 1
