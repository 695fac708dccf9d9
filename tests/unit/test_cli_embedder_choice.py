from pathlib import Path

import pytest

from memorypipe.cli.embedder_choice import choose_embedder, choose_if_named
from memorypipe.errors import InvalidArgumentError
from memorypipe.llm.embed.endpoint import EndpointEmbedder
from memorypipe.llm.embed.wordllama import WordLlamaEmbedder

FILE = """
[endpoints.vectors]
url = "http://127.0.0.1:9/v1"
model = "e5"
key_env = "VECTORS_KEY"
params = {extra_body = {dimensions = 64}}

[endpoints.chat]
url = "http://127.0.0.1:9/v1"
model = "m"
params = {temperature = 0}
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "memorypipe.toml").write_text(FILE)
    return tmp_path


def test_built_in_embedders_need_no_file(tmp_path: Path) -> None:
    assert choose_embedder("wordllama", None, {}, tmp_path) == WordLlamaEmbedder()
    assert choose_embedder("none", None, {}, tmp_path) == "none"
    assert choose_if_named(None, None, {}, tmp_path) is None
    with pytest.raises(InvalidArgumentError, match=r"--embedder: .*'e5'; choices: \('wordl"):
        choose_embedder("e5", None, {}, tmp_path)


def test_an_endpoint_of_the_file_is_an_embedder(folder: Path) -> None:
    embedder = choose_embedder("vectors", None, {}, folder)
    assert isinstance(embedder, EndpointEmbedder)
    assert (embedder.name, embedder.dim) == ("e5/64", 64)
    by_option = choose_embedder("vectors", str(folder / "memorypipe.toml"), {}, Path("/nowhere"))
    assert isinstance(by_option, EndpointEmbedder)
    with pytest.raises(InvalidArgumentError, match=r"choices: .*'none', 'vectors', 'chat'"):
        choose_embedder("vector", None, {}, folder)


def test_an_endpoint_for_chats_alone_is_none(folder: Path) -> None:
    with pytest.raises(InvalidArgumentError, match="--embedder: 'temperature' is no parameter"):
        choose_embedder("chat", None, {}, folder)
