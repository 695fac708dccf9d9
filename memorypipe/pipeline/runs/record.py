"""The record of a run while it goes on: how far it is, rewritten every few seconds."""

import logging
import threading
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from datetime import datetime
from types import TracebackType
from typing import Any, Self

from memorypipe.llm.owner import Owner
from memorypipe.pipeline.runs.folder import RunFolder
from memorypipe.pipeline.runs.open_metrics import open_metrics

__all__ = ["Heartbeat", "RunRecord", "write_record"]

_logger = logging.getLogger(__name__)


class Heartbeat(AbstractContextManager["Heartbeat"]):
    """Does something every so many seconds while the context lasts, in a thread of its own.

    Args:
        beat: What; a failure is told as a warning and the next try may work.
        every_s: Seconds from one time to the next.
        warning: What the warning says before the error.
    """

    def __init__(
        self,
        beat: Callable[[], None],
        *,
        every_s: float,
        warning: str = "The record of the run could not be written",
    ) -> None:
        self._beat = beat
        self._warning = warning
        self._every_s = every_s
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, name="memorypipe-record", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._ended.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._ended.wait(self._every_s):
            try:
                self._beat()
            except Exception as error:  # noqa: BLE001  # without a beat the run is taken for dead
                _logger.warning("%s: %s: %s", self._warning, type(error).__name__, error)


class RunRecord:
    """Writes `run.json` and `metrics.prom` of one run while it goes on.

    Args:
        folder: The run's folder.
        describe: Gives the record so far, without what is added here: when it was started and
            written, and by which process.
        clock: Gives the time.
    """

    def __init__(
        self,
        folder: RunFolder,
        describe: Callable[[], Mapping[str, Any]],
        *,
        clock: Callable[[], datetime],
    ) -> None:
        self._folder = folder
        self._describe = describe
        self._clock = clock
        self._started_at = clock().isoformat()
        self._owner = Owner.current()
        self._turn = threading.Lock()

    def write(self, **changes: Any) -> None:
        """Write the record as it is now.

        Args:
            **changes: Values that stand in for those of `describe`.
        """
        with self._turn:
            record = {
                **self._describe(),
                "started_at": self._started_at,
                "heartbeat_at": self._clock().isoformat(),
                "host": self._owner.host,
                "pid": self._owner.pid,
                **changes,
            }
            write_record(self._folder, record)


def write_record(folder: RunFolder, record: Mapping[str, Any]) -> None:
    """Write a record in both its forms."""
    folder.write_json("run", record)
    folder.write_text("metrics.prom", open_metrics(record))
