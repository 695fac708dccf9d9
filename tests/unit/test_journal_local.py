"""A local journal: what was put is found, whatever becomes of the process or the files."""

import os
import signal
from pathlib import Path

import pytest

from memorypipe.llm.journal.index import map_index
from memorypipe.llm.types import Reply
from tests.support.journals import KEYS, REPLY, Clock, fill, get, local, put


def test_a_reply_comes_back_with_every_field(tmp_path: Path) -> None:
    journal = local(tmp_path / "deep" / "journal")
    cut = Reply(content=None, finish_reason="length", refusal="No.", model=None)
    put(journal, KEYS[0], REPLY, scope_key='[["user_id","u1"]]')
    put(journal, KEYS[1], cut)
    for handle in (journal, local(tmp_path / "deep" / "journal")):
        assert get(handle, KEYS[0]) == REPLY
        assert get(handle, KEYS[1]) == cut
        assert get(handle, KEYS[2]) is None
    journal.close()
    assert get(journal, KEYS[0]) == REPLY, "a closed handle still reads"
    journal.close()


def test_only_usable_replies_are_used_again(tmp_path: Path) -> None:
    journal = local(tmp_path)
    put(journal, KEYS[0], usable=False)
    assert get(journal, KEYS[0]) is None
    journal.close()
    assert get(local(tmp_path), KEYS[0]) is None
    assert KEYS[0] in next(tmp_path.glob("*.jsonl")).read_text()


@pytest.mark.parametrize("index_from_bytes", [1, 1 << 20])
def test_the_last_usable_reply_of_a_segment_counts(tmp_path: Path, index_from_bytes: int) -> None:
    newer = Reply(content="newer")
    journal = local(tmp_path, index_from_bytes=index_from_bytes)
    put(journal, KEYS[0], REPLY)
    put(journal, KEYS[0], newer)
    put(journal, KEYS[0], Reply(content="bad"), usable=False)
    assert get(journal, KEYS[0]) == newer
    journal.close()
    again = local(tmp_path)
    assert get(again, KEYS[0]) == newer
    again.close()


def test_a_cut_at_every_byte_of_the_last_record_loses_that_record_only(tmp_path: Path) -> None:
    whole = fill(tmp_path / "whole", KEYS[:4]).read_bytes()
    last = whole.rstrip(b"\n").rindex(b"\n") + 1
    for end in range(last, len(whole)):
        folder = tmp_path / f"cut{end}"
        folder.mkdir()
        (folder / "w.jsonl").write_bytes(whole[:end])
        journal = local(folder)
        assert [get(journal, key) is not None for key in KEYS[:4]] == [True, True, True, False]
        assert journal.stats.unreadable == (1 if end > last else 0)
        assert (folder / "w.jsonl").read_bytes() == whole[:end], "a reader cuts nothing"
        journal.close()


def test_damage_in_the_middle_costs_the_damaged_lines_only(tmp_path: Path) -> None:
    segment = fill(tmp_path, KEYS[:4], index_from_bytes=1 << 20)
    lines = segment.read_bytes().splitlines(keepends=True)
    lines[0] = b"\x00" * (len(lines[0]) - 1) + b"\n"
    lines[1] = lines[1].replace(b'"reply":{', b'"reply":[')
    segment.write_bytes(b"".join(lines))
    journal = local(tmp_path)
    assert [get(journal, key) is not None for key in KEYS[:4]] == [False, False, True, True]
    assert journal.stats.unreadable == 1, "what looks whole from outside is not parsed at the start"
    journal.close()


def test_a_line_longer_than_one_read_is_whole(tmp_path: Path) -> None:
    long = Reply(content="é" * 100_000)
    journal = local(tmp_path)
    put(journal, KEYS[0], long)
    put(journal, KEYS[1])
    assert (get(journal, KEYS[0]), get(journal, KEYS[1])) == (long, REPLY)
    journal.close()


def test_writers_with_one_id_write_segments_of_their_own(tmp_path: Path) -> None:
    handles = [local(tmp_path, writer_id="a/b") for _ in range(3)]
    for handle, key in zip(handles, KEYS, strict=False):
        put(handle, key)
    assert len(list(tmp_path.glob("a_b*.jsonl"))) == 3
    for handle in handles:
        handle.close()
    reader = local(tmp_path)
    assert [get(reader, key) for key in KEYS[:3]] == [REPLY] * 3
    reader.close()


def test_a_reader_leaves_nothing_behind(tmp_path: Path) -> None:
    local(tmp_path).close()
    assert list(tmp_path.iterdir()) == []


