"""A journal in an object store (in memory): a reply that was put is stored, and found by others."""

import asyncio
import subprocess
import sys
from itertools import count
from typing import Any

import pytest

from memorypipe.errors import JournalError
from memorypipe.llm.journal.lines import encode_line
from memorypipe.llm.journal.objects import ObjectJournal
from memorypipe.llm.journal.objects_compact import compact_objects
from memorypipe.llm.journal.store import ObjectStore
from memorypipe.llm.journal.types import Compaction, JournalSettings
from memorypipe.llm.types import Reply
from tests.support.journals import KEYS, REPLY, Clock

ANN = '[["user_id","ann"]]'
_numbers = count()


@pytest.fixture
def store() -> ObjectStore:
    return ObjectStore.open(f"memory://bucket{next(_numbers)}/a%20b/journal")


def handle(store: ObjectStore, clock: Clock | None = None, **settings: Any) -> ObjectJournal:
    chosen = JournalSettings(**{"linger_s": 0.0, **settings})
    return ObjectJournal(store, writer_id="w/1", settings=chosen, clock=clock or Clock())


async def put_all(journal: ObjectJournal, keys: list[str], **options: Any) -> None:
    options = {"usable": True, **options}
    await asyncio.gather(*(journal.put(key, REPLY, **options) for key in keys))


async def found(journal: ObjectJournal, keys: list[str]) -> list[bool]:
    return [await journal.get(key) == REPLY for key in keys]


def segments(store: ObjectStore) -> list[str]:
    return sorted(name for name in store.listing() if name.endswith(".jsonl"))


def compact(store: ObjectStore, *, drop: tuple[str, ...] = (), size: int = 1 << 20) -> Compaction:
    settings = JournalSettings(compacted_bytes=size)
    keep = bool(drop)
    return compact_objects(
        store, settings=settings, keep_unusable=keep, drop_scopes=drop, now=Clock()
    )


def test_what_was_put_is_stored_and_found_by_the_next(store: ObjectStore) -> None:
    async def first() -> None:
        journal = handle(store)
        await put_all(journal, KEYS[:10])
        assert len(segments(store)) == 1, "they came together"
        assert await found(journal, KEYS[:11]) == [True] * 10 + [False]
        assert await found(handle(store), KEYS[:10]) == [True] * 10, "before any close"
        journal.close()
        assert journal.stats.segments == 1
        assert journal.stats.written == 10

    async def second() -> None:
        journal = handle(store)
        assert len(journal._catalog._tried) == 1, "the index told"
        assert await found(journal, KEYS[:11]) == [True] * 10 + [False]

    asyncio.run(first())
    asyncio.run(second())


def test_an_object_ends_when_it_is_big_enough_and_when_asked(store: ObjectStore) -> None:
    async def main() -> None:
        line = encode_line(KEYS[0], REPLY, usable=True, scope_key=None)
        journal = handle(store, linger_s=3600.0, batch_bytes=3 * len(line))
        await put_all(journal, KEYS[:9])
        assert len(segments(store)) == 3, "no reply waited for an hour"
        waiting = asyncio.create_task(put_all(journal, KEYS[9:10]))
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        assert len(segments(store)) == 3
        await journal.flush()
        await waiting
        assert len(segments(store)) == 4

    asyncio.run(main())


def test_closing_stores_what_nobody_waits_for_any_more(store: ObjectStore) -> None:
    async def main() -> ObjectJournal:
        journal = handle(store, linger_s=3600.0)
        waiting = asyncio.create_task(put_all(journal, KEYS[:1]))
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        waiting.cancel()
        return journal

    journal = asyncio.run(main())
    assert segments(store) == []
    journal.close()
    assert len(segments(store)) == 1
    assert asyncio.run(found(handle(store), KEYS[:1])) == [True]


def test_unusable_replies_are_stored_and_not_given(store: ObjectStore) -> None:
    async def main() -> None:
        journal = handle(store)
        await put_all(journal, KEYS[:1], usable=False)
        assert await found(journal, KEYS[:1]) == [False]

    asyncio.run(main())
    assert KEYS[0].encode() in (store.read(segments(store)[0]) or b"")


