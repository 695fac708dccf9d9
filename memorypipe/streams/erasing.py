"""Streams forget: the events of erased scopes and messages leave the files beside a table.

`memorypipe.table.erasing.erase` finds this module by its name, where a table has streams: the
table's package knows nothing of them.
"""

from dataclasses import replace
from pathlib import Path
from typing import Any

import orjson
import pyarrow as pa
import pyarrow.compute as pc

from memorypipe.errors import TableError
from memorypipe.streams.log import Log
from memorypipe.streams.segments import EVENTS, OPERATIONS
from memorypipe.streams.state import StreamState
from memorypipe.streams.view import Record, View
from memorypipe.table.erasing.targets import Targets
from memorypipe.table.times import now_utc

__all__ = ["count_events", "erase_events"]

_KEY = pa.binary(16)


def count_events(path: Path, targets: Targets) -> int:
    """Count the events that `erase_events` would take out.

    Args:
        path: The folder of the streams.
        targets: What is to go.
    """
    view = _quiet_log(path).view()
    return int(pc.sum(_Erasure(view, targets).goes(_all_events(view))).as_py() or 0)


def erase_events(path: Path, targets: Targets) -> int:
    """Take events out; how many.

    Streams of scopes that go as a whole go with all there is of them. Of a scope that a single
    message or memory is erased from, everything goes that memories were made of already, as nobody
    can tell which of it said what; what is pending stays, but for the message itself.

    Args:
        path: The folder of the streams.
        targets: What is to go.

    Raises:
        TableError: While memories are made of events.
    """
    log = _quiet_log(path)
    if not _Erasure(log.view(), targets).streams:
        return 0

    def settle(view: View) -> Record:
        if view.claims:
            raise TableError(
                "Memories are being made of streams, or a process was killed while it made some: "
                "run `memorypipe flush`, then erase again. Nothing of the streams was erased."
            )
        return Record(at_us=_now_us(), states=_Erasure(view, targets).states())

    log.commit(settle)
    # Whoever stands on what was before misses the commit above, and begins anew.
    view = log.commit(lambda _view: Record(at_us=_now_us()))
    erasure = _Erasure(view, targets)
    events = _all_events(view)
    goes = erasure.goes(events)
    log.begin_anew(
        events=events.filter(pc.invert(goes)),
        operations=erasure.operations(),
        without=frozenset(erasure.whole),
    )
    return int(pc.sum(goes).as_py() or 0)


class _Erasure:
    """Which streams are concerned, and what of them goes.

    Attributes:
        whole: Keys of streams that go as a whole.
        streams: Keys of all that are concerned, with their states.
    """

    def __init__(self, view: View, targets: Targets) -> None:
        self._view = view
        self._targets = targets
        self.streams: dict[bytes, StreamState] = {
            key: state
            for key, state in view.all_states()
            if state.scope_key in targets.evidence | targets.scope_keys
        }
        self.whole = [
            key for key, state in self.streams.items() if state.scope_key in targets.scope_keys
        ]

    def goes(self, events: pa.Table) -> pa.Array:
        """Tell which of all events go."""
        goes = pc.is_in(events["stream"], pa.array(self.whole, _KEY))
        for key, state in self.streams.items():
            if key not in self.whole:
                mine = pc.equal(events["stream"], pa.scalar(key, _KEY))
                processed = pc.less_equal(events["number"], state.flushed)
                named = pc.is_in(events["message_id"], pa.array(self._messages(state), pa.string()))
                goes = pc.or_(goes, pc.and_(mine, pc.or_(processed, named)))
        return goes.combine_chunks() if isinstance(goes, pa.ChunkedArray) else goes

    def _messages(self, state: StreamState) -> list[str]:
        return [
            name for name, scope in self._targets.source_ids if scope in {None, state.scope_key}
        ]

    def states(self) -> dict[bytes, StreamState]:
        """Give the states of streams from which pending events go."""
        changed: dict[bytes, StreamState] = {}
        for key, state in self.streams.items():
            if key in self.whole:
                continue
            pending = self._view.events(key, state.flushed, self._view.last_event)
            gone = pc.sum(
                pc.is_in(pending["message_id"], pa.array(self._messages(state), pa.string()))
            )
            if count := gone.as_py():
                changed[key] = replace(state, pending=state.pending - count)
        return changed

    def operations(self) -> pa.Table:
        """Give all operations that stay, of the streams concerned without what they made."""
        tables = [segment.rows for segment in self._view.base.operations]
        rows = pa.concat_tables([*tables, self._view.tail_operations()])
        rows = rows.filter(pc.invert(pc.is_in(rows["stream"], pa.array(self.whole, _KEY))))
        concerned = pc.is_in(rows["stream"], pa.array(list(self.streams), _KEY))
        kept = [
            _without_memories(rest) if is_one else rest
            for rest, is_one in zip(rows["rest"].to_pylist(), concerned.to_pylist(), strict=True)
        ]
        at = OPERATIONS.get_field_index("rest")
        return rows.set_column(at, OPERATIONS.field(at), pa.array(kept, pa.string()))


def _without_memories(rest: str) -> str:
    ending: dict[str, Any] = orjson.loads(rest)
    return orjson.dumps({**ending, "memories": []}).decode()


def _all_events(view: View) -> pa.Table:
    tables = [segment.rows for segment in view.base.events]
    return pa.concat_tables([EVENTS.empty_table(), *tables, view.tail_events()])


def _quiet_log(path: Path) -> Log:
    """Open the log so that it writes no checkpoint by itself."""
    never = 1 << 62
    return Log(path, commits=never, events=never)


def _now_us() -> int:
    return int(now_utc().timestamp() * 1e6)
