"""Ids that several record types have: each record is one of its own, whoever has the others."""

import pytest

from memorypipe.errors import InvalidArgumentError
from memorypipe.table.table import MemoryTable
from tests.support.memory_table import memory_table
from tests.support.table_actions import actions, add, delete, update

ALICE, BOB = {"user_id": "alice"}, {"user_id": "bob"}
OWN = {"record_type": "memory", "memory_id": "1", "scope": ALICE}
OTHERS = {"record_type": "guideline", "memory_id": "1", "scope": BOB}


def fill(table: MemoryTable) -> None:
    """Give Alice and Bob a record each, of different types and with the same id."""
    own = add("Likes tea", **OWN, source_ids=["m1"])
    table.commit(actions(own, add("Be brief", **OTHERS, source_ids=["m2"])), run_id="r1")


def texts(table: MemoryTable) -> list[str]:
    return sorted(table.to_arrow(columns=["text"])["text"].to_pylist())


@pytest.mark.parametrize(
    "what",
    [
        {"scope": ALICE},
        {"source_id": "m1"},
        {"source_id": "m1", "scope": ALICE},
        {"memory_id": "1", "record_type": "memory"},
    ],
)
def test_forgetting_takes_only_what_is_named(what: dict[str, object]) -> None:
    table = memory_table()
    fill(table)
    assert (table.forget(**what).deleted, texts(table)) == (1, ["Be brief"])  # type: ignore[arg-type]  # cases
    again = actions(add("Be brief", **OTHERS | {"memory_id": "2"}, source_ids=["m2"]))
    assert table.commit(again, run_id="r2").duplicates == 1


def test_a_scope_is_forgotten_alone_on_every_back_end(table: MemoryTable) -> None:
    fill(table)
    assert (table.forget(scope=ALICE).deleted, texts(table)) == (1, ["Be brief"])


def test_an_id_of_several_records_is_not_forgotten_by_itself() -> None:
    table = memory_table()
    fill(table)
    with pytest.raises(InvalidArgumentError, match=r"'1'.*'guideline', 'memory'.*record_type"):
        table.forget("1")
    for record_type in (None, "memory"):
        with pytest.raises(InvalidArgumentError, match=r"'1'.*'guideline', 'memory'.*EraseRequest"):
            table.forget("1", record_type=record_type, purge=True)
    with pytest.raises(InvalidArgumentError, match=r"record_type='fact'.*memory_id"):
        table.forget(scope=ALICE, record_type="fact")
    assert table.version == 1


def test_an_id_of_several_records_is_not_restored_by_itself() -> None:
    table = memory_table()
    fill(table)
    table.forget(scope=ALICE)
    # Only one of them is deleted, so it is clear which is meant.
    assert (table.restore("1").added, texts(table)) == (1, ["Be brief", "Likes tea"])
    table.forget(scope=ALICE)
    table.forget(scope=BOB)
    with pytest.raises(InvalidArgumentError, match=r"'1'.*'guideline', 'memory'.*record_type"):
        table.restore("1")
    assert (table.restore("1", record_type="guideline").added, texts(table)) == (1, ["Be brief"])


def test_one_record_is_read_where_several_have_its_id() -> None:
    table = memory_table()
    fill(table)
    table.commit(actions(update("1", "Likes coffee", scope=ALICE)), run_id="r2")
    for chosen in ({"record_type": "memory"}, {"scope": ALICE}):
        row = table.get("1", **chosen)
        assert row is not None
        assert row["text"] == "Likes coffee"
        revisions = table.history("1", **chosen)
        assert revisions["text"].to_pylist() == ["Likes tea", "Likes coffee"]
    assert table.get("1", record_type="memory", scope=BOB) is None
    assert table.history("1", record_type="fact").num_rows == 0
    for read in (table.get, table.history, table.as_of(1).get):
        with pytest.raises(InvalidArgumentError, match=r"'1'.*'guideline', 'memory'.*record_type"):
            read("1")


def test_an_id_is_read_by_itself_where_only_one_of_its_records_is_asked_for() -> None:
    table = memory_table()
    fill(table)
    table.commit(actions(delete("1", scope=ALICE)), run_id="r2")
    row = table.get("1")
    assert row is not None
    assert row["text"] == "Be brief"


def test_a_change_of_one_hides_no_text_of_the_other() -> None:
    table = memory_table()
    fill(table)
    batch = actions(
        update("1", "Likes coffee", scope=ALICE),
        add("Be brief", **OTHERS | {"memory_id": "2"}),
    )
    result = table.commit(batch, run_id="r2")
    assert (result.updated, result.duplicates, texts(table)) == (1, 1, ["Be brief", "Likes coffee"])
    assert result.ids == {"2": "1"}