def test_segments_that_are_gone_are_a_miss(tmp_path: Path) -> None:
    fill(tmp_path, KEYS[:1])
    journal = local(tmp_path)
    for path in tmp_path.iterdir():
        path.unlink()
    assert get(journal, KEYS[0]) is None


def test_keys_that_share_their_first_half_are_told_apart(tmp_path: Path) -> None:
    twins = ["f" * 16 + f"{number:016x}" for number in range(3)]
    journal = local(tmp_path)
    for number, key in enumerate(twins[:2]):
        put(journal, key, Reply(content=str(number)))
    journal.close()
    reader = local(tmp_path)
    found = [get(reader, key) for key in twins]
    assert [reply.content if reply else None for reply in found] == ["0", "1", None]
    reader.close()


def test_after_a_write_that_failed_the_next_goes_to_a_new_segment(tmp_path: Path) -> None:
    resource = pytest.importorskip("resource")
    journal = local(tmp_path, index_from_bytes=1 << 20)
    put(journal, KEYS[0])
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    ignored = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    size_bytes = next(tmp_path.glob("*.jsonl")).stat().st_size
    try:
        resource.setrlimit(resource.RLIMIT_FSIZE, (size_bytes + 30, limits[1]))
        with pytest.raises(OSError, match="journal took only part"):
            put(journal, KEYS[1])
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
        signal.signal(signal.SIGXFSZ, ignored)
    put(journal, KEYS[2])
    journal.close()
    reader = local(tmp_path)
    assert [get(reader, key) for key in KEYS[:3]] == [REPLY, None, REPLY]
    assert (reader.stats.segments, reader.stats.unreadable) == (2, 1)
    reader.close()


def test_a_full_segment_is_finished_with_an_index_and_a_new_one_begun(tmp_path: Path) -> None:
    journal = local(tmp_path, segment_bytes=1000)
    for key in KEYS:
        put(journal, key)
    assert [get(journal, key) for key in KEYS] == [REPLY] * len(KEYS)
    journal.close()
    segments = sorted(tmp_path.glob("*.jsonl"))
    assert len(segments) > 5
    for segment in segments:
        index = map_index(segment.with_suffix(".idx"))
        assert index is not None
        assert index.is_sound()
        assert index.covered[0].size_bytes == segment.stat().st_size


def test_what_an_index_covers_is_not_scanned(tmp_path: Path) -> None:
    """A segment of zeros cannot be scanned; with its index it is known."""
    segment = fill(tmp_path, KEYS[:3])
    size_bytes = segment.stat().st_size
    os.truncate(segment, 0)
    os.truncate(segment, size_bytes)
    journal = local(tmp_path)
    assert (journal.stats.known, journal.stats.unreadable) == (3, 0)


def test_what_an_index_does_not_cover_is_scanned(tmp_path: Path) -> None:
    segment = fill(tmp_path, KEYS[:3])
    other = fill(tmp_path / "other", KEYS[3:4])
    with segment.open("ab") as file:
        file.write(other.read_bytes())
    journal = local(tmp_path)
    assert [get(journal, key) for key in KEYS[:4]] == [REPLY] * 4
    journal.close()


@pytest.mark.parametrize("at", [0, 9, 30, -1, -20])
@pytest.mark.parametrize("cut", [False, True])
def test_a_damaged_index_is_as_none(tmp_path: Path, at: int, cut: bool) -> None:  # noqa: FBT001  # parametrised
    segment = fill(tmp_path, KEYS[:3])
    index = segment.with_suffix(".idx")
    data = bytearray(index.read_bytes())
    data[at] ^= 1
    index.write_bytes(data[:at] if cut else data)
    journal = local(tmp_path)
    assert [get(journal, key) for key in KEYS[:3]] == [REPLY] * 3
    journal.close()


def test_the_next_opener_indexes_what_a_killed_writer_left(tmp_path: Path) -> None:
    killed = local(tmp_path)
    put(killed, KEYS[0])
    assert list(tmp_path.glob("*.idx")) == []
    local(tmp_path).close()
    assert list(tmp_path.glob("*.idx")) == [], "its writer is at work and holds the lock"
    assert killed._segment is not None
    os.close(killed._segment.fd)
    with killed._segment.path.open("ab") as file:
        file.write(b'{"key":"torn')
    local(tmp_path).close()
    (path,) = tmp_path.glob("*.idx")
    index = map_index(path)
    assert index is not None
    assert index.covered[0].usable == 1
    again = local(tmp_path)
    assert (get(again, KEYS[0]), again.stats.unreadable) == (REPLY, 1)
    again.close()


