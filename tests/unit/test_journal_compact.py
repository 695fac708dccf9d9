"""Compaction: fewer segments, nothing lost, whatever others do meanwhile."""

import os
from collections import Counter
from pathlib import Path

import pytest

from memorypipe.errors import JournalError
from memorypipe.llm.journal.compact import _only_one, _Pass, compact_folder, groups_of
from memorypipe.llm.journal.files import claim
from memorypipe.llm.journal.types import Compaction, JournalSettings
from memorypipe.llm.types import Reply
from tests.support.journals import KEYS, REPLY, Clock, fill, get, local, put

ANN, BOB = '[["user_id","ann"]]', '[["user_id","bob"]]'


def compact(
    folder: Path,
    *,
    keep_unusable: bool = False,
    drop: tuple[str, ...] = (),
    clock: Clock | None = None,
    compacted_bytes: int = 1 << 20,
) -> Compaction:
    settings = JournalSettings(compacted_bytes=compacted_bytes)
    return compact_folder(
        folder,
        settings=settings,
        keep_unusable=keep_unusable,
        drop_scopes=drop,
        now=clock or Clock(),
    )


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir() if path.suffix != ".lock")


def known(folder: Path, keys: list[str]) -> list[bool]:
    journal = local(folder)
    found = [get(journal, key) is not None for key in keys]
    journal.close()
    return found


def test_finished_segments_become_one_with_an_index(tmp_path: Path) -> None:
    for key in KEYS[:5]:
        fill(tmp_path, [key, KEYS[9]])
    assert compact(tmp_path) == Compaction(merged=5, made=1, kept=6, dropped=4)
    assert [Path(name).suffix for name in names(tmp_path)] == [".idx", ".jsonl"]
    assert known(tmp_path, [*KEYS[:5], KEYS[9], KEYS[8]]) == [True] * 6 + [False]
    before = names(tmp_path)
    assert compact(tmp_path) == Compaction(), "there is nothing left to do"
    assert names(tmp_path) == before


def test_unusable_damaged_and_torn_lines_go(tmp_path: Path) -> None:
    journal = local(tmp_path)
    put(journal, KEYS[0])
    put(journal, KEYS[1], Reply(content="bad"), usable=False)
    journal.close()
    (segment,) = tmp_path.glob("*.jsonl")
    whole = segment.read_bytes()
    damaged = whole.replace(b'"reply":{', b'"reply":[')
    segment.write_bytes(damaged + b"\x00\n" + whole + whole[:50])
    result = compact(tmp_path)
    assert (result.kept, result.dropped) == (1, 5)
    assert known(tmp_path, KEYS[:1]) == [True], "the damaged line did not stand for the good one"


def test_evidence_stays_where_asked(tmp_path: Path) -> None:
    journal = local(tmp_path)
    put(journal, KEYS[0], Reply(content="bad"), usable=False)
    journal.close()
    compact(tmp_path, keep_unusable=True)
    assert b"bad" in next(tmp_path.glob("*.jsonl")).read_bytes()
    fill(tmp_path, KEYS[1:2])
    compact(tmp_path)
    assert b"bad" not in next(tmp_path.glob("*.jsonl")).read_bytes()


def test_where_nothing_stays_no_segment_is_made(tmp_path: Path) -> None:
    journal = local(tmp_path)
    put(journal, KEYS[0], usable=False)
    journal.close()
    assert compact(tmp_path) == Compaction(merged=1, made=0, dropped=1)
    assert names(tmp_path) == []


def test_a_writer_at_work_is_left_alone_and_goes_on(tmp_path: Path) -> None:
    fill(tmp_path, KEYS[:1])
    fill(tmp_path, KEYS[1:2])
    writer = local(tmp_path)
    put(writer, KEYS[2])
    result = compact(tmp_path)
    assert (result.merged, result.left_alone) == (2, 1)
    put(writer, KEYS[3])
    writer.close()
    assert known(tmp_path, KEYS[:4]) == [True] * 4


def test_a_segment_of_another_machine_is_left_alone_until_it_rests(tmp_path: Path) -> None:
    clock = Clock()
    foreign = fill(tmp_path, KEYS[:1]).rename(tmp_path / "w.0badcafe.000000.jsonl")
    os.utime(foreign, (clock.now, clock.now))
    clock.now += 599
    assert compact(tmp_path, clock=clock).left_alone == 1
    assert foreign.exists()
    clock.now += 1
    assert compact(tmp_path, clock=clock).merged == 1
    assert known(tmp_path, KEYS[:1]) == [True]


def test_a_journal_of_an_earlier_version_is_compacted_too(tmp_path: Path) -> None:
    old = fill(tmp_path, KEYS[:2], index_from_bytes=1 << 20).rename(tmp_path / "pid1-000000.jsonl")
    os.utime(old, (0, 0))
    compact(tmp_path)
    assert known(tmp_path, KEYS[:2]) == [True, True]
    assert not old.exists()


def test_open_readers_follow(tmp_path: Path) -> None:
    """Also without a look in between: the segment that is gone tells them."""
    fill(tmp_path, KEYS[:3])
    fill(tmp_path, KEYS[3:5])
    reader = local(tmp_path)
    assert get(reader, KEYS[0]) == REPLY
    compact(tmp_path)
    assert [get(reader, key) for key in KEYS[:5]] == [REPLY] * 5
    assert reader.stats.segments == 1
    reader.close()


