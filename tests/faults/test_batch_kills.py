"""A batch run that is killed at any step, once and again: nothing is paid twice, nothing lost."""

import contextlib
import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.batch_runs import DictJournal, KilledError, Killer, fill, requests, spec_of
from tests.support.batch_server import batch_server

_BENCHMARK = Path(__file__).parents[2] / "benchmarks" / "batch_api.py"

REQUESTS = 5

# Of a run that nothing disturbs: 3 batches of at most 2 requests.
STEPS = 41


@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
@pytest.mark.parametrize("first", range(1, STEPS + 1))
def test_killed_at_any_step_a_run_goes_on_where_it_was(
    first: int, *, after: bool, tmp_path: Path
) -> None:
    journal = DictJournal()
    with batch_server() as server:
        spec = spec_of(server.base_url)
        asked = requests(spec, range(REQUESTS))
        # The second try dies at its third step, where it has one; the third gets through.
        with pytest.raises(KilledError):
            fill(spec, tmp_path, journal, asked, max_requests=2, killer=Killer(first, after=after))
        with contextlib.suppress(KilledError):
            fill(spec, tmp_path, journal, asked, max_requests=2, killer=Killer(3, after=after))
        totals = fill(spec, tmp_path, journal, asked, max_requests=2)
        assert len(server.paid) == REQUESTS
        assert max(server.paid.values()) == 1
        assert len({key for key, _, usable, _ in journal.lines if usable}) == REQUESTS
        assert len(journal.lines) == REQUESTS, "each reply is written once"
        assert totals.answered == totals.requests == REQUESTS
        uploads = [file for file in server.files.values() if file["purpose"] == "batch"]
        assert len(uploads) == len(server.batches), "no file is uploaded twice"


def test_the_steps_are_all_there_are(tmp_path: Path) -> None:
    killer = Killer()
    with batch_server() as server:
        spec = spec_of(server.base_url)
        asked = requests(spec, range(REQUESTS))
        fill(spec, tmp_path, DictJournal(), asked, max_requests=2, killer=killer)
    assert killer.steps == STEPS


@pytest.mark.slow
def test_killed_for_good_while_sending_and_while_journalling_nothing_is_paid_twice() -> None:
    """The benchmark in small: its processes are killed by SIGKILL, and it checks all it says."""
    command = [sys.executable, str(_BENCHMARK), "--requests", "300", "--per-file", "80"]
    done = subprocess.run(command, check=True, capture_output=True, timeout=600)  # noqa: S603  # our own script
    found = json.loads(done.stdout)
    assert found["requests_paid_twice"] == found["replies_lost_by_the_provider"]
    assert found["statuses"] == {"ok": 300}
