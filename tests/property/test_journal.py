"""A journal is a dictionary, however its writers are cut off and its segments compacted."""

import os
import tempfile
from pathlib import Path
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from memorypipe.llm.journal.compact import compact_folder
from memorypipe.llm.journal.local import LocalJournal
from memorypipe.llm.journal.types import JournalSettings
from memorypipe.llm.types import Reply
from tests.support.journals import Clock, get, local, put

# The first four share the half that indexes hold.
KEYS = [f"{half:016x}{rest:016x}" for half in (7, 2**63) for rest in range(4)]
SCOPES = ["ann", "bob"]

WRITERS = st.integers(0, 1)
STEPS = st.one_of(
    st.tuples(st.just("put"), WRITERS, st.sampled_from(KEYS), st.booleans()),
    st.tuples(st.just("get"), WRITERS, st.sampled_from(KEYS)),
    st.tuples(st.just("close"), WRITERS),
    st.tuples(st.just("kill"), WRITERS, st.integers(0, 40)),
    st.tuples(st.just("compact"), st.booleans()),
    st.tuples(st.just("drop"), st.sampled_from(SCOPES)),
)


class World:
    """A folder with two handles, and what it should hold: the usable texts of each key."""

    def __init__(self, folder: Path, segment_bytes: int, memory_bytes: int) -> None:
        self.folder = folder
        self.clock = Clock()
        self.sizes: dict[str, Any] = {"segment_bytes": segment_bytes, "memory_bytes": memory_bytes}
        self.handles = [self.open(), self.open()]
        self.model: dict[str, dict[str, str]] = {}
        self.count = 0

    def open(self) -> LocalJournal:
        return local(self.folder, clock=self.clock, **self.sizes)

    def put(self, writer: int, key: str, is_usable: bool) -> None:  # noqa: FBT001  # drawn
        self.count += 1
        text, scope = f"text {self.count}", SCOPES[self.count % 2]
        put(self.handles[writer], key, Reply(content=text), usable=is_usable, scope_key=scope)
        if is_usable:
            self.model.setdefault(key, {})[text] = scope

    def get(self, writer: int, key: str) -> None:
        self.clock.now += 1
        check(self, self.handles[writer], key)

    def close(self, writer: int) -> None:
        self.handles[writer].close()

    def kill(self, writer: int, torn_bytes: int) -> None:
        """End a writer as a kill does: the lock is gone, there is no index, a line is torn."""
        segment = self.handles[writer]._segment
        if segment is not None:
            torn = b'{"key":"00000000000000070000000000000000","usable":true,'[:torn_bytes]
            os.write(segment.fd, torn)
            os.close(segment.fd)
            self.handles[writer]._segment = None
        self.handles[writer].close()
        self.handles[writer] = self.open()

    def compact(self, keep_unusable: bool) -> None:  # noqa: FBT001  # drawn
        self._compact(keep_unusable=keep_unusable, scopes=())

    def drop(self, scope: str) -> None:
        self._compact(keep_unusable=True, scopes=(scope,))
        for texts in self.model.values():
            for text in [text for text, own in texts.items() if own == scope]:
                del texts[text]

    def _compact(self, *, keep_unusable: bool, scopes: tuple[str, ...]) -> None:
        compact_folder(
            self.folder,
            settings=JournalSettings(compacted_bytes=2_000),
            keep_unusable=keep_unusable,
            drop_scopes=scopes,
            now=self.clock,
        )


def check(world: World, handle: LocalJournal, key: str) -> None:
    """A key gives one of its usable texts; nothing only where there is none."""
    found = get(handle, key)
    texts = world.model.get(key, {})
    if found is None:
        assert not texts, "a reply was lost"
    else:
        assert found.content in texts, "a reply that is gone, or of another key"


@settings(max_examples=60, deadline=None)
@given(
    steps=st.lists(STEPS, max_size=40),
    segment_bytes=st.sampled_from([1, 700, 1 << 20]),
    memory_bytes=st.sampled_from([0, 64, 1 << 20]),
)
def test_whatever_happens_each_reply_is_found_until_it_is_erased(
    steps: list[tuple[object, ...]], segment_bytes: int, memory_bytes: int
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        world = World(Path(folder), segment_bytes, memory_bytes)
        for name, *arguments in steps:
            getattr(world, str(name))(*arguments)
        world.clock.now += 1
        world.handles.append(world.open())
        for handle in world.handles:
            for key in KEYS:
                check(world, handle, key)
        for handle in world.handles:
            handle.close()
