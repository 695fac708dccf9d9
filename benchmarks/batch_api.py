"""Does batch mode pay for every request once, whatever fails and however often it is killed?

Starts a provider's Batch API on loopback and has windows extracted with batches of at most 3,000
requests, then asks alone for what they left open, as the pipeline does (Ray is left out: it only
spreads the latter). Of the first batch some lines fail and some come twice, the second expires
half way, the third finds no room in the queue twice, and the fourth loses replies that were paid
for. The run is killed (SIGKILL) while it sends its batches, again while it journals their results,
and then left to end. One more run ends the measurement.

Checked: every window is answered; each request was answered with a reply once, but for those
whose reply the provider lost; the last run asks nothing.

    python benchmarks/batch_api.py [--requests 10000] [--per-file 3000]

Prints one JSON object.
"""

import argparse
import json
import platform
import resource
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

sys.path.insert(0, str(Path(__file__).parents[1]))

from memorypipe import MemoryExtract  # the checkout comes first
from memorypipe.llm.batch.settings import BatchSettings  # as above
from memorypipe.llm.worker import close_workers  # as above
from memorypipe.pipeline.batch_extraction import fill_journal  # as above
from memorypipe.schema import WINDOWS  # as above
from tests.support.batch_server import BatchServer, batch_server  # as above

Running = subprocess.Popen[str]

_TIMEOUT_S = 1_800
_ROWS_PER_PART = 1_000
_KILL_AFTER_BATCHES = 2
_SCRIPTS = {
    1: {"fail_share": 0.05, "repeat": True, "polls": 4},
    2: {"expire_share": 0.5, "polls": 6},
    3: {"no_room": 2, "polls": 8},
    4: {"drop_share": 0.1, "polls": 8},
}


def write_windows(folder: Path, count: int) -> None:
    """Write windows of one message each."""
    folder.mkdir()
    for start in range(0, count, _ROWS_PER_PART):
        rows = [window(n) for n in range(start, min(start + _ROWS_PER_PART, count))]
        pq.write_table(
            pa.Table.from_pylist(rows, schema=WINDOWS), folder / f"part-{start:09d}.parquet"
        )


def window(number: int) -> dict[str, Any]:
    """Give a window of one user."""
    message = {"role": "user", "content": f"I own {number} boats and a piano.", "id": "a"}
    return {
        "scope": {"user_id": f"u{number}"},
        "scope_key": f'[["user_id","u{number}"]]',
        "conversation_id": f"c{number}",
        "window_id": f"w{number}",
        "window_index": 0,
        "messages": [message],
    }


def child(place: str, base_url: str, per_file: int) -> None:
    """Fill the journal by batches, ask for the rest, and print what came of it."""
    parts = sorted(str(path) for path in Path(place, "windows").iterdir())
    extract = MemoryExtract(
        base_url=base_url, model="m", max_retries=2, journal=str(Path(place, "journal"))
    )
    started_s = time.monotonic()
    totals = fill_journal(
        parts,
        extract,
        table_uri=place,
        run_id="run_1",
        settings=BatchSettings(max_requests=per_file, first_poll_s=0.2, longest_poll_s=1.0),
        on_progress=lambda _done, _all: None,
    )
    filled_s = time.monotonic()
    statuses: Counter[str] = Counter()
    for part in parts:
        rows = pq.read_table(part, columns=["messages", "context"])
        statuses.update(row.status for row in extract.results(rows["messages"], rows["context"]))
    close_workers()
    found = {
        "batch": vars(totals),
        "statuses": statuses,
        "batches_s": round(filled_s - started_s, 2),
        "rest_s": round(time.monotonic() - filled_s, 2),
        "peak_mb": round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024),
    }
    print(json.dumps(found), flush=True)


def start(options: argparse.Namespace, place: str, base_url: str) -> Running:
    """Start a run in a process of its own."""
    command = [sys.executable, __file__, "--child", place, base_url]
    command += ["--per-file", str(options.per_file)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True)  # noqa: S603  # our own script


