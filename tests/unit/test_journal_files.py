"""Segments as files: who may write, who may take away."""

import os
from pathlib import Path

from memorypipe.llm.journal.files import _is_held, claim, machine_tag, new_segment


def test_a_writer_holds_its_segment_until_it_closes_it(tmp_path: Path) -> None:
    path, fd = new_segment(tmp_path, "a.b/c")
    assert path.name == f"a_b_c.{machine_tag()}.000000.jsonl"
    with claim(path, now=0, finished_after_s=600) as is_free:
        assert not is_free
    os.close(fd)
    with claim(path, now=0, finished_after_s=600) as is_free:
        assert is_free


def test_who_claims_a_segment_keeps_others_from_it(tmp_path: Path) -> None:
    path, fd = new_segment(tmp_path, "w")
    os.close(fd)
    with claim(path, now=0, finished_after_s=0), claim(path, now=0, finished_after_s=0) as again:
        assert not again


def test_a_segment_that_is_gone_is_nobodys(tmp_path: Path) -> None:
    with claim(tmp_path / "x.jsonl", now=0, finished_after_s=0) as is_free:
        assert not is_free


def test_a_writer_makes_another_where_one_of_its_name_is_there(tmp_path: Path) -> None:
    first, first_fd = new_segment(tmp_path, "w")
    second, second_fd = new_segment(tmp_path, "w")
    assert first != second
    os.close(first_fd)
    os.close(second_fd)


def test_a_segment_that_was_taken_away_before_it_was_locked_is_not_written_to(
    tmp_path: Path,
) -> None:
    with (tmp_path / "w.jsonl").open("wb") as segment:
        assert _is_held(segment.fileno())
    with (tmp_path / "w.jsonl").open("wb") as segment, (tmp_path / "w.jsonl").open("rb") as other:
        assert _is_held(other.fileno())
        assert not _is_held(segment.fileno()), "a compaction reads it"
    with (tmp_path / "w.jsonl").open("wb") as segment:
        (tmp_path / "w.jsonl").unlink()
        assert not _is_held(segment.fileno())
