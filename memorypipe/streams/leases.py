"""Who is at work on a generation, and whether they still are."""

import json
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from uuid import uuid4

from memorypipe.llm.owner import Owner
from memorypipe.pipeline.runs.record import Heartbeat
from memorypipe.table.run_status import EVERY_S, is_under_way
from memorypipe.table.times import now_utc

__all__ = ["Leases"]

_FOLDER = "owners"

# Of this process: what it does not hold any more is nobody's, though the process is there.
_held: set[str] = set()
_lock = threading.Lock()


class Leases:
    """Tells others that generations of this process are under way, by a file that is rewritten.

    The time of day is the machine's: it tells whether a process lives, and shapes no result.

    Args:
        path: The folder of the streams.
    """

    def __init__(self, path: Path) -> None:
        self._path = path / _FOLDER

    @contextmanager
    def hold(self) -> Iterator[dict[str, Any]]:
        """Hold a lease while the context lasts; gives what a claim has to name its owner."""
        token, owner = uuid4().hex, Owner.current()
        named = {"token": token, "host": owner.host, "pid": owner.pid}
        self._path.mkdir(parents=True, exist_ok=True)
        with _lock:
            _held.add(token)
        try:
            self._write(named)
            with Heartbeat(lambda: self._write(named), every_s=EVERY_S):
                yield named
        finally:
            with _lock:
                _held.discard(token)
            (self._path / f"{token}.json").unlink(missing_ok=True)

    def is_held(self, owner: Mapping[str, Any]) -> bool:
        """Tell whether the owner of a claim still works on it."""
        ours = Owner.current()
        if (owner["host"], owner["pid"]) == (ours.host, ours.pid):
            with _lock:
                return owner["token"] in _held
        try:
            record = json.loads((self._path / f"{owner['token']}.json").read_text("utf-8"))
        except FileNotFoundError:
            return False
        return is_under_way(record, now_utc())

    def _write(self, named: Mapping[str, Any]) -> None:
        record = {**named, "status": "running", "heartbeat_at": now_utc().isoformat()}
        scratch = self._path / f".{named['token']}.new"
        scratch.write_text(json.dumps(record), encoding="utf-8")
        scratch.replace(self._path / f"{named['token']}.json")
