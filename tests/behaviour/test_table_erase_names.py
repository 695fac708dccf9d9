"""Names that tell who somebody is go with what is erased, wherever the table wrote them."""

import json
from pathlib import Path

import pytest

from memorypipe.errors import TableError
from memorypipe.pipeline.imports.importing import apply_import, plan_import
from memorypipe.pipeline.imports.mapping import make_mapping
from memorypipe.pipeline.plans.plan import Plan
from memorypipe.pipeline.runs.folder import RunFolder
from memorypipe.table.erasing.commit import find_rows
from memorypipe.table.erasing.requests import EraseRequest
from memorypipe.table.erasing.sweep import sweep
from memorypipe.table.forget import Forget, Forgotten
from memorypipe.table.restore import Restore
from memorypipe.table.table import MemoryTable
from memorypipe.table.transaction import transact
from tests.support.table_actions import SteppingClock, actions, add, ledger, minted

TEA = minted("Likes tea")
BOB = {"user_id": "bob"}
ERASE_TEA = EraseRequest(memory_id=TEA)

beside_the_table = pytest.mark.parametrize("backend", ["parquet"])


def _forget(table: MemoryTable, memory_id: str) -> None:
    table.forget(memory_id)


def _restore(table: MemoryTable, memory_id: str) -> None:
    table.forget(memory_id)
    table.restore(memory_id)


def _undo_forgetting(table: MemoryTable, memory_id: str) -> None:
    table.forget(memory_id)
    table.undo(_last_run(table))


def _forget_as_of_old(table: MemoryTable, memory_id: str) -> None:
    what = Forgotten(memory_id=memory_id)
    transact(table._storage, Forget(run_id=f"forget-{memory_id}", what=what), table._clock)


def _restore_as_of_old(table: MemoryTable, memory_id: str) -> None:
    _forget_as_of_old(table, memory_id)
    restore = Restore(run_id=f"restore2-{memory_id}", memory_id=memory_id)
    transact(table._storage, restore, table._clock)


def _undo_as_of_old(table: MemoryTable, memory_id: str) -> None:
    _forget_as_of_old(table, memory_id)
    table.undo(f"forget-{memory_id}")
    table.undo(f"undo-forget-{memory_id}")


def _last_run(table: MemoryTable) -> str:
    return str(table.runs()["run_id"].to_pylist()[-1])


def _holding(table: MemoryTable, *words: str) -> list[str]:
    return [
        str(path)
        for path in sorted(Path(table.uri).rglob("*"))
        if path.is_file() and any(word.encode() in path.read_bytes() for word in words)
    ]


_WAYS = (
    _forget,
    _restore,
    _undo_forgetting,
    _forget_as_of_old,
    _restore_as_of_old,
    _undo_as_of_old,
)


@pytest.mark.parametrize(
    ("backend", "by"), [("lance", "memory"), ("parquet", "memory"), ("parquet", "scope")]
)
def test_what_was_forgotten_or_restored_by_its_id_can_be_erased(
    table: MemoryTable, by: str
) -> None:
    adds = [add(f"Likes tea {way.__name__}") for way in _WAYS]
    # A caller's own id may be short.
    adds[-1]["memory_id"] = "m1"
    names = [str(each["memory_id"]) for each in adds]
    table.commit(actions(*adds, add("Likes tea", scope=BOB)), run_id="r1")
    for way, name in zip(_WAYS, names, strict=True):
        way(table, name)
    of_all = EraseRequest(scope={"user_id": "u1"})
    requests = [of_all] if by == "scope" else [EraseRequest(memory_id=name) for name in names]
    receipt = table.erase(requests)
    assert (receipt.is_complete, receipt.removed.memories) == (True, len(_WAYS))
    assert _holding(table, *names[:-1], "forget-m1") == []
    assert table.count(BOB) == 1


