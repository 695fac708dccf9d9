"""What the benchmarks of model access share: rows, Ray, processes, records of the server."""

import contextlib
import importlib.metadata
import json
import logging
import os
import platform
import re
import subprocess
import sys
import threading
import time
from bisect import bisect_right
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

import psutil

__all__ = [
    "Sample",
    "Target",
    "Watch",
    "finish",
    "in_flight_means",
    "machine",
    "make_rows",
    "map_workers",
    "peer",
    "per_row_ms",
    "ray_up",
    "row_number",
    "spilled_bytes",
    "steady",
    "wait_until",
]

ROOT = Path(__file__).parents[1]
_ROW_TEXT = "I own {number} pianos."
_ROW_NUMBER = re.compile(r"I own (\d+) pianos\.")


def make_rows(count: int) -> list[dict[str, Any]]:
    """Make rows of one short message each; the endpoint's answer to a row holds its number."""
    return [
        {
            "n": number,
            "messages": f"[user]: {_ROW_TEXT.format(number=number)}",
            "context": f"User: u{number}\nDate: 2025-01-01",
            "existing_json": f'[{{"id": "m_{number}", "text": "Owns a digital keyboard"}}]',
        }
        for number in range(count)
    ]


def row_number(body: Mapping[str, Any]) -> int:
    """Find the row that a request's JSON, or a reply's text in a mapping, is about."""
    found = _ROW_NUMBER.search(json.dumps(body))
    assert found is not None, "every request is about one row"
    return int(found[1])


def machine(*packages: str) -> dict[str, Any]:
    """Describe the machine and the versions that matter."""
    versions = {name: importlib.metadata.version(name) for name in packages}
    return {
        "platform": platform.platform(),
        "cpus": psutil.cpu_count(),
        "memory_gb": round(psutil.virtual_memory().total / 1e9, 1),
        "load_1_min": round(os.getloadavg()[0], 2),
        "python": platform.python_version(),
        **versions,
    }


@contextlib.contextmanager
def ray_up(
    *, num_cpus: int = 2, address: str | None = None, object_store_mb: int | None = None
) -> Iterator[None]:
    """Run Ray without its dashboard, messages and progress bars; or connect to a cluster."""
    import ray  # noqa: PLC0415  # slow to import, and not every process of a benchmark needs it

    own: dict[str, Any] = {"address": "local", "num_cpus": num_cpus, "include_dashboard": False}
    if object_store_mb is not None:
        own["object_store_memory"] = object_store_mb * 1024 * 1024
    there = {"address": address} if address else own
    ray.init(log_to_driver=False, logging_level=logging.ERROR, **there)
    ray.data.DataContext.get_current().enable_progress_bars = False
    logging.getLogger("ray.data").setLevel(logging.ERROR)
    try:
        yield
    finally:
        ray.shutdown()


def spilled_bytes() -> int:
    """Give the bytes that Ray has on disk now, since its object store had no room for them."""
    import ray  # noqa: PLC0415  # as above

    node: Any = ray._private.worker._global_node  # noqa: SLF001  # nobody else tells
    session = Path(node.get_session_dir_path())
    sizes = []
    for path in session.glob("ray_spilled_objects*/*"):
        with contextlib.suppress(OSError):  # gone meanwhile
            sizes.append(path.stat().st_size)
    return sum(sizes)


def wait_until(condition: Callable[[], bool], *, within_s: float, every_s: float = 0.01) -> bool:
    """Wait for something outside this process; False where it does not come about in time."""
    deadline_s = time.monotonic() + within_s
    while time.monotonic() < deadline_s:
        if condition():
            return True
        time.sleep(every_s)
    return False


# --- processes ---


def map_workers(root: psutil.Process | None = None) -> list[psutil.Process]:
    """Give the processes below one (this one) that run an actor of a Ray Data stage."""
    tree = (root or psutil.Process()).children(recursive=True)
    return [process for process in tree if _role(process) == "worker"]


def _role(process: psutil.Process) -> str:
    """Name what a process does: worker, ray_task, endpoint, peer or ray_system."""
    try:
        command = " ".join(process.cmdline())
    except psutil.Error:
        return "gone"
    if command.startswith("ray::MapWorker"):
        return "worker"
    if command.startswith("ray::"):
        return "ray_task"
    if "benchmarks/peers.py" in command:
        return "peer"
    return "endpoint" if "support/endpoint.py" in command else "ray_system"


@dataclass(frozen=True, kw_only=True)
class Sample:
    """One look at the processes.

    Attributes:
        at_s: When (monotonic).
        cpu_s: CPU seconds since the watch began, by role.
        private_bytes: Memory that no other process shares, by role; empty where not asked for.
    """

    at_s: float
    cpu_s: Mapping[str, float]
    private_bytes: Mapping[str, int]


@dataclass(kw_only=True)
class _Seen:
    role: str
    base_s: float
    cpu_s: float
    born_s: float


