"""The installed command, as a user runs it: what it prints, where, and how it ends."""

import contextlib
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from tests.support.endpoint import Endpoint, endpoint

_COMMAND = str(Path(sys.executable).with_name("memorypipe"))
_TIMEOUT_S = 600

_LOG = [
    ("u1", "c1", "2024-03-01T10:00:00Z", "I live in Bergen and I love green tea."),
    ("u1", "c2", "2024-05-01T10:00:00Z", "I moved to Oslo."),
    ("u2", "c3", "2024-04-01T10:00:00Z", "My dog is called Rex."),
]


def _run(
    *words: str, folder: Path, environ: Mapping[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(  # noqa: S603  # our own command
        [_COMMAND, *words],
        check=False,
        capture_output=True,
        cwd=folder,
        env={**os.environ, **(environ or {})},
        text=True,
        timeout=_TIMEOUT_S,
    )


def _value(done: subprocess.CompletedProcess[str]) -> dict[str, Any]:
    """Read standard output, which must be one JSON object and nothing else."""
    value = json.loads(done.stdout)
    assert isinstance(value, dict)
    assert "Traceback" not in done.stderr
    return value


def _write_log(path: Path, rows: Sequence[tuple[str, str, str, str]], *, tail: str = "") -> None:
    lines = [
        json.dumps(
            {
                "user_id": user_id,
                "conversation_id": conversation_id,
                "messages": [{"role": "user", "content": content, "timestamp": timestamp}],
            }
        )
        for user_id, conversation_id, timestamp, content in rows
    ]
    path.write_text("\n".join(lines) + "\n" + tail)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the commands run: a log, and the table that `backfill` made of it."""
    folder = tmp_path_factory.mktemp("cli")
    _write_log(folder / "log.jsonl", _LOG)
    words = ("--offline", "--table", "made", "--backend", "lance", "--mirror", "kept")
    done = _run("backfill", "log.jsonl", *words, folder=folder)
    assert done.returncode == 0, done.stderr
    assert "ray" not in done.stderr.lower(), "a small run needs none"
    assert done.stdout.startswith("done  run_")
    assert "    + Loves green tea" in done.stdout
    assert "memorypipe show --scope user_id=u1 --table made" in done.stdout
    return folder


def _memories(folder: Path) -> list[dict[str, Any]]:
    memories: list[dict[str, Any]] = _value(
        _run("show", "--table", "made", "--json", folder=folder)
    )["memories"]
    return memories


def test_nothing_of_what_the_daemons_of_ray_say_gets_to_the_user(folder: Path) -> None:
    words = ("--offline", "--table", "workers", "--workers", "2")
    done = _run("plan", "log.jsonl", *words, folder=folder)
    assert done.returncode == 0, done.stderr
    assert [line for line in done.stderr.splitlines() if "ray" in line.lower()] == ["Starting Ray"]
    assert "ray" not in done.stdout.lower()


@pytest.mark.usefixtures("commands_share_ray")
def test_the_same_log_again_finds_nothing_new_and_changes_nothing(folder: Path) -> None:
    before = _memories(folder)
    done = _run("backfill", "log.jsonl", "--offline", "--table", "made", "--json", folder=folder)
    value = _value(done)
    assert done.returncode == 0
    assert (value["status"], value["windows"], value["calls"]) == ("done", 0, 0)
    assert _memories(folder) == before


def test_the_mirror_of_a_backfill_has_what_it_made(folder: Path) -> None:
    kept = pq.read_table(folder / "kept" / "memories.parquet")
    assert sorted(kept["memory_id"].to_pylist()) == sorted(
        row["memory_id"] for row in _memories(folder)
    )


def test_show_groups_by_scope_and_takes_one_scope(folder: Path) -> None:
    done = _run("show", "--table", "made", "--scope", "user_id=u2", folder=folder)
    assert done.returncode == 0
    assert done.stdout.splitlines()[0] == "user_id=u2"
    assert "Dog is called Rex" in done.stdout
    assert "user_id=u1" not in done.stdout


def test_a_scope_without_memories_is_told_beside_the_result(folder: Path) -> None:
    done = _run("show", "--table", "made", "--scope", "user_id=u9", "--json", folder=folder)
    assert _value(done) == {"memories": [], "total": 0}
    assert "user_id=u1, user_id=u2" in done.stderr


def test_history_tells_how_a_memory_came_about(folder: Path) -> None:
    memory_id = _memories(folder)[0]["memory_id"]
    done = _run("history", memory_id, "--table", "made", "--json", folder=folder)
    first = _value(done)["revisions"][0]
    assert (first["memory_id"], first["event"], first["revision"]) == (memory_id, "ADD", 1)
    unknown = _run("history", "mem_unknown", "--table", "made", folder=folder)
    assert unknown.returncode == 1
    assert "'mem_unknown'" in unknown.stderr


@pytest.mark.usefixtures("commands_share_ray")
def test_a_plan_changes_nothing_until_it_is_applied_and_conflicts_with_a_rival(
    folder: Path,
) -> None:
    """Rejected lines end with 3 unless allowed; of two rival plans the second is held back: 5."""
    runs = []
    for city in ("Rome", "Paris"):
        row = ("u1", city, "2024-08-01T10:00:00Z", f"I moved to {city}.")
        _write_log(folder / f"{city}.jsonl", [row], tail='{"broken\n')
        allowed = ["--max-rejected", "1"] if city == "Paris" else []
        before = _memories(folder)
        done = _run(
            *("plan", f"{city}.jsonl", "--offline", "--table", "made", "--json", *allowed),
            folder=folder,
        )
        value = _value(done)
        assert done.returncode == (0 if allowed else 3)
        assert (value["status"], value["rejected_lines"], value["updated"]) == ("planned", 1, 1)
        assert _memories(folder) == before
        runs.append(value["run_id"])

    shown = _run("runs", "show", runs[0], "--table", "made", folder=folder)
    assert f"memorypipe apply {runs[0]} --table made" in shown.stdout
    assert " → " in shown.stdout

    done = _run("apply", runs[0], "--table", "made", "--json", folder=folder)
    assert done.returncode == 3
    assert _value(done)["status"] == "partial"
    assert "Rome" in json.dumps(_memories(folder))

    done = _run("apply", runs[1], "--table", "made", "--json", folder=folder)
    assert done.returncode == 5
    assert _value(done)["status"] == "held"
    assert "Paris" not in json.dumps(_memories(folder))

    listed = _value(_run("runs", "--table", "made", "--json", folder=folder))["runs"]
    assert {run["run_id"]: run["status"] for run in listed}[runs[0]] == "partial"


def test_an_unknown_option_is_a_usage_error(folder: Path) -> None:
    done = _run("backfill", "log.jsonl", "--offline", "--nonsense", "--json", folder=folder)
    assert done.returncode == 2
    assert "--nonsense" in _value(done)["error"]


@pytest.mark.slow
def test_a_run_stops_at_its_bound_and_a_higher_one_pays_only_the_rest(folder: Path) -> None:
    with endpoint() as server:
        words = ["backfill", "log.jsonl", "--table", "bounded", "--max-retries", "0"]
        words += ("--model", "m", "--base-url", server.base_url)

        done = _run(*words, "--max-calls", "3", folder=folder)
        assert done.returncode == 4, done.stderr
        assert done.stdout.startswith("stopped  run_")
        assert server.call_count() <= 3
        told = " ".join(done.stdout.split())
        assert "stopped by --max-calls: 3 of 3 used" in told
        assert "The same command goes on from here" in told

        listed = _value(_run("runs", "--table", "bounded", "--json", folder=folder))["runs"]
        assert [run["status"] for run in listed] == ["stopped"]

        paid = server.call_count()
        done = _run(*words, "--max-calls", "100", "--json", folder=folder)
        assert done.returncode == 0, done.stderr
        value = _value(done)
        assert (value["status"], value["windows_failed"]) == ("done", 0)
        assert server.call_count() == paid + value["attempts"]

        calls = [json.dumps(call["body"], sort_keys=True) for call in server.calls()]
        assert len(calls) == len(set(calls)), "no request is paid for twice"


def test_ctrl_c_finishes_what_is_in_flight_and_keeps_it(tmp_path: Path) -> None:
    _write_log(tmp_path / "log.jsonl", _LOG)
    with endpoint(latency_s=3.0) as server:
        words = ["backfill", "log.jsonl", "--table", "interrupted"]
        words += ("--model", "m", "--base-url", server.base_url)
        run = subprocess.Popen(  # noqa: S603  # our own command
            [_COMMAND, *words],
            cwd=tmp_path,
            stderr=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            text=True,
            start_new_session=True,
        )
        with run:
            while run.poll() is None and server.call_count() < len(_LOG):
                with contextlib.suppress(subprocess.TimeoutExpired):
                    run.wait(timeout=0.2)
            # As a terminal does: to all of its processes.
            os.killpg(run.pid, signal.SIGINT)
            _, told = run.communicate(timeout=_TIMEOUT_S)
        assert run.returncode == 130, told
        assert "Traceback" not in told
        assert server.call_count() == len(_LOG), "nothing is sent after it"
        journal = str(tmp_path / "interrupted" / "journal")
        found = _value(_run("journal", "show", journal, "--json", folder=tmp_path))
        assert found["usable"] == len(_LOG), told
        assert "Finishing what is in flight" in told


@pytest.fixture(name="guarded", scope="module")
def _guarded() -> Iterator[Endpoint]:
    with endpoint(require_key="sk-right") as server:
        yield server


def test_a_wrong_key_is_one_clear_error_and_no_secret(folder: Path, guarded: Endpoint) -> None:
    done = _run(
        *("backfill", "log.jsonl", "--table", "new", "--json", "--key-env", "A_KEY"),
        *("--model", "m", "--base-url", guarded.base_url),
        folder=folder,
        environ={"A_KEY": "sk-wrong"},
    )
    assert done.returncode == 1
    value = _value(done)
    assert (value["status"], "401" in value["error"]) == ("failed", True)
    assert "sk-wrong" not in done.stdout + done.stderr
    assert len([line for line in done.stderr.splitlines() if "error" in line.lower()]) == 1


@pytest.mark.usefixtures("commands_share_ray")
def test_a_key_from_a_file_reaches_the_endpoint_and_stays_out_of_the_table(
    folder: Path, guarded: Endpoint
) -> None:
    (folder / "key").write_text("sk-right\n")
    done = _run(
        *("backfill", "log.jsonl", "--table", "keyed", "--json", "--key-file", "key"),
        *("--model", "m", "--base-url", guarded.base_url),
        folder=folder,
    )
    assert done.returncode == 0, done.stderr
    assert _value(done)["added"] > 0
    written = [path for path in (folder / "keyed").rglob("*") if path.is_file()]
    assert [path for path in written if b"sk-right" in path.read_bytes()] == []
