from pathlib import Path

import pytest

from memorypipe.errors import InvalidArgumentError, ModelError, PlanError, TableError
from memorypipe.llm.embed.types import Matrix
from memorypipe.llm.embed.wordllama import WORDLLAMA_NAME, WordLlamaEmbedder
from memorypipe.pipeline.embedders import embedder_to_apply, embedder_to_plan
from memorypipe.table.table import MemoryTable
from tests.support.embeddings import HashEmbedder


class Refused(HashEmbedder):
    """An endpoint that does not take the key."""

    def embed(self, texts: object) -> Matrix:
        raise ModelError(f"no key for {texts!r}")


def test_a_new_table_is_planned_with_the_embedder_chosen_else_the_static_one() -> None:
    own = HashEmbedder()
    assert embedder_to_plan(None, None) == WordLlamaEmbedder()
    assert embedder_to_plan("none", None) is None
    assert embedder_to_plan(own, None) is own


def test_an_embedder_that_refuses_shows_before_the_plan_is_made() -> None:
    with pytest.raises(ModelError, match="no key"):
        embedder_to_plan(Refused(), None)


def test_a_table_is_planned_with_its_own_embedder_or_not_at_all(tmp_path: Path) -> None:
    place, own = tmp_path / "t", HashEmbedder()
    assert embedder_to_plan(own, MemoryTable.open(place, embedder=own)) is own
    with pytest.raises(TableError, match="'hash-a/4', which was not given"):
        embedder_to_plan(None, MemoryTable.open(place))
    assert embedder_to_plan(None, MemoryTable.open(tmp_path / "u", embedder="none")) is None


def test_a_plan_for_a_new_table_is_applied_with_the_embedder_it_was_made_for(
    tmp_path: Path,
) -> None:
    uri, own = str(tmp_path / "t"), HashEmbedder()
    assert embedder_to_apply(None, WORDLLAMA_NAME, uri) == WordLlamaEmbedder()
    assert embedder_to_apply(None, "none", uri) == "none"
    assert embedder_to_apply(None, None, uri) is None
    assert embedder_to_apply(own, own.name, uri) is own
    with pytest.raises(PlanError, match=r"'hash-a/4': give that.*--embedder"):
        embedder_to_apply(None, own.name, uri)
    MemoryTable.open(uri, embedder=own)
    assert embedder_to_apply(None, own.name, uri) is None


def test_what_is_no_embedder_is_refused() -> None:
    with pytest.raises(InvalidArgumentError, match="Unknown embedder 'glove'"):
        embedder_to_plan("glove", None)
