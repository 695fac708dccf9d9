"""Another store is taken over as a plan: once, whole, and provably."""

import json
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from memorypipe.errors import InvalidArgumentError, PlanError
from memorypipe.llm.embed.types import Matrix
from memorypipe.pipeline.imports.importing import apply_import, is_import, plan_import
from memorypipe.pipeline.imports.mapping import ImportMapping, make_mapping
from memorypipe.pipeline.imports.verify import verify_import
from memorypipe.pipeline.plans.plan import Plan
from memorypipe.pipeline.runs.summary import RunSummary
from memorypipe.schema import ACTION_OPTIONS
from memorypipe.table.table import MemoryTable
from tests.support.embeddings import HashEmbedder, hash_vector
from tests.support.table_actions import SteppingClock, actions, add, delete, minted, update

_MEM0 = make_mapping("mem0")
_ALICE = {"user_id": "alice"}
# What an import decides is the same on every back end.
_ON_LANCE = pytest.mark.parametrize("backend", ["lance"])
# What an import cannot keep: when and by which run the revision was made.
_BOOKKEEPING = {"revision", "event", "valid_from", "run_id", "labels"}


def _unit(vector: Matrix) -> list[float]:
    return list((vector / np.linalg.norm(vector)).tolist())


Import = Callable[..., RunSummary]


@pytest.fixture
def table(tmp_path: Path, backend: str) -> MemoryTable:
    return MemoryTable.open(tmp_path / "table", backend=backend, clock=SteppingClock())


@pytest.fixture
def take_over(table: MemoryTable) -> Import:
    """Plan an import into the table, and apply it."""

    def run(path: Path, mapping: ImportMapping = _MEM0, **options: Any) -> RunSummary:
        clock = SteppingClock(datetime(2030, 1, 1, tzinfo=UTC))
        return apply_import(
            plan_import(table.uri, str(path), mapping, clock=clock, **options), clock=clock
        )

    return run


def _write(path: Path, *records: Any) -> Path:
    path.write_text("\n".join(json.dumps(record) for record in records) + "\n")
    return path


def _record(name: str, text: str, **more: Any) -> dict[str, Any]:
    return {
        "id": name,
        "memory": text,
        "user_id": "alice",
        "created_at": "2024-01-01T00:00:00Z",
        **more,
    }


@pytest.mark.parametrize("form", ["parquet", "jsonl"])
def test_an_export_with_history_gives_the_same_live_rows_in_an_empty_table(
    table: MemoryTable, take_over: Import, tmp_path: Path, form: str
) -> None:
    source = MemoryTable.open(tmp_path / "source", clock=SteppingClock())
    first = (
        add("Likes tea", event_time=datetime(2024, 3, 1, tzinfo=UTC), topics=["a"]),
        add("Has a dog", source_ids=["m1"], conversation_id="c", rationale="said so", model="m"),
        add("Lives in Oslo", scope={"user_id": 'a"=&', "agent_id": "b"}),
        add("Unscoped", scope={}),
    )
    source.commit(actions(*first), run_id="r1", labels={"by": "test"})
    changes = (update(minted("Likes tea"), "Likes coffee"), delete(minted("Has a dog")))
    source.commit(actions(*changes), run_id="r2")
    source.export(tmp_path / "out", form, live=False)
    summary = take_over(tmp_path / "out", make_mapping(form))
    assert (summary.added, summary.rejected_lines, summary.status) == (3, 0, "done")
    names = [name for name in source.to_arrow().column_names if name not in _BOOKKEEPING]
    assert table.to_arrow(columns=names).to_pylist() == source.to_arrow(columns=names).to_pylist()
    assert set(table.to_arrow()["event"].to_pylist()) == {"IMPORT"}
    (run,) = table.runs().to_pylist()
    assert (run["kind"], run["added"]) == ("import", 3)
    assert verify_import(table, str(tmp_path / "out"), make_mapping(form)).found == 3


def test_importing_twice_changes_nothing(
    table: MemoryTable, take_over: Import, tmp_path: Path
) -> None:
    path = _write(tmp_path / "m.jsonl", _record("a", "Likes tea"), _record("b", "Has a dog"))
    take_over(path)
    before = table.to_arrow(include=("live", "history", "deleted"))
    again = take_over(path)
    assert (again.added, again.updated, again.none) == (0, 0, 2)
    assert table.version == 1
    assert table.to_arrow(include=("live", "history", "deleted")).equals(before)


