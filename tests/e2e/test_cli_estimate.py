"""`memorypipe estimate` as a user runs it."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

_COMMAND = str(Path(sys.executable).with_name("memorypipe"))
_LOG = Path(__file__).parents[2] / "examples" / "conversations.jsonl"
# Nothing listens there.
_NOBODY = ("--model", "m", "--base-url", "http://127.0.0.1:9/v1")


def _run(*words: str, folder: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(  # noqa: S603  # our own command
        [_COMMAND, "estimate", *words],
        check=False,
        capture_output=True,
        cwd=folder,
        text=True,
        timeout=600,
    )


@pytest.mark.slow
def test_an_endpoint_that_is_down_and_has_no_key_is_estimated_all_the_same(tmp_path: Path) -> None:
    words = (str(_LOG), *_NOBODY, "--price-in", "0.5", "--price-out", "2", "--max-qps", "0.5")
    done = _run(*words, "--key-env", "NO_SUCH_KEY", "--json", folder=tmp_path)
    assert done.returncode == 0, done.stderr
    value = json.loads(done.stdout)
    assert (value["status"], value["limit"], value["spent"]["calls"]) == ("estimated", "max_qps", 0)
    expected = (0.5 * value["tokens_in"] + 2 * value["tokens_out"]) / 1e6
    assert value["cost"] == pytest.approx(expected, rel=1e-3)
    for name in ("calls", "tokens_in", "tokens_out", "cost", "wall_s"):
        assert 0 < value["low"][name] <= value[name] <= value["high"][name], name
    assert list(tmp_path.iterdir()) == [], "nothing is left behind"


@pytest.mark.usefixtures("commands_share_ray")
def test_offline_costs_nothing_and_people_read_a_table(tmp_path: Path) -> None:
    done = _run(str(_LOG), "--offline", folder=tmp_path)
    assert done.returncode == 0, done.stderr
    lines = [line.split() for line in done.stdout.splitlines()]
    assert ["tokens", "in", "0"] in lines
    assert ["cost", "0.0000"] in lines


def test_a_calibration_at_an_endpoint_that_is_down_is_one_error(tmp_path: Path) -> None:
    done = _run(str(_LOG), *_NOBODY, "--calibrate", "5", folder=tmp_path)
    assert done.returncode == 1
    assert "Nothing can be reached" in done.stderr
    assert "Traceback" not in done.stderr
