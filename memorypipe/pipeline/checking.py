"""Checks of facts in a process beside this one.

What is checked of a window takes milliseconds of pure Python. In the process that asks the model
every request waits for them; and the one core that it has is not all that there is.
"""

import contextlib
import json
import logging
import os
import subprocess
import sys
import threading
from typing import Any

import pyarrow as pa

from memorypipe.pipeline.extracted import facts_table
from memorypipe.schema import FACTS

__all__ = ["Checker", "serve"]

# Windows whose checks take longer than a process does to start.
_LEAST_WINDOWS = 64

# With the modules of this process, wherever they come from, and nothing from the working folder.
_SERVE = """
import json, sys
sys.path[:] = json.loads(sys.argv[1])
from memorypipe.pipeline.checking import serve
serve()
"""

_logger = logging.getLogger(__name__)


class Checker:
    """Checks windows, here until another process is ready to; for one thread at a time."""

    def __init__(self) -> None:
        self._child: _Child | None = None

    def expect(self, windows: int) -> None:
        """Start a process where so many windows are worth it, without waiting for it.

        It ends with `close`, or with this process. Where it is lost, the rest is done here.
        """
        if self._child is not None or windows < _LEAST_WINDOWS or not _has_room():
            return
        try:
            self._child = _Child()
        except (OSError, RuntimeError) as error:  # no process, or no thread
            _logger.debug("Facts are checked here.", exc_info=error)

    def check(self, asked: pa.Table) -> pa.Table:
        """Do as `memorypipe.pipeline.extracted.facts_table`."""
        child = self._child  # `close` may come from another thread
        if child is not None and child.is_ready:
            try:
                return child.check(asked)
            except (OSError, ValueError, StopIteration, pa.ArrowException) as lost:
                _logger.debug("Facts are checked here from now on.", exc_info=lost)
                self.close()
        return facts_table(asked)

    def close(self) -> None:
        """End the process, where there is one."""
        child, self._child = self._child, None
        if child is not None:
            child.end()


def _has_room() -> bool:
    """Whether another process would be beside this one, and Python can be started as one.

    In a program that carries its Python with it, what would be started is the program again.
    """
    is_carried = getattr(sys, "frozen", False)
    return (os.cpu_count() or 1) > 1 and bool(sys.executable) and not is_carried


class _Child:
    """The process beside this one; tables travel through its pipes as streams of Arrow."""

    def __init__(self) -> None:
        self._process = subprocess.Popen(  # noqa: S603  # ourselves
            [sys.executable, "-P", "-c", _SERVE, json.dumps([str(each) for each in sys.path])],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            start_new_session=True,  # Ctrl-C goes to us, and we end it
        )
        self._questions: Any = None
        self._answers: Any = None
        self._connecting = threading.Thread(
            target=self._connect, name="memorypipe-checks", daemon=True
        )
        try:
            self._connecting.start()
        except BaseException:
            self.end()
            raise

    @property
    def is_ready(self) -> bool:
        """Whether it has come up."""
        return self._answers is not None

    def _connect(self) -> None:
        with contextlib.suppress(
            OSError, ValueError, StopIteration, pa.ArrowException
        ):  # it was ended
            answers = pa.ipc.open_stream(self._process.stdout)
            answers.read_next_batch()
            self._answers = answers

    def check(self, asked: pa.Table) -> pa.Table:
        """Have a table checked; raises what says that the process is lost."""
        (batch,) = asked.combine_chunks().to_batches()
        pipe: Any = self._process.stdin
        if self._questions is None:
            self._questions = pa.ipc.new_stream(pipe, batch.schema)
        self._questions.write_batch(batch)
        pipe.flush()
        return pa.Table.from_batches([self._answers.read_next_batch()])

    def end(self) -> None:
        """End it, wherever it is; it has nothing to put in order."""
        self._process.kill()
        self._process.wait()
        if self._connecting.ident is not None:
            # Nothing comes any more; a thread in the reader when Python ends would abort it.
            self._connecting.join()
        for pipe in (self._process.stdin, self._process.stdout):
            with contextlib.suppress(OSError):  # what is left to write goes nowhere
                pipe.close()  # type: ignore[union-attr]  # it is one


def serve() -> None:
    """Check what comes in by the standard input until it ends: the child's side."""
    pipe = sys.stdout.buffer
    answers = pa.ipc.new_stream(pipe, FACTS)
    answers.write_batch(pa.RecordBatch.from_pylist([], schema=FACTS))  # ready
    pipe.flush()
    for batch in pa.ipc.open_stream(sys.stdin.buffer):
        (checked,) = facts_table(pa.Table.from_batches([batch])).combine_chunks().to_batches()
        answers.write_batch(checked)
        pipe.flush()
