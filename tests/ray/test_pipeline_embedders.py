"""The embedder of a run: made sure of before anything is paid for, asked for what landed."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from memorypipe import EndpointEmbedder, MemoryPipeline, MemoryTable, ModelSpec
from memorypipe.errors import EndpointError, PlanError, TableError
from tests.support.endpoint import Endpoint, endpoint

EXAMPLE = str(Path(__file__).parents[2] / "examples" / "conversations.jsonl")

pytestmark = pytest.mark.usefixtures("ray_2_cpus")


@pytest.fixture(scope="module")
def shared() -> Iterator[Endpoint]:
    with endpoint() as server:
        yield server


@pytest.fixture
def server(shared: Endpoint) -> Endpoint:
    shared.script(faults=[], count=0, calls=[], require_key=None)
    return shared


def _embedder(server: Endpoint) -> EndpointEmbedder:
    return EndpointEmbedder(ModelSpec(base_url=server.base_url, model="e5"))


def _pipeline(table: Path, **settings: Any) -> MemoryPipeline:
    return MemoryPipeline.offline(str(table), **settings)


def test_memories_get_the_vectors_of_an_endpoint(tmp_path: Path, server: Endpoint) -> None:
    embedder = _embedder(server)
    plan = _pipeline(tmp_path, embedder=embedder).plan(EXAMPLE)
    assert plan.manifest["embedder"] == "e5"
    assert server.call_count() == 1  # whether it works at all
    with pytest.raises(PlanError, match="'e5'"):
        _pipeline(tmp_path).apply(plan)
    done = _pipeline(tmp_path, embedder=embedder).apply(plan)
    table = MemoryTable.open(tmp_path, create=False)
    assert (table.embedder, table.vector_dim, table.count()) == ("e5", 8, done.added)
    assert table.to_arrow()["vector"].null_count == 0
    with pytest.raises(TableError, match="'e5', which was not given"):
        _pipeline(tmp_path).plan(EXAMPLE)


def test_a_key_that_is_refused_shows_before_the_plan(tmp_path: Path, server: Endpoint) -> None:
    server.script(require_key="sk-other")
    with pytest.raises(EndpointError, match="401"):
        _pipeline(tmp_path, embedder=_embedder(server)).plan(EXAMPLE)
    assert not list(tmp_path.iterdir())