def test_a_segment_of_another_machine_is_indexed_after_ten_minutes_of_rest(tmp_path: Path) -> None:
    segment = fill(tmp_path, KEYS[:1], index_from_bytes=1 << 20)
    foreign = segment.rename(tmp_path / "w.0badcafe.000000.jsonl")
    clock = Clock()
    os.utime(foreign, (clock.now - 599, clock.now - 599))
    local(tmp_path, clock=clock).close()
    assert list(tmp_path.glob("*.idx")) == []
    clock.now += 1
    local(tmp_path, clock=clock).close()
    assert len(list(tmp_path.glob("*.idx"))) == 1


def test_a_miss_sees_what_others_have_written_since(tmp_path: Path) -> None:
    clock = Clock()
    reader, writer = local(tmp_path, clock=clock), local(tmp_path)
    put(writer, KEYS[0])
    assert get(reader, KEYS[0]) is None, "it has just looked"
    clock.now += 1
    assert get(reader, KEYS[0]) == REPLY
    put(writer, KEYS[1])
    clock.now += 1
    assert get(reader, KEYS[1]) == REPLY, "the segment has grown"
    writer.close()
    put(writer, KEYS[2])
    writer.close()
    clock.now += 1
    assert get(reader, KEYS[2]) == REPLY, "a new segment, with an index"
    assert get(reader, KEYS[0]) == REPLY
    assert (reader.stats.hits, reader.stats.misses, reader.stats.segments) == (4, 1, 2)
    reader.close()


def test_a_torn_tail_that_grows_whole_is_taken_in(tmp_path: Path) -> None:
    whole = fill(tmp_path / "whole", KEYS[:2]).read_bytes()
    segment = tmp_path / "w.jsonl"
    segment.write_bytes(whole[:-10])
    clock = Clock()
    reader = local(tmp_path, clock=clock)
    assert reader.stats.unreadable == 1
    segment.write_bytes(whole)
    clock.now += 1
    assert get(reader, KEYS[1]) == REPLY
    assert reader.stats.unreadable == 0
    reader.close()


def test_a_writer_begins_a_new_segment_after_a_long_pause(tmp_path: Path) -> None:
    """Others may take the old one for a dead one's by then, and compact it."""
    clock = Clock()
    journal = local(tmp_path, clock=clock)
    put(journal, KEYS[0])
    clock.now += 299
    put(journal, KEYS[1])
    assert len(list(tmp_path.glob("*.jsonl"))) == 1
    clock.now += 300
    put(journal, KEYS[2])
    journal.close()
    assert len(list(tmp_path.glob("*.jsonl"))) == 2


def test_indexes_beyond_the_memory_bound_are_mapped_and_merged_when_many(tmp_path: Path) -> None:
    for key in KEYS[:6]:
        fill(tmp_path, [key])
    journal = local(tmp_path, memory_bytes=16)
    assert [get(journal, key) for key in KEYS[:7]] == [REPLY] * 6 + [None]
    assert len(list(tmp_path.glob("merged-*.idx"))) == 1
    assert len(journal._catalog.mapped) == 1
    assert journal._catalog.places.memory_bytes == 16
    again = local(tmp_path, memory_bytes=16)
    assert len(again._catalog.mapped) <= 2
    assert [get(again, key) for key in KEYS[:7]] == [REPLY] * 6 + [None]
    assert len(list(tmp_path.glob("merged-*.idx"))) == 1
    journal.close()
    again.close()


def test_only_so_many_files_stay_open(tmp_path: Path) -> None:
    for key in KEYS[:5]:
        fill(tmp_path, [key])
    journal = local(tmp_path)
    journal._reader._limit = 2
    before = len(list(Path("/proc/self/fd").iterdir()))
    assert [get(journal, key) for key in KEYS[:5] * 2] == [REPLY] * 10
    assert len(list(Path("/proc/self/fd").iterdir())) == before + 2
    journal.close()


def test_stats_count_what_happened(tmp_path: Path) -> None:
    segment = fill(tmp_path, KEYS[:3])
    journal = local(tmp_path)
    assert journal.stats.size_bytes == segment.stat().st_size
    get(journal, KEYS[0])
    get(journal, KEYS[7])
    put(journal, KEYS[7])
    journal.close()
    stats = journal.stats
    assert (stats.segments, stats.known, stats.unreadable) == (2, 4, 0)
    assert (stats.hits, stats.misses, stats.written) == (1, 1, 1)
    assert stats.size_bytes == sum(path.stat().st_size for path in tmp_path.glob("*.jsonl"))
