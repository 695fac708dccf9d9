"""The table fixture, by which every back end goes through the same suite, and commands on it."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from memorypipe import Plan
from memorypipe.cli.main import main
from memorypipe.streams.streams import EventStreams
from memorypipe.table.backends import BACKENDS
from memorypipe.table.table import MemoryTable
from tests.support.streams import FakeClock, Recorder, open_streams
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


@pytest.fixture
def run(plan: Plan, capsys: pytest.CaptureFixture[str]) -> Any:
    """Run a command on the table of a plan; gives exit code, standard output and error."""

    def command(*words: str) -> tuple[int, str, str]:
        code = main([*words, "--table", plan.table_uri])
        told = capsys.readouterr()
        return code, told.out, told.err

    return command


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
def recorder() -> Recorder:
    return Recorder()


@pytest.fixture
def streams(tmp_path: Path, clock: FakeClock, recorder: Recorder) -> EventStreams:
    return open_streams(tmp_path, clock, recorder)
