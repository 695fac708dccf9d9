"""Which messages are taken again: those that the last run to deal with them says."""

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from memorypipe import MemoryTable
from memorypipe.errors import InvalidArgumentError
from memorypipe.ids import ledger_key, scope_key
from memorypipe.schema import ACTIONS, LEDGER
from memorypipe.table.reprocess import Reprocess

ANA, BEN = {"user_id": "ana", "agent_id": "a"}, {"user_id": "ben"}


@pytest.fixture
def table(tmp_path: Path) -> MemoryTable:
    made = MemoryTable.open(tmp_path, backend="parquet", embedder="none")
    commit(made, "r1", ["a1", "a2", "b1"], model="small", prompt="aaaaaa11")
    commit(made, "r2", ["a3", "b2"], model="small", prompt="bbbbbb22")
    return made


def commit(table: MemoryTable, run: str, messages: list[str], *, model: str, prompt: str) -> None:
    rows = [
        {
            "scope_key": scope_key(ANA if message[0] == "a" else BEN),
            "conversation_id": f"c{message}",
            "message_id": message,
            "window_id": "w",
        }
        for message in messages
    ]
    table.commit(
        ACTIONS.empty_table(),
        run_id=run,
        ledger=pa.Table.from_pylist(rows, schema=LEDGER),
        info={"asked": {"extract_model": model, "extract_prompt": prompt, "library": "1"}},
    )


def taken(table: MemoryTable, **where: Any) -> set[str]:
    names = ("a1", "a2", "a3", "b1", "b2")
    keys = {
        ledger_key(scope_key(ANA if name[0] == "a" else BEN), f"c{name}", name): name
        for name in names
    }
    left = table.ledger_keys(reprocess=Reprocess(**where)).to_pylist()
    assert left == sorted(set(left))
    assert set(left) <= set(keys)
    return set(names) - {keys[key] for key in left}


def test_without_a_condition_everything_is_taken_again(table: MemoryTable) -> None:
    assert taken(table) == {"a1", "a2", "a3", "b1", "b2"}
    assert len(table.ledger_keys()) == 5, "and nothing where nobody asks for it"


@pytest.mark.parametrize(
    ("where", "found"),
    [
        ({"scope": {"user_id": "ben"}}, {"b1", "b2"}),
        ({"scope": {"agent_id": "a"}}, {"a1", "a2", "a3"}),
        ({"scope": {"user_id": "ben", "agent_id": "a"}}, set()),
        ({"conversation_id": "ca2"}, {"a2"}),
        ({"run_id": "r2"}, {"a3", "b2"}),
        ({"model": "small"}, {"a1", "a2", "a3", "b1", "b2"}),
        ({"model": "smal"}, set()),
        ({"prompt": "aaaaaa"}, {"a1", "a2", "b1"}),
        ({"prompt": "bbbbbb22", "scope": {"user_id": "ben"}}, {"b2"}),
    ],
)
def test_every_condition_must_hold(
    table: MemoryTable, where: dict[str, Any], found: set[str]
) -> None:
    assert taken(table, **where) == found


def test_a_message_counts_as_that_of_the_last_run_that_has_dealt_with_it(
    table: MemoryTable,
) -> None:
    commit(table, "r3", ["a1", "b2"], model="large", prompt="aaaaaa11")
    assert taken(table, model="small") == {"a2", "a3", "b1"}
    assert taken(table, run_id="r2") == {"a3"}
    assert taken(table, prompt="aaaaaa11") == {"a1", "a2", "b1", "b2"}


def test_what_an_undo_has_opened_is_open_whatever_is_taken_again(table: MemoryTable) -> None:
    table.undo("r2", reopen=True)
    assert taken(table, run_id="r1") == {"a1", "a2", "a3", "b1", "b2"}
    assert taken(table, run_id="none of them") == {"a3", "b2"}


@pytest.mark.parametrize("where", [{"prompt": "abc"}, {"run_id": " "}, {"scope": {"user_id": ""}}])
def test_what_means_nothing_is_refused(where: dict[str, Any]) -> None:
    with pytest.raises(InvalidArgumentError):
        Reprocess(**where)