def test_ids_times_and_external_ids_depend_on_the_export_alone(
    table: MemoryTable, take_over: Import, tmp_path: Path
) -> None:
    take_over(_write(tmp_path / "m.jsonl", _record("a", "Likes tea")))
    row = table.get(minted("Likes tea", _ALICE))
    assert row is not None
    assert (row["external_id"], row["created_at"]) == ("a", datetime(2024, 1, 1, tzinfo=UTC))
    assert row["updated_at"] == row["event_time"] == row["created_at"]
    assert row["valid_from"].year == 2030


def test_a_later_export_adds_what_is_new_and_updates_what_says_something_else(
    table: MemoryTable, take_over: Import, tmp_path: Path
) -> None:
    take_over(_write(tmp_path / "m.jsonl", _record("a", "Likes tea"), _record("b", "Has a dog")))
    later = _write(
        tmp_path / "later.jsonl",
        _record("a", "Likes coffee", updated_at="2024-02-01"),
        _record("b", "Has a dog"),
        _record("c", "Plays chess"),
    )
    found = verify_import(table, str(later), _MEM0)
    assert (found.found, found.differs, found.missing) == (1, 1, 1)
    assert not found.is_complete
    summary = take_over(later)
    assert (summary.added, summary.updated, summary.none) == (1, 1, 1)
    row = table.get(minted("Likes tea", _ALICE))
    assert row is not None
    assert (row["text"], row["external_id"], row["event"]) == ("Likes coffee", "a", "UPDATE")
    assert row["created_at"] == datetime(2024, 1, 1, tzinfo=UTC)
    assert verify_import(table, str(later), _MEM0).is_complete


def test_what_changed_or_went_here_since_stays_so_and_is_told(
    table: MemoryTable, take_over: Import, tmp_path: Path
) -> None:
    path = _write(tmp_path / "m.jsonl", _record("a", "Likes tea"), _record("b", "Has a dog"))
    take_over(path)
    tea, dog = minted("Likes tea", _ALICE), minted("Has a dog", _ALICE)
    here = (
        update(tea, "Likes coffee", scope=_ALICE),
        delete(dog, scope=_ALICE),
    )
    table.commit(actions(*here), run_id="here")
    summary = take_over(path)
    assert (summary.added, summary.updated, summary.none) == (0, 0, 2)
    assert table.to_arrow()["text"].to_pylist() == ["Likes coffee"]
    found = verify_import(table, str(path), _MEM0)
    assert found.is_complete
    assert [each.standing for each in found.absent] == ["changed_here", "deleted_here"]


def test_what_was_deleted_here_does_not_come_back_when_the_store_says_it_otherwise(
    table: MemoryTable, take_over: Import, tmp_path: Path
) -> None:
    take_over(_write(tmp_path / "m.jsonl", _record("a", "Has a dog")))
    gone = delete(minted("Has a dog", _ALICE), scope=_ALICE)
    table.commit(actions(gone), run_id="here")
    later = _write(tmp_path / "later.jsonl", _record("a", "Has two dogs"))
    planned = plan_import(table.uri, str(later), _MEM0)
    assert planned.actions()["event"].to_pylist() == ["NONE"]
    assert "deleted here" in planned.actions()["rationale"][0].as_py()
    assert verify_import(table, str(later), _MEM0).deleted_here == 1


def test_two_records_that_say_the_same_are_one_memory_and_both_are_accounted_for(
    table: MemoryTable, take_over: Import, tmp_path: Path
) -> None:
    path = _write(tmp_path / "m.jsonl", _record("a", "Likes tea"), _record("b", "likes  tea"))
    summary = take_over(path)
    assert (summary.added, summary.none, table.count()) == (1, 1, 1)
    found = verify_import(table, str(path), _MEM0)
    assert (found.records, found.found, found.is_complete) == (2, 2, True)


