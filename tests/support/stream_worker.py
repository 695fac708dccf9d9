"""Processes that ingest and flush, some of them killed at any step; a script, run by the tests.

Making memories stands for a real run: under one run id it happens once, by a file whose name is
taken once. Each order is one JSON line on standard input; its outcome is one on standard output.
Children are forked before anything here starts a thread.
"""

import json
import os
import random
import signal
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from memorypipe.streams.generation import Generated, Generation
from memorypipe.streams.log import Log
from memorypipe.streams.streams import EventStreams

_STEPS = {"open", "os.link", "os.rename", "os.remove", "os.mkdir", "os.scandir"}


class DiskGenerate:
    """Makes "memories" in a folder: one file per run, exactly once.

    Args:
        folder: Where.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        folder.mkdir(exist_ok=True)

    def __call__(self, generation: Generation) -> Mapping[bytes, Generated]:
        value = [
            {
                "stream": [batch.scope_key, batch.stream_id],
                "overlap": [each["id"] for each in batch.overlap],
                "messages": [each["id"] for each in batch.messages],
            }
            for batch in generation.batches
        ]
        aside = self._folder / f".{os.getpid()}-{time.monotonic_ns()}"
        aside.write_text(json.dumps(value))
        try:
            os.link(aside, self._folder / f"{generation.run_id}.json")
        except FileExistsError:
            known = json.loads((self._folder / f"{generation.run_id}.json").read_text())
            if known != value:
                raise AssertionError(generation.run_id) from None
        aside.unlink()
        return {}


def open_streams(table: Path, *, commits: int = 7) -> EventStreams:
    def log(path: Path) -> Log:
        return Log(path, commits=commits, events=100_000, kept_s=5.0)

    return EventStreams(table, pipeline=DiskGenerate(table / "made"), log=log)


def ingest_some(streams: EventStreams, acks: int, chooser: random.Random, mark: str) -> None:
    """Ingest a few events into a few streams, and tell of those that are stored."""
    stream = f"s{chooser.randrange(4)}"
    names = [f"{mark}-{chooser.randrange(10**9)}" for _ in range(chooser.randrange(1, 4))]
    streams.ingest_events(
        scope={"user_id": "u"},
        stream_id=stream,
        direct_contents_source={
            "events": [
                {"content": {"role": "user", "parts": [{"text": name}]}, "event_id": name}
                for name in names
            ]
        },
        generation_trigger_config={"generation_rule": {"event_count": 2, "overlap_event_count": 1}},
    )
    os.write(acks, "".join(f"{json.dumps([stream, name])}\n" for name in names).encode())


def forked(work: Callable[[], None]) -> int:
    """Do something in a child process."""
    pid = os.fork()
    if pid:
        return pid
    code = 1
    try:
        work()
        code = 0
    finally:
        os._exit(code)


def die_at(step: int) -> None:
    """End this process without a word at so many steps on the disk from now."""
    left = [step]

    def hook(name: str, _arguments: object) -> None:
        if name in _STEPS:
            left[0] -= 1
            if left[0] == 0:
                os.kill(os.getpid(), signal.SIGKILL)

    sys.addaudithook(hook)


def kill_round(table: Path, acks: int, seed: int) -> str:
    """Run a process that ingests and flushes, and kill it at a random step."""
    chooser = random.Random(seed)  # noqa: S311  # no secret

    def work() -> None:
        streams = open_streams(table)
        ingest_some(streams, acks, chooser, f"w{seed}")
        die_at(chooser.randrange(1, 400))
        for _ in range(30):
            ingest_some(streams, acks, chooser, f"k{seed}")
            if chooser.random() < 0.8:
                streams.flush()

    _, status = os.waitpid(forked(work), 0)
    return "killed" if os.WIFSIGNALED(status) else f"ended {os.waitstatus_to_exitcode(status)}"


def kills(order: Mapping[str, Any], table: Path, acks: int) -> dict[str, Any]:
    return {"rounds": [kill_round(table, acks, seed) for seed in order["seeds"]]}


def crowd(order: Mapping[str, Any], table: Path, acks: int) -> dict[str, Any]:
    """Let several processes ingest and one flush, all at once."""
    ends_at = time.monotonic() + order["seconds"]

    def ingesting(number: int) -> Callable[[], None]:
        def work() -> None:
            chooser = random.Random(number)  # noqa: S311  # no secret
            streams = open_streams(table, commits=50)
            rounds = 0
            while time.monotonic() < ends_at or rounds < order["least"]:
                ingest_some(streams, acks, chooser, f"p{number}")
                rounds += 1

        return work

    def flushing() -> None:
        streams = open_streams(table, commits=50)
        while time.monotonic() < ends_at:
            streams.flush()

    pids = [forked(ingesting(number)) for number in range(order["processes"])] + [forked(flushing)]
    return {"exits": [os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) for pid in pids]}


def finish(_order: Mapping[str, Any], table: Path, _acks: int) -> dict[str, Any]:
    """Flush all that is left, and tell what was made of what."""

    def work() -> None:
        streams = open_streams(table)
        streams.flush()
        for number in range(4):
            scope, stream = {"user_id": "u"}, f"s{number}"
            streams.ingest_events(scope=scope, stream_id=stream, config={"force_flush": True})
        streams.flush()

    _, status = os.waitpid(forked(work), 0)
    made = [
        (path.stat().st_mtime_ns, json.loads(path.read_text()))
        for path in (table / "made").glob("flush_*.json")
    ]
    windows = [
        window for _, windows in sorted(made, key=lambda each: each[0]) for window in windows
    ]
    return {"exit": os.waitstatus_to_exitcode(status), "windows": windows}


_ORDERS = {"kills": kills, "crowd": crowd, "finish": finish}


def main(arguments: Sequence[str]) -> None:
    """Follow orders about a table, given as the one argument."""
    table = Path(arguments[0])
    started = datetime.now(UTC)
    acks = os.open(table / "acks.jsonl", os.O_CREAT | os.O_APPEND | os.O_WRONLY)
    for line in sys.stdin:
        order = json.loads(line)
        outcome = _ORDERS[order["do"]](order, table, acks)
        sys.stdout.write(json.dumps({**outcome, "started": started.isoformat()}) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main(sys.argv[1:])
