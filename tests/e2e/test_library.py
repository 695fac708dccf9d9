"""A script that says nothing of Ray: it is started where it is needed, and not where it is not."""

import os
import subprocess
import sys
from pathlib import Path

from tests.support.endpoint import endpoint

EXAMPLE = Path(__file__).parents[2] / "examples" / "conversations.jsonl"

_SCRIPT = """
import sys
from memorypipe import MemoryBuildAction, MemoryExtract, MemoryPipeline, MemoryTable
table, log, url, workers = sys.argv[1:]
if url:
    model = {"base_url": url, "model": "m"}
    pipeline = MemoryPipeline(
        table=table,
        extract=MemoryExtract(**model).options(num_workers=int(workers)),
        decide=MemoryBuildAction(**model),
        embedder="none",
    )
else:
    pipeline = MemoryPipeline.offline(table, embedder="none")
summary = pipeline.run(log)
import ray
print(summary.status, MemoryTable.open(table, create=False).count() > 15, ray.is_initialized())
"""


def _run(table: Path, url: str, *, workers: int = 1) -> str:
    environ = {name: value for name, value in os.environ.items() if name != "RAY_ADDRESS"}
    done = subprocess.run(  # noqa: S603  # our own script
        [sys.executable, "-c", _SCRIPT, str(table), str(EXAMPLE), url, str(workers)],
        capture_output=True,
        text=True,
        env=environ,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-2_000:]
    return done.stdout.splitlines()[-1]


def test_a_small_run_needs_no_ray(tmp_path: Path) -> None:
    assert _run(tmp_path / "rules", "") == "done True False"
    with endpoint() as server:
        assert _run(tmp_path / "endpoint", server.base_url) == "done True False"


def test_workers_need_it(tmp_path: Path) -> None:
    with endpoint() as server:
        assert _run(tmp_path, server.base_url, workers=2) == "done True True"
