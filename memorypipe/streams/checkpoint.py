"""Checkpoints: all of a view in a few sorted files, so that nobody reads the log from its start."""

from collections.abc import Callable, Collection, Sequence
from pathlib import Path
from typing import Any, TypeVar

import orjson
import pyarrow as pa
import pyarrow.compute as pc

from memorypipe.logs.known import pack_keys
from memorypipe.streams.segments import (
    KeySegment,
    Named,
    RowSegment,
    merged_sizes,
    open_keys,
    open_rows,
    write_keys,
    write_rows,
)
from memorypipe.streams.state import states_table
from memorypipe.streams.view import Base, View
from memorypipe.table.parquet.places import Place

__all__ = ["CHECKPOINTS", "FORMAT_VERSION", "SEGMENTS", "Checkpoints"]

FORMAT_VERSION = 1

CHECKPOINTS = "checkpoints"
SEGMENTS = "segments"

_Content = TypeVar("_Content")
_Part = TypeVar("_Part")


class Checkpoints:
    """Writes and opens checkpoints.

    Args:
        place: The folder of the streams.
        path: The same, for files that are mapped into memory.
    """

    def __init__(self, place: Place, path: Path) -> None:
        self._place = place
        self._path = path
        self._named: dict[int, dict[str, Any]] = {}

    def numbers(self) -> dict[int, float]:
        """List the checkpoints: number to when each was written, in seconds since 1970."""
        listing = self._place.listing(CHECKPOINTS)
        names = {Path(name): time for name, time in listing.items()}
        return {int(name.stem): time for name, time in names.items() if name.stem.isdecimal()}

    def newest(self) -> int:
        """Give the number of the newest; 0 where there is none."""
        return max(self.numbers(), default=0)

    def open(self, number: int) -> Base:
        """Open a checkpoint.

        Raises:
            FileNotFoundError: If it, or a file of it, is gone: there is a newer one.
        """
        if number == 0:
            return Base()
        manifest = self._manifest(number)

        def files(kind: str) -> list[Path]:
            return [self._path / SEGMENTS / each["name"] for each in manifest[kind]]

        return Base(
            number=number,
            total=manifest["total"],
            states=open_rows(self._path / SEGMENTS / manifest["states"]["name"]),
            events=[RowSegment(open_rows(path)) for path in files("events")],
            keys=[KeySegment(open_keys(path)) for path in files("keys")],
            operations=[RowSegment(open_rows(path)) for path in files("operations")],
            claims=manifest["claims"],
            settings=manifest["settings"],
        )

    def write(self, view: View) -> bool:
        """Write a checkpoint of a view; False where there is one of this commit."""
        before = {} if view.base.number == 0 else self._manifest(view.base.number)
        manifest = {
            "format_version": FORMAT_VERSION,
            "number": view.number,
            "total": view.total,
            "states": self._write_states(view),
            "events": self._grown(
                before.get("events", ()),
                view.base.events,
                view.tail_events(),
                lambda parts: write_rows("events", parts),
                lambda segment: segment.rows,
            ),
            "operations": self._grown(
                before.get("operations", ()),
                view.base.operations,
                view.tail_operations(),
                lambda parts: write_rows("operations", parts),
                lambda segment: segment.rows,
            ),
            "keys": self._grown(
                before.get("keys", ()),
                view.base.keys,
                pack_keys(view.keys),
                write_keys,
                lambda segment: segment.keys,
            ),
            "claims": view.claims,
            "settings": view.settings,
            "anew": before.get("anew", 0),
        }
        return self._place.create(_name(view.number), orjson.dumps(manifest))

    def write_anew(
        self, view: View, *, events: pa.Table, operations: pa.Table, without: Collection[bytes]
    ) -> None:
        """Write a checkpoint of a view that shares no file with those before it.

        Args:
            view: Its states, keys, claims and settings.
            events: In the place of its events; schema `EVENTS`.
            operations: Likewise; schema `OPERATIONS`.
            without: Streams that are left out.
        """
        gone = pa.array(list(without), pa.binary(16))
        states = pa.concat_tables(self._states(view))
        states = states.filter(pc.invert(pc.is_in(states["stream"], gone)))
        keys = [*(segment.keys for segment in view.base.keys), pack_keys(view.keys)]
        manifest = {
            "format_version": FORMAT_VERSION,
            "number": view.number,
            "total": view.total,
            "states": self._put(write_rows("states", [states])),
            "events": [self._put(write_rows("events", [events]))],
            "operations": [self._put(write_rows("operations", [operations]))],
            "keys": [self._put(write_keys(keys))],
            "claims": view.claims,
            "settings": view.settings,
            "anew": view.number,
        }
        self._place.create(_name(view.number), orjson.dumps(manifest))

    def _put(self, written: tuple[Named, Any]) -> dict[str, Any]:
        named, content = written
        self._place.write(f"{SEGMENTS}/{named.name}", content)
        return named.to_dict()

    def is_outdated(self, base: Base) -> bool:
        """Whether a later checkpoint was written anew: then no file of this one is to be used."""
        newest = self.newest()
        return newest > base.number and self._manifest(newest).get("anew", 0) > base.number

    def files(self, number: int) -> set[str]:
        """Name the files of a checkpoint, itself among them."""
        manifest = self._manifest(number)
        named = [manifest["states"], *manifest["events"], *manifest["keys"]]
        named += manifest["operations"]
        return {_name(number), *(f"{SEGMENTS}/{each['name']}" for each in named)}

    def _manifest(self, number: int) -> dict[str, Any]:
        if number not in self._named:
            self._named = {number: orjson.loads(self._place.read(_name(number)))}
        return self._named[number]

    def _write_states(self, view: View) -> dict[str, Any]:
        return self._put(write_rows("states", self._states(view)))

    def _states(self, view: View) -> list[pa.Table]:
        newer = states_table(view.states)
        old = view.base.states
        is_old = pc.invert(pc.is_in(old["stream"], newer["stream"].combine_chunks()))
        return [old.filter(is_old), newer]

    def _grown(
        self,
        before: Sequence[dict[str, Any]],
        segments: Sequence[_Part],
        tail: _Content,
        write: Callable[[list[_Content]], tuple[Named, Any]],
        content_of: Callable[[_Part], _Content],
    ) -> list[dict[str, Any]]:
        """Write the tail as a segment, and merge segments that are too many."""
        contents = {
            named["name"]: content_of(segment)
            for named, segment in zip(before, segments, strict=True)
        }
        listed = [Named.from_dict(named) for named in before]
        if len(tail):  # type: ignore[arg-type]  # a table or an array
            fresh, data = write([tail])
            listed.append(fresh)
            contents[fresh.name] = tail
            pending = {fresh.name: data}
        else:
            pending = {}
        kept: list[Named] = []
        for group in merged_sizes(listed):
            named = group[0]
            if len(group) > 1:
                named, data = write([contents[each.name] for each in group])
                pending[named.name] = data
            kept.append(named)
        for named in kept:
            if named.name in pending:
                self._place.write(f"{SEGMENTS}/{named.name}", pending[named.name])
        return [named.to_dict() for named in kept]


def _name(number: int) -> str:
    return f"{CHECKPOINTS}/{number:012d}.json"