def test_what_cannot_be_read_is_listed_with_its_number_and_the_rest_lands(
    table: MemoryTable, take_over: Import, tmp_path: Path
) -> None:
    path = _write(
        tmp_path / "m.jsonl",
        _record("a", "Likes tea"),
        _record("b", " "),
        _record("a", "Likes coffee"),
    )
    with path.open("a") as stream:
        stream.write("{broken\n")
    summary = take_over(path, run_id="mine")
    assert (summary.added, summary.rejected_lines, summary.status) == (1, 3, "partial")
    lines = (Path(table.uri) / "runs" / "mine" / "rejects.jsonl").read_text().splitlines()
    assert [(json.loads(line)["line"]) for line in lines] == [2, 3, 4]
    assert "stands for line 1 already" in lines[1]
    found = verify_import(table, str(path), _MEM0)
    assert [(each.line, each.standing) for each in found.absent] == [
        (n, "rejected") for n in (2, 3, 4)
    ]
    assert found.is_complete


def test_a_plan_commits_nothing_and_survives_until_it_is_applied(
    table: MemoryTable, tmp_path: Path
) -> None:
    path = _write(tmp_path / "m.jsonl", _record("a", "Likes tea"))
    planned = plan_import(table.uri, str(path), _MEM0, run_id="mine")
    assert (table.version, planned.summary().status, planned.summary().added) == (0, "planned", 1)
    read = Plan(table.uri, "mine")
    assert is_import(read)
    assert read.actions()["event"].to_pylist() == ["ADD"]
    assert apply_import(read).added == 1
    # Applied once more, as after a crash that nobody saw the end of.
    assert apply_import(read).added == 1
    assert (table.version, table.count()) == (1, 1)
    with pytest.raises(PlanError, match="committed already"):
        plan_import(table.uri, str(path), _MEM0, run_id="mine")


def test_a_scope_that_changed_after_the_plan_is_held_back_and_the_others_land(
    table: MemoryTable, take_over: Import, tmp_path: Path
) -> None:
    first = (_record("a", "Likes tea"), _record("b", "Has a dog", user_id="bob"))
    take_over(_write(tmp_path / "m.jsonl", *first))
    later = (_record("a", "Likes milk"), _record("b", "Has two dogs", user_id="bob"))
    planned = plan_import(table.uri, str(_write(tmp_path / "later.jsonl", *later)), _MEM0)
    tea = update(minted("Likes tea", _ALICE), "Likes coffee", scope=_ALICE)
    table.commit(actions(tea), run_id="here")
    summary = apply_import(planned)
    assert summary.status == "held"
    assert list(summary.held_back) == ['[["user_id","alice"]]']
    assert set(table.to_arrow()["text"].to_pylist()) == {"Likes coffee", "Has two dogs"}


@pytest.mark.parametrize("seed", ["a", "b"])
def test_vectors_are_taken_over_where_the_same_embedder_made_them(
    tmp_path: Path, backend: str, seed: str
) -> None:
    source = MemoryTable.open(tmp_path / "source", backend=backend, embedder=HashEmbedder())
    source.commit(actions(add("Likes tea"), add("Has a dog")), run_id="r")
    source.export(tmp_path / "out.parquet")
    own = HashEmbedder(seed=seed)
    table = MemoryTable.open(tmp_path / "table", backend=backend, embedder=own)
    mapping = make_mapping("parquet")
    apply_import(plan_import(table.uri, str(tmp_path / "out.parquet"), mapping), embedder=own)
    assert sum(map(len, own.asked)) == (0 if seed == "a" else 2)
    rows = table.to_arrow(columns=["text", "vector"]).to_pylist()
    assert [row["vector"] for row in rows] == [
        pytest.approx(_unit(hash_vector(row["text"], 4, seed))) for row in rows
    ]
    with pytest.raises(InvalidArgumentError, match=f"'other', those of the table by '{own.name}'"):
        plan_import(table.uri, str(tmp_path / "out.parquet"), mapping, vectors_by="other")


def _mapping(store: str | None = None, name: str = "external_id") -> ImportMapping:
    return make_mapping(
        "jsonl",
        fields={name: "id", "text": "memory"},
        scope={"user_id": "user_id"},
        store=store,
    )


def _live(table: MemoryTable) -> list[str]:
    return sorted(table.to_arrow()["text"].to_pylist())


