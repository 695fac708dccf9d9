"""A node that is lost takes no window with it, and none is doubled."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from memorypipe import MemoryTable, Plan
from tests.support.endpoint import endpoint

ROOT = Path(__file__).parents[2]
USERS, DAYS, WORKERS, IN_FLIGHT = 12, 4, 3, 2
AFTER_CALLS = 10


@pytest.mark.slow
def test_a_cluster_of_three_nodes_loses_one_and_the_run_is_whole(tmp_path: Path) -> None:
    log, table = tmp_path / "log.jsonl", tmp_path / "table"
    said = {
        (user, day): f"I found the {word} of {user} on day {day}."
        for user in range(USERS)
        for day, word in enumerate(("piano", "bees", "tins", "maps"), start=1)
    }
    lines = [
        {
            "user_id": f"u{user:02d}",
            "conversation_id": f"c{user}-{day}",
            "messages": [
                {"role": "user", "content": text, "timestamp": f"2025-01-0{day}T10:00:00Z"}
            ],
        }
        for (user, day), text in said.items()
    ]
    log.write_text("".join(json.dumps(line) + "\n" for line in lines))
    with endpoint(latency_s=0.4, lifetime_s=900) as server:
        done = subprocess.run(  # noqa: S603  # our own script
            [
                *(sys.executable, str(ROOT / "tests" / "support" / "three_nodes.py")),
                *(str(log), str(table), server.base_url, str(AFTER_CALLS)),
            ],
            capture_output=True,
            text=True,
            timeout=550,
            check=False,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
        )
        calls = server.call_count()
    assert done.returncode == 0, done.stderr[-3_000:]
    # Ray says what it has to say between our lines.
    (told,) = [line for line in done.stdout.splitlines() if line.startswith('{"')]
    summary = json.loads(told)
    assert summary["lost"] in summary["worker_nodes"]
    assert summary["nodes_left"] == 2
    assert (summary["status"], summary["windows"]) == ("done", USERS * DAYS)
    facts = Plan(str(table), summary["run_id"]).facts()
    assert len(set(facts["window_id"].to_pylist())) == facts.num_rows == USERS * DAYS
    texts = MemoryTable.open(table, create=False).to_arrow(columns=["text"])["text"].to_pylist()
    assert sorted(texts) == sorted(said.values())
    assert calls <= summary["calls"] + WORKERS * IN_FLIGHT
