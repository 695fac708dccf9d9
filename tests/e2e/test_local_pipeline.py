"""A real model end to end: every reply is read. What so small a model says is another matter."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from memorypipe import MemoryBuildAction, Plan
from memorypipe.llm.local import LocalServer

pytest.importorskip("xllamacpp", reason="needs the extra `local`")

pytestmark = pytest.mark.local_model

SAID = {
    "ana": "I bought a Yamaha P-125 digital piano.",
    "ben": "My daughter Lotte is six. She loves football.",
    "cem": "I live in Oslo and work as a nurse.",
}


@pytest.mark.parametrize("users", [1, pytest.param(3, marks=pytest.mark.slow)])
@pytest.mark.usefixtures("commands_share_ray")
def test_conversations_from_the_log_to_the_end_of_the_run(users: int, tmp_path: Path) -> None:
    log = tmp_path / "log.jsonl"
    lines = [
        {"user_id": user, "messages": [{"role": "user", "content": text}]}
        for user, text in list(SAID.items())[:users]
    ]
    log.write_text("".join(json.dumps(line) + "\n" for line in lines))
    table = tmp_path / "memories"
    command = [sys.executable, "-m", "memorypipe", "backfill", str(log), "--table", str(table)]
    # A fact for which the model decides nothing that holds is added: no window stays open.
    command += ["--local-model", "--commit-fallback", "--json"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=550, check=False)  # noqa: S603  # our own command
    assert done.returncode in {0, 3}, done.stderr
    summary = json.loads(done.stdout)
    assert summary["windows"] == users
    assert summary["attempts"] >= users
    assert "gemma" in summary["model"]
    facts = Plan(str(table), summary["run_id"]).facts()
    # So small a model may give the prompt's example back, which is no fact: that window is open.
    open_windows = facts["status"].to_pylist().count("parse_error")
    assert set(facts["status"].to_pylist()) <= {"ok", "empty", "parse_error"}
    assert summary["windows_failed"] == open_windows
    assert (done.returncode, summary["status"]) == ((3, "partial") if open_windows else (0, "done"))
    assert set(facts["model"].to_pylist()) == {"gemma-3-270m-q4_k_m"}


def test_a_decision_is_read_and_gives_one_action_per_fact(tmp_path: Path) -> None:
    with LocalServer(cache_dir=tmp_path) as server:
        decide = MemoryBuildAction(
            base_url=server.base_url, model=server.model, max_concurrency=1, **server.params
        )
        facts = ['["Owns a piano", "Plays it daily"]']
        (result,) = decide.results(facts, ['[{"id": "m1", "text": "Lives in Rome"}]'])
    assert result.outcome is not None
    # So small a model may leave a fact undecided; that too is read for what it is.
    assert result.outcome.status in {"ok", "incomplete"}
    assert len(json.loads(result.value or "")["actions"]) == 2