def kill_when(process: Running, is_time: Callable[[], bool]) -> None:
    """Kill a process as soon as something holds."""
    started_s = time.monotonic()
    while not is_time():
        assert process.poll() is None, "it ended before it could be killed"
        assert time.monotonic() - started_s < _TIMEOUT_S
        time.sleep(0.002)
    process.send_signal(signal.SIGKILL)
    process.communicate()


def finish(process: Running) -> dict[str, Any]:
    """Let a process end; give what it prints."""
    output, _ = process.communicate(timeout=_TIMEOUT_S)
    assert process.returncode == 0, f"the run ended with {process.returncode}"
    found: dict[str, Any] = json.loads(output.splitlines()[-1])
    return found


def journalled(place: str) -> int:
    """Count the replies in the journal, without opening it."""
    segments = Path(place, "journal").glob("**/*.jsonl")
    return sum(path.read_bytes().count(b"\n") for path in segments)


def measure(options: argparse.Namespace, server: BatchServer, place: str) -> dict[str, Any]:
    """Run, kill, run, kill, run to the end, and once more."""
    write_windows(Path(place, "windows"), options.requests)
    kill_when(
        start(options, place, server.base_url), lambda: len(server.batches) >= _KILL_AFTER_BATCHES
    )
    first_kill = {"batches": len(server.batches), "replies_journalled": journalled(place)}
    kill_when(start(options, place, server.base_url), lambda: journalled(place) > 0)
    second_kill = {"batches": len(server.batches), "replies_journalled": journalled(place)}
    found = finish(start(options, place, server.base_url))
    alone = server.chats
    again = finish(start(options, place, server.base_url))
    return {
        "first_kill": first_kill,
        "second_kill": second_kill,
        **found,
        "asked_alone": alone,
        "asked_by_the_last_run": server.chats - alone,
        "last_run_batches_s": again["batches_s"],
    }


def check(options: argparse.Namespace, server: BatchServer, found: Mapping[str, Any]) -> None:
    """Check what is promised."""
    batch = found["batch"]
    assert sum(found["statuses"].values()) == found["statuses"]["ok"] == options.requests
    assert len(server.paid) == options.requests, "every window is answered"
    assert sum(server.paid.values()) == options.requests + server.lost
    assert max(server.paid.values()) <= 1 + bool(server.lost)
    assert batch["answered"] + batch["failed"] + batch["expired"] == batch["requests"]
    assert found["asked_alone"] == options.requests - batch["answered"]
    assert found["asked_by_the_last_run"] == 0
    assert found["first_kill"]["replies_journalled"] == 0
    assert 0 < found["second_kill"]["replies_journalled"] < batch["answered"]


def main() -> None:
    """Measure, and print one JSON object."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--requests", type=int, default=10_000)
    parser.add_argument("--per-file", type=int, default=3_000)
    parser.add_argument("--child", nargs=2, metavar=("FOLDER", "URL"))
    options = parser.parse_args()
    if options.child:
        place, base_url = options.child
        child(place, base_url, options.per_file)
        return
    with (
        tempfile.TemporaryDirectory(prefix="batch-api-") as place,
        batch_server(scripts=_SCRIPTS) as server,
    ):
        found = measure(options, server, place)
        result = {
            "requests": options.requests,
            "replies_paid": sum(server.paid.values()),
            "replies_lost_by_the_provider": server.lost,
            "requests_paid_twice": sum(count > 1 for count in server.paid.values()),
            "files_uploaded": sum(file["purpose"] == "batch" for file in server.files.values()),
            "batches_at_the_provider": dict(Counter(server.statuses())),
            **found,
            "machine": {"python": platform.python_version(), "system": platform.platform()},
        }
    print(json.dumps(result, indent=2))
    check(options, server, found)


if __name__ == "__main__":
    main()