def test_a_miss_looks_for_what_others_stored_but_not_too_often(store: ObjectStore) -> None:
    async def main() -> None:
        clock = Clock()
        reader, writer = handle(store, clock), handle(store)
        await put_all(writer, KEYS[:1])
        assert await found(reader, KEYS[:1]) == [False]
        clock.now += 5
        both = [*await asyncio.gather(found(reader, KEYS[:1]), found(reader, KEYS[:2]))]
        assert both == [[True], [True, False]]
        assert reader._looking is None

    asyncio.run(main())


def test_a_long_reply_is_fetched_whole(store: ObjectStore) -> None:
    long = Reply(content="é" * 100_000)

    async def main() -> None:
        journal = handle(store)
        await asyncio.gather(
            journal.put(KEYS[0], long, usable=True), journal.put(KEYS[1], REPLY, usable=True)
        )
        assert await journal.get(KEYS[0]) == long
        assert await journal.get(KEYS[1]) == REPLY

    asyncio.run(main())


def test_many_objects_get_an_index_while_the_writer_goes_on(store: ObjectStore) -> None:
    async def main() -> None:
        journal = handle(store)
        for number in range(257):
            await journal.put(f"{number:032x}", REPLY, usable=True)
        assert len([name for name in store.listing() if name.endswith(".idx")]) == 1
        assert await journal.get(f"{5:032x}") == REPLY
        journal.close()

    asyncio.run(main())
    again = handle(store)
    assert (again.stats.segments, again.stats.known) == (257, 257)


def test_compaction_makes_one_object_and_open_handles_follow(store: ObjectStore) -> None:
    async def main() -> None:
        writer, reader = handle(store), handle(store)
        for key in KEYS[:5]:
            await writer.put(key, REPLY, usable=True)
        await writer.put(KEYS[0], REPLY, usable=True)
        await writer.put(KEYS[9], REPLY, usable=False)
        await reader._look()
        assert compact(store) == Compaction(merged=7, made=1, kept=5, dropped=2)
        assert sorted(name.split(".")[-1] for name in store.listing()) == ["idx", "jsonl"]
        for journal in (writer, reader, handle(store)):
            assert await found(journal, KEYS[:6]) == [True] * 5 + [False]
        await writer.put(KEYS[6], REPLY, usable=True)
        writer.close()
        assert compact(store).merged == 2
        assert await found(handle(store), [*KEYS[:5], KEYS[6]]) == [True] * 6
        assert compact(store) == Compaction()

    asyncio.run(main())
    assert len(store.listing()) == 2, "no index is left over"


def test_a_scope_is_erased(store: ObjectStore) -> None:
    async def main() -> None:
        journal = handle(store)
        await journal.put(KEYS[0], REPLY, usable=True, scope_key=ANN)
        await journal.put(KEYS[1], REPLY, usable=True)
        await journal.put(KEYS[2], REPLY, usable=False)
        assert compact(store, drop=(ANN,)) == Compaction(merged=3, made=1, kept=2, erased=1)
        assert await found(journal, KEYS[:2]) == [False, True]

    asyncio.run(main())
    assert b"ann" not in (store.read(segments(store)[0]) or b"")


def test_only_one_compaction_works_at_a_time(store: ObjectStore) -> None:
    now = Clock()
    now.now = 4e9  # later than the store's own clock
    assert store.take("compact.lock", now=now(), stale_after_s=1)
    early = JournalSettings()
    with pytest.raises(JournalError, match="being compacted"):
        compact_objects(store, settings=early, keep_unusable=False, drop_scopes=(), now=lambda: 0.0)
    compact_objects(store, settings=early, keep_unusable=False, drop_scopes=(), now=now)
    assert store.take("compact.lock", now=0.0, stale_after_s=1), "it was given back"


def test_names_below_the_prefix_or_beside_it_are_not_ours(store: ObjectStore) -> None:
    store.write("deeper/x.jsonl", b"x")
    ObjectStore(store.uri, store._store, "a b/journal2").write("x.jsonl", b"x")
    assert store.listing() == {}


def test_without_the_extra_the_error_names_it() -> None:
    code = (
        "import sys; sys.modules['obstore'] = None\n"
        "from memorypipe.llm.journal.open import open_journal\n"
        "from memorypipe.errors import JournalError\n"
        "try: open_journal('s3://bucket/journal')\n"
        "except JournalError as error: assert 'object-store' in str(error)\n"
        "else: raise SystemExit(1)\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)  # noqa: S603  # our own code