def test_own_finished_segments_may_be_compacted_too(tmp_path: Path) -> None:
    journal = local(tmp_path, segment_bytes=1)
    for key in KEYS[:4]:
        put(journal, key)
    compact(tmp_path)
    assert [get(journal, key) for key in KEYS[:4]] == [REPLY] * 4
    journal.close()


def test_big_segments_are_not_written_again_and_again(tmp_path: Path) -> None:
    for key in KEYS[:8]:
        fill(tmp_path, [key])
    compact(tmp_path, compacted_bytes=500)
    big = names(tmp_path)
    fill(tmp_path, KEYS[8:9])
    fill(tmp_path, KEYS[9:10])
    compact(tmp_path, compacted_bytes=500)
    assert set(big) < set(names(tmp_path))
    assert known(tmp_path, KEYS[:10]) == [True] * 10


def test_only_one_compaction_works_at_a_time(tmp_path: Path) -> None:
    with _only_one(tmp_path), pytest.raises(JournalError, match="being compacted"):
        compact(tmp_path)
    compact(tmp_path)


def test_what_a_crash_left_half_written_is_removed_when_it_rests(tmp_path: Path) -> None:
    clock = Clock()
    draft = tmp_path / "compact.1.jsonl.2.tmp"
    draft.write_bytes(b"x")
    orphan = fill(tmp_path / "other", KEYS[:1]).with_suffix(".idx")
    orphan.rename(tmp_path / orphan.name)
    os.utime(draft, (clock.now - 599, clock.now - 599))
    compact(tmp_path, clock=clock)
    assert names(tmp_path) == ["compact.1.jsonl.2.tmp", "other"], "the index had no segment"
    clock.now += 1
    compact(tmp_path, clock=clock)
    assert names(tmp_path) == ["other"]


def test_merged_indexes_replace_those_of_single_segments(tmp_path: Path) -> None:
    for key in KEYS[:6]:
        fill(tmp_path, [key])
    with_lock = [claim(path, now=0, finished_after_s=0) for path in tmp_path.glob("*.jsonl")]
    for one in with_lock:
        assert one.__enter__()
    local(tmp_path, memory_bytes=0).close()
    compact(tmp_path)
    for one in with_lock:
        one.__exit__(None, None, None)
    kinds = Counter(path.suffix for path in tmp_path.iterdir())
    assert (kinds[".jsonl"], kinds[".idx"]) == (6, 1)
    assert known(tmp_path, KEYS[:6]) == [True] * 6


def test_the_replies_of_a_scope_are_erased_wherever_they_are(tmp_path: Path) -> None:
    for number, scope in enumerate((ANN, BOB, None)):
        done = local(tmp_path)
        put(done, KEYS[number], Reply(content=f"done {scope}"), scope_key=scope)
        put(done, KEYS[number + 3], Reply(content=f"bad {scope}"), usable=False, scope_key=scope)
        done.close()
    compact(tmp_path, keep_unusable=True)
    reader, writer = local(tmp_path), local(tmp_path)
    put(writer, KEYS[6], Reply(content=f"live {ANN}"), scope_key=ANN)
    put(writer, KEYS[7], Reply(content=f"live {BOB}"), scope_key=BOB)
    result = compact(tmp_path, keep_unusable=True, drop=(ANN,))
    assert (result.erased, result.kept, result.left_alone) == (3, 4, 1)
    left = b"".join(path.read_bytes() for path in tmp_path.glob("*.jsonl"))
    assert b"ann" not in left
    assert (left.count(b"bob"), left.count(b"bad")) == (6, 2)
    put(writer, KEYS[8], scope_key=ANN)
    writer.close()
    assert known(tmp_path, KEYS[:3] + KEYS[6:9]) == [False, True, True, False, True, True]
    assert local(tmp_path).stats.unreadable == 0, "what was erased is no damage"
    assert get(reader, KEYS[1]) is not None
    assert get(reader, KEYS[0]) is None
    reader.close()


def test_groups_end_when_they_are_big_enough() -> None:
    sizes = [("a", 5), ("b", 6), ("c", 20), ("d", 1)]
    assert list(groups_of(sizes, 10)) == [["a", "b"], ["c"], ["d"]]
    assert list(groups_of([("compact.1", 5)], 10)) == []
    assert list(groups_of([("compact.1", 5)], 10, always=["compact.1"])) == [["compact.1"]]
    assert list(groups_of([], 10)) == []


def test_an_open_file_gives_nothing_that_was_erased(tmp_path: Path) -> None:
    journal = local(tmp_path)
    put(journal, KEYS[0], scope_key=ANN)
    journal.close()
    compact(tmp_path)
    reader = local(tmp_path)
    assert get(reader, KEYS[0]) == REPLY
    assert compact(tmp_path, keep_unusable=True, drop=(ANN,)).erased == 1
    assert get(reader, KEYS[0]) is None
    assert list(tmp_path.glob("*.jsonl")) == []
    reader.close()


def test_a_segment_that_grew_after_it_was_read_is_not_removed(tmp_path: Path) -> None:
    """As by a writer on a file system without locks."""
    segment = fill(tmp_path, KEYS[:1])
    work = _Pass(tmp_path, JournalSettings(), Clock())
    assert len(list(work._lines(segment.name))) == 1
    with segment.open("ab") as file:
        file.write(b"more\n")
    work._remove(segment.name)
    assert segment.exists()
    assert len(list(work._lines(segment.name))) == 2
    work._remove(segment.name)
    assert not segment.exists()
