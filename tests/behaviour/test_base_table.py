"""What a planning takes from its table before it begins."""

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from memorypipe import MemoryTable
from memorypipe.errors import PlanError
from memorypipe.pipeline.base_table import BaseTable
from memorypipe.pipeline.runs.request import RunRequest
from memorypipe.schema import ACTIONS, LEDGER
from memorypipe.table.reprocess import Reprocess


def read(folder: Path, **request: Any) -> BaseTable:
    return BaseTable.read(str(folder), RunRequest(**request), embedder="none", backend="parquet")


def commit(folder: Path, run_id: str, message: str, info: dict[str, Any]) -> None:
    row = {"scope_key": "[]", "conversation_id": "c", "message_id": message, "window_id": "w"}
    MemoryTable.open(folder, backend="parquet", embedder="none").commit(
        ACTIONS.empty_table(),
        run_id=run_id,
        ledger=pa.Table.from_pylist([row], schema=LEDGER),
        info=info,
    )


def test_where_there_is_no_table_nothing_is_known(tmp_path: Path) -> None:
    assert read(tmp_path / "none") == BaseTable()


def test_the_newest_run_that_says_so_and_stands_is_compared_with(tmp_path: Path) -> None:
    commit(tmp_path, "r1", "m1", {"asked": {"library": "1"}})
    commit(tmp_path, "r2", "m2", {"asked": {"library": "2"}})
    commit(tmp_path, "r3", "m3", {})
    assert read(tmp_path).last_asked == {"library": "2"}
    MemoryTable.open(tmp_path, create=False).undo("r2")
    assert read(tmp_path).last_asked == {"library": "1"}


def test_a_name_that_is_committed_is_refused_and_other_names_are_not(tmp_path: Path) -> None:
    commit(tmp_path, "r1", "m1", {})
    with pytest.raises(PlanError, match="'r1' is committed already"):
        read(tmp_path, run_id="r1")
    assert read(tmp_path, run_id="r2").version == 1


def test_messages_that_are_taken_again_are_not_known(tmp_path: Path) -> None:
    commit(tmp_path, "r1", "m1", {})
    commit(tmp_path, "r2", "m2", {})
    assert len(read(tmp_path).known_keys) == 2
    assert len(read(tmp_path, reprocess=Reprocess(run_id="r2")).known_keys) == 1
