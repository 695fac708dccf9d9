"""The table fixture: every back end goes through the same behaviour suite."""

from collections.abc import Callable
from pathlib import Path

import pytest

from memorypipe.table.backends import BACKENDS
from memorypipe.table.table import MemoryTable
from tests.support.table_actions import SteppingClock


@pytest.fixture(params=BACKENDS)
def backend(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def table(tmp_path: Path, backend: str) -> MemoryTable:
    """An empty table without vectors, with a clock that steps one second per reading."""
    return MemoryTable.open(
        tmp_path / "table", backend=backend, embedder="none", clock=SteppingClock()
    )


@pytest.fixture
def reopen(table: MemoryTable, backend: str) -> Callable[..., MemoryTable]:
    """Open the same table once more, as another process would."""
    clock = SteppingClock()
    return lambda: MemoryTable.open(table.uri, backend=backend, create=False, clock=clock)
