"""Writers and compactions that are killed at any moment: every reply that was put is found."""

import random
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.journals import finish, local

ROOT = Path(__file__).parents[2]


def missing(folder: Path, put: list[str]) -> list[str]:
    journal = local(folder)
    gone = [key for key in put if finish(journal.get(key)) is None]
    journal.close()
    return gone


@pytest.mark.parametrize(("kills", "beside"), [(20, ""), (10, "compact")])
def test_a_kill_at_any_moment_loses_no_reply_that_was_put(
    tmp_path: Path, kills: int, beside: str
) -> None:
    rng = random.Random(kills)  # noqa: S311  # a test's dice
    put: list[str] = []
    with subprocess.Popen(  # noqa: S603  # our own script
        [sys.executable, "-m", "tests.support.journal_writer", str(tmp_path)],
        cwd=ROOT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as killer:
        assert killer.stdin is not None
        assert killer.stdout is not None
        for name in range(kills):
            count = rng.randint(1, 300)
            killer.stdin.write(f"{name} {count} {beside}\n")
            killer.stdin.flush()
            keys = killer.stdout.readline().split()
            assert len(keys) >= count
            put += keys
            assert missing(tmp_path, put) == []
        killer.stdin.close()
    assert bool(list(tmp_path.glob("compact.*.jsonl"))) == bool(beside)