@_ON_LANCE
def test_the_same_id_in_another_store_is_another_memory(
    table: MemoryTable, take_over: Import, tmp_path: Path
) -> None:
    first = _write(tmp_path / "crm.jsonl", _record("1", "Likes tea"))
    other = _write(tmp_path / "app.jsonl", _record("1", "Works at the bakery"))
    later = _write(tmp_path / "later.jsonl", _record("1", "Likes coffee"))
    take_over(first, _mapping("crm"))
    assert take_over(other, _mapping("app")).added == 1
    assert _live(table) == ["Likes tea", "Works at the bakery"]
    assert take_over(later, _mapping("crm")).updated == 1
    assert _live(table) == ["Likes coffee", "Works at the bakery"]
    assert take_over(other, _mapping("app")).none == 1


@_ON_LANCE
@pytest.mark.parametrize(
    ("name", "store"), [("external_id", None), ("memory_id", None), ("memory_id", "app")]
)
def test_an_id_of_a_store_that_nobody_named_changes_nothing_unless_that_is_asked_for(
    table: MemoryTable, take_over: Import, tmp_path: Path, name: str, store: str | None
) -> None:
    take_over(_write(tmp_path / "a.jsonl", _record("1", "Likes tea")), _mapping(None, name))
    path = _write(tmp_path / "b.jsonl", _record("1", "Has a dog"), _record("2", "Runs"))
    mapping = _mapping(store, name)
    summary = take_over(path, mapping, run_id="mine")
    assert (summary.added, summary.updated, summary.rejected_lines) == (1, 0, 1)
    assert _live(table) == ["Likes tea", "Runs"]
    rejects = (Path(table.uri) / "runs" / "mine" / "rejects.jsonl").read_text()
    assert "'1' stands for another text in the table" in rejects
    assert "--store" in rejects
    assert "Has a dog" in rejects
    found = verify_import(table, str(path), mapping)
    assert (found.found, found.differs, found.is_complete) == (1, 1, False)
    assert take_over(path, mapping, update=True).updated == 1
    assert _live(table) == ["Has a dog", "Runs"]


@_ON_LANCE
def test_what_the_store_says_again_after_something_else_is_said_again_here(
    table: MemoryTable, take_over: Import, tmp_path: Path
) -> None:
    texts = ("Lives in Rome", "Lives in Oslo", "Lives in Rome")
    for number, text in enumerate(texts):
        path = _write(tmp_path / f"{number}.jsonl", _record("a", text))
        if number == 2:
            assert verify_import(table, str(path), _MEM0).differs == 1
        take_over(path)
        assert _live(table) == [text]
        assert verify_import(table, str(path), _MEM0).is_complete


@_ON_LANCE
def test_an_export_from_before_the_newest_takes_nothing_back(
    table: MemoryTable, take_over: Import, tmp_path: Path
) -> None:
    old = _write(tmp_path / "old.jsonl", _record("a", "Lives in Rome"))
    new = _write(tmp_path / "new.jsonl", _record("a", "Lives in Oslo", updated_at="2024-02-01"))
    take_over(old)
    take_over(new)
    assert take_over(old).none == 1
    assert _live(table) == ["Lives in Oslo"]
    assert verify_import(table, str(old), _MEM0).changed_here == 1


@_ON_LANCE
def test_what_was_taken_back_here_stays_so_when_the_same_export_comes_again(
    table: MemoryTable, take_over: Import, tmp_path: Path
) -> None:
    take_over(_write(tmp_path / "a.jsonl", _record("a", "Lives in Rome")))
    later = _write(tmp_path / "b.jsonl", _record("a", "Lives in Oslo"))
    take_over(later, run_id="second")
    table.undo("second")
    assert take_over(later).none == 1
    assert _live(table) == ["Lives in Rome"]


@_ON_LANCE
def test_a_new_record_may_say_what_another_one_said_before(
    table: MemoryTable, take_over: Import, tmp_path: Path
) -> None:
    take_over(_write(tmp_path / "a.jsonl", _record("a", "Likes tea")))
    take_over(_write(tmp_path / "b.jsonl", _record("a", "Likes milk")))
    both = _write(tmp_path / "c.jsonl", _record("a", "Likes milk"), _record("b", "Likes tea"))
    assert verify_import(table, str(both), _MEM0).missing == 1
    assert take_over(both).added == 1
    assert _live(table) == ["Likes milk", "Likes tea"]


