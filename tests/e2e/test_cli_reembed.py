"""`memorypipe reembed`, with a built-in embedder and with an endpoint of memorypipe.toml."""

import json
from pathlib import Path

import pytest

from memorypipe.cli.main import main
from memorypipe.table.table import MemoryTable
from tests.support.endpoint import endpoint
from tests.support.table_actions import actions, add


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.chdir(tmp_path)
    table = MemoryTable.open(tmp_path / "t")
    table.commit(actions(add("Likes tea"), add("Runs")), run_id="r1")
    return str(tmp_path / "t")


def test_a_table_moves_to_an_endpoint_and_back(
    place: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with endpoint() as server:
        (tmp_path / "memorypipe.toml").write_text(
            f'[endpoints.vectors]\nurl = "{server.base_url}"\nmodel = "e5"\n'
        )
        assert main(["reembed", "--table", place, "--embedder", "vectors", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told == {
        "outcome": "landed",
        "version": 2,
        "memories": 2,
        "embedder": "e5",
        "embedder_before": "wordllama/l2_supercat/256",
        "vector_dim": 8,
    }
    assert main(["reembed", "--table", place, "--embedder", "wordllama"]) == 0
    said = capsys.readouterr().out
    assert "2 memories moved from embedder e5 to wordllama/l2_supercat/256" in said
    assert main(["reembed", "--table", place, "--embedder", "wordllama"]) == 0
    assert "already; nothing was changed" in capsys.readouterr().out
    assert MemoryTable.open(place).version == 3


def test_what_cannot_be_done_is_told(
    place: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["reembed", "--table", place, "--embedder", "glove"]) == 2
    assert "--embedder: Unknown embedder 'glove'" in capsys.readouterr().err
    assert main(["reembed", "--table", str(tmp_path / "no"), "--embedder", "none"]) == 1
    assert "There is no memory table" in capsys.readouterr().err