@beside_the_table
def test_runs_that_forget_or_restore_a_memory_do_not_name_it(table: MemoryTable) -> None:
    table.commit(actions(add("Likes tea"), add("Has a dog")), run_id="r1")
    _restore(table, TEA)
    table.forget(minted("Has a dog"))
    _, forgot, restored, other = table.runs()["run_id"].to_pylist()
    assert not any(TEA in name for name in (forgot, restored))
    assert forgot.removeprefix("forget-") == restored.removeprefix("restore-")
    assert forgot != other


def test_a_run_that_its_caller_named_after_what_is_erased_gets_another_name_everywhere(
    table: MemoryTable,
) -> None:
    batch = actions(add("Likes tea"), add("Likes chess", scope=BOB))
    rows = ledger("m1", scope=BOB)
    named = f"about-{TEA}"
    table.commit(batch, run_id=named, part=0, ledger=rows)
    table.commit(actions(add("Has a dog", scope=BOB)), run_id=named, part=1)
    assert table.erase([ERASE_TEA]).is_complete
    assert _holding(table, TEA) == []

    first, second, _ = table.runs()["run_id"].to_pylist()
    assert first == second
    assert set(table.to_arrow()["run_id"].to_pylist()) == {first}
    assert len(table.ledger_keys()) == 1
    # Committed again, it is still known; and who sees its name can undo it.
    assert table.commit(batch, run_id=named, ledger=rows).outcome == "already_landed"
    assert table.undo(first).deleted == 2
    assert table.count() == 0


class _Keeping:
    """A storage whose purge does nothing."""

    def __init__(self, storage: object) -> None:
        self._storage = storage

    def __getattr__(self, name: str) -> object:
        return getattr(self._storage, name)

    def purge(self) -> None:
        return


def test_nobody_is_told_to_remove_files_that_the_table_needs(table: MemoryTable) -> None:
    table.commit(actions(add("Likes tea"), add("Likes chess", scope=BOB)), run_id="r1")
    keeping = MemoryTable(table.uri, _Keeping(table._storage), SteppingClock())  # type: ignore[arg-type]  # all of a storage but its purge
    with pytest.raises(TableError, match=r"found again in \d+ files?, .*[Nn]ever remove") as caught:
        keeping.forget(TEA, purge=True)
    assert "Remove these" not in str(caught.value)


# A constant scope, and one that the records give.
@beside_the_table
@pytest.mark.parametrize(("name", "constant"), [("alice-smith", True), ("u1", True), ("u1", False)])
def test_neither_run_rows_nor_manifests_keep_whose_import_it_was(
    table: MemoryTable, tmp_path: Path, name: str, *, constant: bool
) -> None:
    path = tmp_path / f"of-{name}.jsonl"
    path.write_text(json.dumps({"text": "Likes tea", "user_id": name, "app": "desk-app"}) + "\n")
    scope = {"user_id": f"={name}" if constant else "user_id", "agent_id": "=desk-app"}
    plan = plan_import(table.uri, str(path), make_mapping("jsonl", scope=scope))
    apply_import(plan)
    others = {"user_id": "bob", "agent_id": "desk-app"}
    table.commit(actions(add("Likes chess", scope=others)), run_id="r2", info={"app": "desk-app"})
    receipt = table.erase([EraseRequest(scope={"user_id": name, "agent_id": "desk-app"})])
    assert receipt.is_complete
    assert _holding(table, f"={name}", f"of-{name}.jsonl") == []
    # What a scope that stays has too is no name of whom was erased.
    assert "desk-app" in table.runs()["info"].to_pylist()[1]
    source = Plan(table.uri, plan.run_id).manifest["source"]
    assert source["scope"]["agent_id"] == "=desk-app"


@beside_the_table
def test_the_run_row_of_an_import_holds_neither_constants_nor_the_path(
    table: MemoryTable, tmp_path: Path
) -> None:
    path = tmp_path / "export-of-alice.jsonl"
    path.write_text(json.dumps({"text": "Likes tea", "agent": "a"}) + "\n")
    scope = {"user_id": "=alice-smith", "agent_id": "agent"}
    apply_import(plan_import(table.uri, str(path), make_mapping("jsonl", scope=scope)))
    (info,) = table.runs()["info"].to_pylist()
    assert "alice" not in info
    told = json.loads(info)
    assert told["records"] == 1
    assert told["source"]["source"] == "jsonl"
    assert told["source"]["scope"] == {"user_id": "=", "agent_id": "agent"}