@_ON_LANCE
def test_an_id_that_stands_twice_is_seen_across_files(
    table: MemoryTable, take_over: Import, tmp_path: Path
) -> None:
    (tmp_path / "all").mkdir()
    for name, text in (("a", "Likes tea"), ("b", "Has a dog")):
        _write(tmp_path / "all" / f"{name}.jsonl", _record("7", text))
    summary = take_over(tmp_path / "all", run_id="mine")
    assert (summary.added, summary.rejected_lines) == (1, 1)
    rejects = (Path(table.uri) / "runs" / "mine" / "rejects.jsonl").read_text()
    assert "line 1 of " in rejects
    assert "a.jsonl already" in rejects


def _own_vectors(place: Path, backend: str, dim: int) -> MemoryTable:
    return MemoryTable.open(place, backend=backend, vector_dim=dim, clock=SteppingClock())


def _with_vectors(*vectors: list[float] | None) -> pa.Table:
    rows = actions(*(add(f"Text {number}") for number in range(len(vectors))))
    return rows.append_column("vector", pa.array(vectors, ACTION_OPTIONS.field("vector").type))


@pytest.mark.parametrize(("form", "said"), [("parquet", None), ("jsonl", "none")])
def test_the_callers_own_vectors_go_along(
    tmp_path: Path, backend: str, form: str, said: str | None
) -> None:
    source = _own_vectors(tmp_path / "source", backend, 4)
    source.commit(_with_vectors([0.5, 0.0, 0.0, 2.0], None), run_id="r")
    source.export(tmp_path / "out", form)
    table = _own_vectors(tmp_path / "table", backend, 4)
    planned = plan_import(table.uri, str(tmp_path / "out"), make_mapping(form), vectors_by=said)
    apply_import(planned)
    columns = ["text", "vector"]
    assert table.to_arrow(columns=columns).sort_by("text").to_pylist() == [
        {"text": "Text 0", "vector": [0.5, 0.0, 0.0, 2.0]},
        {"text": "Text 1", "vector": None},
    ]
    assert planned.manifest["vectors_left_out"] == 0


@_ON_LANCE
@pytest.mark.parametrize(("dim", "embedder"), [(5, None), (4, HashEmbedder())])
def test_the_callers_own_vectors_that_do_not_fit_are_left_out_and_counted(
    tmp_path: Path, backend: str, dim: int, embedder: HashEmbedder | None
) -> None:
    source = _own_vectors(tmp_path / "source", backend, 4)
    source.commit(_with_vectors([0.5, 0.0, 0.0, 2.0], None), run_id="r")
    source.export(tmp_path / "out.parquet")
    table = MemoryTable.open(tmp_path / "table", backend=backend, vector_dim=dim, embedder=embedder)
    path = str(tmp_path / "out.parquet")
    planned = plan_import(table.uri, path, make_mapping("parquet"))
    assert planned.manifest["vectors_left_out"] == 1
    assert apply_import(planned, embedder=embedder).added == 2
    rows = table.to_arrow(columns=["vector"]).to_pylist()
    assert all((row["vector"] is None) == (embedder is None) for row in rows)


@_ON_LANCE
def test_vectors_of_a_plan_from_before_the_table_moved_are_made_anew(
    tmp_path: Path, backend: str
) -> None:
    source = MemoryTable.open(tmp_path / "source", backend=backend, embedder=HashEmbedder())
    source.commit(actions(add("Likes tea")), run_id="r")
    source.export(tmp_path / "out.parquet")
    table = MemoryTable.open(tmp_path / "table", backend=backend, embedder=HashEmbedder())
    planned = plan_import(table.uri, str(tmp_path / "out.parquet"), make_mapping("parquet"))
    new = HashEmbedder(seed="b")
    table.reembed(new)
    apply_import(planned, embedder=new)
    assert table.to_arrow(columns=["vector"])["vector"].to_pylist() == [
        pytest.approx(_unit(hash_vector("Likes tea", 4, "b")))
    ]


def test_an_import_makes_a_new_table_of_the_back_end_that_its_plan_names(
    tmp_path: Path, backend: str
) -> None:
    path = str(_write(tmp_path / "m.jsonl", _record("a", "Likes tea")))
    new = str(tmp_path / "new")
    apply_import(plan_import(new, path, _MEM0, backend=backend))
    assert MemoryTable.open(new, backend=backend, create=False).count() == 1
    other = "lance" if backend == "parquet" else "parquet"
    with pytest.raises(InvalidArgumentError, match=f"has the back end '{backend}'"):
        plan_import(new, path, _MEM0, backend=other)
