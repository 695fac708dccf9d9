"""Finding rows of a Lance table by their keys, in ranges that are passed over side by side."""

from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc

from memorypipe.table.lance.locate import locate
from memorypipe.table.lance.storage import LanceStorage
from memorypipe.table.storage import ADDRESS, Where
from memorypipe.table.table import MemoryTable
from tests.support.table_actions import actions, add, delete, minted, update

SCOPES = [{"user_id": "u1"}, {"user_id": "u2", "agent_id": "a"}, {"team": "t"}, {}]
ROWS = 4500  # more than one worker takes
LEFT_OUT = frozenset({"search_text", "vector"})


def scope_of(number: int) -> dict[str, str]:
    return SCOPES[number % len(SCOPES)]


def filled(place: Path) -> LanceStorage:
    """Make a table of several fragments, some of whose rows were taken out."""
    table = MemoryTable.open(place, vector_dim=4)
    rows = [add(f"Said {n}", scope=scope_of(n), seq=n) for n in range(ROWS)]
    table.commit(actions(*rows), run_id="a")
    changed = [
        update(minted(f"Said {n}", scope_of(n)), f"Now {n}", scope=scope_of(n), seq=n)
        for n in range(0, ROWS, 500)
    ]
    gone = delete(minted("Said 7", scope_of(7)), scope=scope_of(7))
    table.commit(actions(*changed, gone), run_id="b")
    return LanceStorage(str(place))


def test_rows_are_found_alike_however_many_ranges_they_are_looked_for_in(tmp_path: Path) -> None:
    snapshot = filled(tmp_path).snapshot()
    stored = snapshot.scan([*snapshot.dataset.schema.names, ADDRESS], Where())
    names, none = pc.unique(stored["memory_id"]), pa.array([], pa.string())
    found = locate(snapshot.dataset, names, none, left_out=LEFT_OUT, range_rows=1)
    assert sorted(found.column_names) == sorted(set(stored.column_names) - LEFT_OUT)
    assert found.num_rows == stored.num_rows > ROWS
    by_address = [(ADDRESS, "ascending")]
    expected = stored.select(found.column_names).sort_by(by_address)
    assert found.sort_by(by_address).to_pylist() == expected.to_pylist()

    hashes = pc.unique(stored["text_hash"].slice(ROWS - 100))
    live = stored.filter(stored["is_live"])
    says = live.filter(pc.is_in(live["text_hash"], hashes))
    few = [
        locate(snapshot.dataset, none, hashes, left_out=LEFT_OUT, range_rows=n) for n in (1, 9999)
    ]
    for each in few:
        assert sorted(each[ADDRESS].to_pylist()) == sorted(says[ADDRESS].to_pylist())


def test_own_vectors_are_found_among_many_rows_without_one(tmp_path: Path) -> None:
    width = 2048  # a thousand vectors are taken at a time
    table = MemoryTable.open(tmp_path, vector_dim=width)
    own = {number: [1.0 + number] * width for number in (3, ROWS // 2, ROWS - 1)}
    rows = [add(f"Said {n}", scope=scope_of(n), seq=n, vector=own.get(n)) for n in range(ROWS)]
    table.commit(actions(*rows), run_id="a")
    snapshot = LanceStorage(str(tmp_path)).snapshot()
    names = snapshot.scan(["memory_id"], Where())["memory_id"].combine_chunks()
    none = pa.array([], pa.string())
    found = locate(snapshot.dataset, names, none, left_out=frozenset({"search_text"}))
    assert found.num_rows == ROWS
    given = found.filter(pc.is_valid(found["vector"])).select(["text", "vector"]).to_pylist()
    assert {row["text"]: row["vector"] for row in given} == {
        f"Said {number}": vector for number, vector in own.items()
    }
    without = names.filter(pc.not_equal(names, minted("Said 3", scope_of(3))))[:4]
    few = locate(snapshot.dataset, without, none, left_out=frozenset({"search_text"}))
    assert "vector" not in few.column_names
