"""How far a run has come, on standard error: a bar in a terminal, an occasional line elsewhere."""

import time
from collections.abc import Callable
from types import TracebackType
from typing import TYPE_CHECKING, Self

from rich.console import Console
from rich.progress import (
    BarColumn,
    SpinnerColumn,
    TaskID,
    TextColumn,
    TimeElapsedColumn,
)
from rich.progress import Progress as Bar
from rich.text import Text

if TYPE_CHECKING:  # it imports Ray
    from memorypipe.pipeline.planning_config import Progress

__all__ = ["ProgressDisplay"]

_STAGES = {
    "windows": "Reading the log",
    "batch": "Waiting for batches",
    "extract": "Extracting facts",
    "decide": "Deciding changes",
    "consolidate": "Deciding about memories",
}
_SCOPES = "consolidate"
_LINE_EVERY_S = 15.0


class ProgressDisplay:
    """Shows the progress of one run while the context lasts.

    Args:
        console: On standard error.
        clock: Monotonic seconds.
    """

    def __init__(self, console: Console, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._console = console
        self._clock = clock
        self._bar = _make_bar(console) if console.is_terminal else None
        self._task: TaskID | None = None
        self._stage = ""
        self._told_at_s = 0.0

    def __enter__(self) -> Self:
        if self._bar is not None:
            self._bar.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._bar is not None:
            self._bar.stop()

    def say(self, what: str) -> None:
        """Tell of a step whose length nobody knows."""
        self._show(what, 0, None)

    def __call__(self, progress: "Progress") -> None:
        """Tell of a step forward."""
        if progress.stage == "commit":
            self.say("Committing")
        else:
            unit = "scopes" if progress.stage == _SCOPES else "windows"
            self._show(_STAGES[progress.stage], progress.done, progress.total, unit)

    def _show(self, stage: str, done: int, total: int | None, unit: str = "") -> None:
        is_new = stage != self._stage
        self._stage = stage
        if self._bar is not None:
            if is_new or self._task is None:
                if self._task is not None:
                    self._bar.remove_task(self._task)
                self._task = self._bar.add_task(stage, total=total, count="")
            self._bar.update(
                self._task, completed=done, total=total, count=_counted(done, total, unit)
            )
            return
        now_s = self._clock()
        if is_new or now_s - self._told_at_s >= _LINE_EVERY_S:
            self._told_at_s = now_s
            self._console.print(Text(_line(stage, done, total, unit)))


def _line(stage: str, done: int, total: int | None, unit: str) -> str:
    """Show a step as one line.

    Example:
        >>> _line("Extracting facts", 5, 20, "windows")
        'Extracting facts: 5/20 windows'
    """
    counted = _counted(done, total, unit)
    return f"{stage}: {counted}" if counted else stage


def _counted(done: int, total: int | None, unit: str) -> str:
    if total is None:
        return f"{done:,} {unit}" if done else ""
    return f"{done:,}/{total:,} {unit}"


def _make_bar(console: Console) -> Bar:
    return Bar(
        SpinnerColumn(),
        TextColumn("{task.description}"),
        BarColumn(bar_width=24),
        TextColumn("{task.fields[count]}"),
        TimeElapsedColumn(),
        console=console,
        transient=True,
        refresh_per_second=5,
    )