@beside_the_table
def test_run_rows_that_an_older_version_wrote_lose_names_and_the_search_looks_for_them(
    table: MemoryTable,
) -> None:
    scope = {"user_id": "alice-smith"}
    info = {"source": {"path": "/out/alice-smith.jsonl", "scope": {"user_id": "=alice-smith"}}}
    table.commit(actions(add("Likes tea", scope=scope)), run_id="r1", info=info)
    (Path(table.uri) / "notes.txt").write_text("about alice-smith")
    receipt = table.erase([EraseRequest(scope=scope)])
    assert "alice" not in str(table.runs().to_pylist())
    assert [Path(each.path).name for each in receipt.checked.left] == ["notes.txt"]


def _rejects(table: MemoryTable, *excerpts: str) -> Path:
    folder = RunFolder.of(table.uri, "r1")
    folder.path.mkdir(parents=True)
    rejects = [
        {"source": "log.jsonl", "line": line, "reason": "no JSON", "excerpt": excerpt}
        for line, excerpt in enumerate(excerpts, start=1)
    ]
    folder.write_lines("rejects", rejects)
    return folder.path / "rejects.jsonl"


# How a line that nobody could read may say whose it is.
_QUOTES = (
    '{{"user_id":"{}","text":"I have cancer',
    '{{"user": {}, "text":"I have cancer',
    '{{"reply":"{{\\"user_id\\": \\"{}\\", I have cancer',
    "user={} text=I have cancer",
    '{{"text":"I have cancer","user_id":"{}',
    "{}",
)


@beside_the_table
@pytest.mark.parametrize(
    ("name", "by"),
    [("u1", "scope"), ("u1", "memory"), ("42", "scope"), ("person-00001", "scope")],
)
def test_rejects_that_name_whom_was_erased_go_however_short_the_name_is(
    table: MemoryTable, name: str, by: str
) -> None:
    scope = {"user_id": name}
    table.commit(actions(add("Likes tea", scope=scope), add("Likes chess", scope=BOB)), run_id="r")
    mine = [quote.format(name) for quote in _QUOTES]
    others = [quote.format(each) for quote in _QUOTES for each in ("bob", f"{name}1"[::-1])]
    path = _rejects(table, *mine, *others)
    memory_id = minted("Likes tea", scope)
    request = EraseRequest(scope=scope) if by == "scope" else EraseRequest(memory_id=memory_id)
    receipt = table.erase([request])
    assert receipt.is_complete
    assert receipt.removed.run_file_rows == len(mine)
    kept = [json.loads(line)["excerpt"] for line in path.read_text().splitlines()]
    assert kept == others


@beside_the_table
def test_the_search_looks_into_rejects_for_short_names(table: MemoryTable) -> None:
    table.commit(actions(add("Likes tea")), run_id="r")
    path = _rejects(table, '{"user_id":"u1", "text": "I')
    targets = find_rows(table._storage.snapshot(), [EraseRequest(scope={"user_id": "u1"})]).targets
    (left,) = (
        each for each in sweep([table.uri], targets, (), journals=()).left if "runs" in each.path
    )
    assert (left.path, left.rows) == (str(path), 1)


@beside_the_table
def test_a_receipt_says_what_a_search_for_short_names_covers(table: MemoryTable) -> None:
    table.commit(actions(add("Likes tea")), run_id="r1")
    told = table.erase([EraseRequest(scope={"user_id": "u1"})]).to_dict()["not_reached"]
    assert any("shorter than 8 bytes" in each for each in told)
    assert any("rejects" in each for each in told)
    table.commit(actions(add("Likes tea", scope={"user_id": "person-00001"})), run_id="r2")
    told = table.erase([EraseRequest(scope={"user_id": "person-00001"})]).to_dict()["not_reached"]
    assert not any("shorter than 8 bytes" in each for each in told)