class Watch:
    """Samples this process and all below it, by role, until the block ends.

    Args:
        every_s: Between samples.
        memory: Whether to look at memory too, which costs more.

    Attributes:
        samples: What was seen, oldest first.
    """

    def __init__(self, *, every_s: float = 0.2, memory: bool = False) -> None:
        self.samples: list[Sample] = []
        self._every_s = every_s
        self._memory = memory
        self._seen: dict[int, _Seen] = {}
        self._me = psutil.Process()
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> Self:
        self._look(first=True)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._done.set()
        self._thread.join()
        self._look()

    def cpu_s(self, role: str, from_s: float, until_s: float) -> float:
        """Give the CPU seconds of a role between two moments (monotonic)."""
        return self._at(role, until_s) - self._at(role, from_s)

    def born_s(self, role: str) -> float:
        """Give when the youngest process of a role began, in seconds after the machine did."""
        return max(seen.born_s for seen in self._seen.values() if seen.role == role)

    def _at(self, role: str, at_s: float) -> float:
        after = bisect_right([sample.at_s for sample in self.samples], at_s)
        if after in {0, len(self.samples)}:
            return self.samples[min(after, len(self.samples) - 1)].cpu_s.get(role, 0.0)
        one, two = self.samples[after - 1], self.samples[after]
        share = (at_s - one.at_s) / (two.at_s - one.at_s)
        first, second = one.cpu_s.get(role, 0.0), two.cpu_s.get(role, 0.0)
        return first + share * (second - first)

    def _run(self) -> None:
        while not self._done.wait(self._every_s):
            self._look()

    def _look(self, *, first: bool = False) -> None:
        memory: dict[str, int] = {}
        for process in [self._me, *self._me.children(recursive=True)]:
            role = "driver" if process.pid == self._me.pid else _role(process)
            with contextlib.suppress(psutil.Error):
                self._note_cpu(process, role, first=first)
                if self._memory and role in {"driver", "worker"}:
                    private = int(process.memory_full_info().uss)
                    memory[role] = memory.get(role, 0) + private
        cpu: dict[str, float] = {}
        for seen in self._seen.values():
            cpu[seen.role] = cpu.get(seen.role, 0.0) + seen.cpu_s - seen.base_s
        self.samples.append(Sample(at_s=time.monotonic(), cpu_s=cpu, private_bytes=memory))

    def _note_cpu(self, process: psutil.Process, role: str, *, first: bool) -> None:
        times = process.cpu_times()
        spent_s = float(times.user + times.system)
        seen = self._seen.get(process.pid)
        if seen is None:
            base_s = spent_s if first else 0.0
            seen = self._seen[process.pid] = _Seen(
                role=role,
                base_s=base_s,
                cpu_s=spent_s,
                born_s=process.create_time() - psutil.boot_time(),
            )
        seen.cpu_s = spent_s
        # A process waits under another title before its actor is made and after it has gone.
        if role not in {"gone", "ray_task"}:
            seen.role = role


def per_row_ms(watch: Watch, from_s: float, until_s: float, rows: float) -> dict[str, float]:
    """Give the CPU that each role spent per row between two moments, in milliseconds."""
    roles = sorted(watch.samples[-1].cpu_s)
    spent = {role: watch.cpu_s(role, from_s, until_s) for role in roles}
    return {role: round(1e3 * seconds / rows, 3) for role, seconds in spent.items()}


# --- the server's records ---


def steady(calls: Sequence[Mapping[str, Any]], in_flight: int) -> tuple[float, float, float]:
    """Give begin and end of the steady state, and the requests per second in it.

    It begins when the first `in_flight` requests have arrived, and ends when the last one arrives.
    """
    at = sorted(call["at_s"] for call in calls)
    assert len(at) > in_flight, "more rows than requests in flight are needed"
    begin_s, end_s = at[in_flight - 1], at[-1]
    return begin_s, end_s, (len(at) - in_flight) / (end_s - begin_s)


def in_flight_means(calls: Sequence[Mapping[str, Any]], step_s: float) -> list[float]:
    """Give the mean number of open requests in each step of time since the first arrival."""
    origin_s = min(call["at_s"] for call in calls)
    end_s = max(call["done_s"] for call in calls)
    open_s = [0.0] * (int((end_s - origin_s) / step_s) + 1)
    for call in calls:
        begin, end = call["at_s"] - origin_s, call["done_s"] - origin_s
        for step in range(int(begin / step_s), int(end / step_s) + 1):
            shared = min(end, (step + 1) * step_s) - max(begin, step * step_s)
            open_s[step] += max(shared, 0.0)
    return [round(seconds / step_s, 1) for seconds in open_s]


# --- peers and results ---


_PEER_TIMEOUT_S = 120.0


def peer(name: str, python: str = sys.executable, **job: Any) -> dict[str, Any]:
    """Run a peer in a process of its own; see `benchmarks/peers.py` for names and jobs."""
    command = [python, str(ROOT / "benchmarks" / "peers.py"), name]
    done = subprocess.run(  # noqa: S603  # our own script
        command,
        input=json.dumps(job),
        stdout=subprocess.PIPE,
        text=True,
        check=True,
        timeout=_PEER_TIMEOUT_S,
    )
    answer: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return answer


@dataclass(frozen=True, kw_only=True)
class Target:
    """A number that must lie within bounds.

    Attributes:
        value: What was measured.
        at_least: Lower bound; None where there is none.
        at_most: Upper bound; None where there is none.
    """

    value: float
    at_least: float | None = None
    at_most: float | None = None
    met: bool = field(init=False)

    def __post_init__(self) -> None:
        low = float("-inf") if self.at_least is None else self.at_least
        high = float("inf") if self.at_most is None else self.at_most
        object.__setattr__(self, "met", low <= self.value <= high)


def finish(result: Mapping[str, Any], targets: Mapping[str, Target]) -> None:
    """Print the result with its targets as one JSON object; exit with 1 where one is missed."""
    shown = {name: vars(target) for name, target in targets.items()}
    print(json.dumps({**result, "targets": shown}, indent=2))
    sys.exit(not all(target.met for target in targets.values()))
