"""The log of commits beside a table: each an immutable file, made by compare-and-swap.

A commit is the file with the next number; exactly one process can make it. Every so many commits
the one that made the last writes a checkpoint; what lies before an old enough checkpoint is
removed, the oldest first. A process that was away for longer than that finds the commit that it
stands on gone, and begins anew at the newest checkpoint.
"""

import logging
import time
from collections.abc import Callable, Collection
from pathlib import Path
from uuid import uuid4

import orjson
import pyarrow as pa

from memorypipe.errors import TableError
from memorypipe.streams.checkpoint import CHECKPOINTS, SEGMENTS, Checkpoints
from memorypipe.streams.view import Record, View
from memorypipe.table.parquet.places import Folder
from memorypipe.table.storage import UnknownOutcomeError

__all__ = ["Log"]

_LOG = logging.getLogger(__name__)

_FOLDER = "log"
_BLOCK = 1_000
_MAX_RACES = 1_000
# What is replaced stays so long for those who still read it.
_KEPT_S = 600.0
_LOOK_EVERY = 16


class Log:
    """Reads and makes the commits of a table's streams; not safe for several threads at once.

    Args:
        path: The folder of the streams.
        commits: A checkpoint is written every so many commits.
        events: Likewise every so many events.
        kept_s: How long what a checkpoint replaced stays.
    """

    def __init__(
        self, path: Path, *, commits: int = 512, events: int = 65_536, kept_s: float = _KEPT_S
    ) -> None:
        self._path = path
        self._place = Folder(str(path))
        self._checkpoints = Checkpoints(self._place, path)
        self._commits = commits
        self._events = events
        self._kept_s = kept_s
        self._view: View | None = None

    def view(self) -> View:
        """Give the newest state; the same object grows with every call."""
        view = self._view or self._load()
        while (data := self._read(view.number + 1)) is not None or not self._stands(view):
            if data is None:
                view = self._load()
            else:
                view.apply(Record.decode(data))
        if view.number - view.base.number >= self._commits and not view.number % _LOOK_EVERY:
            view = self._rebased(view)
        self._view = view
        return view

    def commit(self, build: Callable[[View], Record | None]) -> View:
        """Make the next commit.

        Args:
            build: Gives it for a state; asked anew where another process came first. None: there
                is nothing to commit.

        Returns:
            The state with the commit in it.

        Raises:
            TableError: If it could not commit; the message says what is known.
        """
        for _ in range(_MAX_RACES):
            view = self.view()
            record = build(view)
            if record is None:
                return view
            if self._create(view, record):
                before = (view.number // self._commits, view.total // self._events)
                view.apply(record)
                if before != (view.number // self._commits, view.total // self._events):
                    self._checkpoint(view)
                    view = self.view()
                return view
        raise TableError(
            f"Nothing was stored in {str(self._path)!r}: {_MAX_RACES} other commits came first; "
            "try again."
        )

    def begin_anew(
        self, *, events: pa.Table, operations: pa.Table, without: Collection[bytes]
    ) -> None:
        """Write a checkpoint of the newest state with other content, and remove all before it.

        Whoever stands on what was before begins anew here, too.

        Args:
            events: All events, schema `EVENTS`.
            operations: All operations that have ended, schema `OPERATIONS`.
            without: Streams that are there no more.
        """
        view = self.view()
        self._checkpoints.write_anew(view, events=events, operations=operations, without=without)
        kept = self._checkpoints.files(view.number)
        for folder in (CHECKPOINTS, SEGMENTS):
            for name in self._place.listing(folder):
                if name not in kept:
                    self._place.remove(name)
        self._remove_log(view.number)
        self._view = None

    def _create(self, view: View, record: Record) -> bool:
        number, token = view.number + 1, uuid4().hex
        name = _name(number)
        try:
            is_ours = self._place.create(name, record.encode(token))
        except UnknownOutcomeError:
            data = self._read(number)
            is_ours = data is not None and orjson.loads(data).get("token") == token
        except OSError as error:
            raise TableError(
                f"Nothing was stored in {str(self._path)!r}: {error}; try again."
            ) from error
        if is_ours and not self._stands(view):
            # What it stands on was removed in this moment, so others may have been there before.
            raise TableError(
                f"Whether events were stored in {str(self._path)!r} is unknown: this process was "
                f"held up for more than {self._kept_s:.0f} s. Ingest them again under their ids: "
                "what is stored is not taken twice."
            )
        return is_ours

    def _stands(self, view: View) -> bool:
        """Whether the commit that a view ends with is there still, or a checkpoint of it."""
        return self._place.identity(_name(view.number)) is not None

    def _read(self, number: int) -> bytes | None:
        try:
            return self._place.read(_name(number))
        except FileNotFoundError:
            return None

    def _load(self) -> View:
        for _ in range(_MAX_RACES):
            newest = self._checkpoints.newest()
            if newest == 0:
                self._place.create(_name(0), b"{}")
            try:
                return View(self._checkpoints.open(newest))
            except FileNotFoundError:
                continue  # it was replaced and removed in this moment
        raise TableError(f"The streams at {str(self._path)!r} cannot be read: files are missing.")

    def _rebased(self, view: View) -> View:
        """Begin at a newer checkpoint, where there is one."""
        if self._checkpoints.newest() <= view.base.number:
            return view
        newer = self._load()
        while newer.number < view.number and (data := self._read(newer.number + 1)) is not None:
            newer.apply(Record.decode(data))
        return newer if newer.number >= view.number else view

    def _checkpoint(self, view: View) -> None:
        """Write a checkpoint; where that fails the commit stands, and a later one tries again."""
        try:
            if not self._checkpoints.is_outdated(view.base):
                self._checkpoints.write(view)
            self._view = self._rebased(view)
            self._clean()
        except (OSError, UnknownOutcomeError) as error:
            _LOG.warning(
                "No checkpoint of the streams at %s could be written: %s", self._path, error
            )

    def _clean(self) -> None:
        """Remove what was replaced long enough ago."""
        horizon = time.time() - self._kept_s
        written = self._checkpoints.numbers()
        old = [number for number, at in written.items() if at <= horizon]
        anchor = max(old, default=0)
        for number in sorted(old):
            if number < anchor:
                self._place.remove(f"checkpoints/{number:012d}.json")
        kept = {
            name
            for number in self._checkpoints.numbers()
            for name in self._checkpoints.files(number)
        }
        for name, at in self._place.listing(SEGMENTS).items():
            if at <= horizon and name not in kept:
                self._place.remove(name)
        self._remove_log(anchor)

    def _remove_log(self, anchor: int) -> None:
        """Remove the commits before a checkpoint, the oldest first."""
        folder = self._path / _FOLDER
        blocks = sorted(int(path.name) for path in folder.iterdir() if path.name.isdecimal())
        for block in blocks:
            if block * _BLOCK >= anchor:
                break
            path = folder / _block(block)
            for file in sorted(path.iterdir()):
                if file.stem.isdecimal() and int(file.stem) < anchor:
                    file.unlink(missing_ok=True)
            if (block + 1) * _BLOCK <= anchor:
                _remove_empty(path)


def _remove_empty(path: Path) -> None:
    try:
        path.rmdir()
    except OSError:
        return  # somebody's file lies aside in it


def _block(block: int) -> str:
    return f"{block:09d}"


def _name(number: int) -> str:
    return f"{_FOLDER}/{_block(number // _BLOCK)}/{number:012d}.json"
