"""The records of batches: whole or not there, and swept of what nobody named."""

import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from memorypipe.errors import PlanError
from memorypipe.llm.batch.records import BatchFolder, BatchRecord, BatchTotals

RECORD = BatchRecord(
    name="ab-0", run_id="run_1", endpoint="http://host/v1", model="m", requests=3, size_bytes=99
)


def test_a_record_comes_back_as_it_was(tmp_path: Path) -> None:
    folder = BatchFolder(tmp_path)
    done = replace(RECORD, state="done", totals=BatchTotals(batches=1, requests=3, answered=2))
    assert folder.save(RECORD) == RECORD
    assert folder.records() == [RECORD]
    folder.save(done)
    assert BatchFolder(tmp_path).records() == [done]
    assert (RECORD.is_open, done.is_open) == (True, False)


def test_a_record_of_a_newer_version_can_be_read(tmp_path: Path) -> None:
    folder = BatchFolder(tmp_path)
    folder.save(RECORD)
    path = folder.file(RECORD.name, "json")
    path.write_text(json.dumps({**json.loads(path.read_text()), "news": 1}))
    assert folder.records() == [RECORD]


def test_what_a_killed_process_left_is_swept_and_the_rest_kept(tmp_path: Path) -> None:
    folder = BatchFolder(tmp_path)
    folder.save(RECORD)
    with subprocess.Popen([sys.executable, "-c", ""]) as ended:
        pass
    torn = (".new-requests-7", f".new-{ended.pid}-f0-ab-0.json", f".new-{ended.pid}-f1-results")
    for name in ("ab-0.jsonl", "ab-0.keys", "cd-0.jsonl", "cd-0.keys", *torn):
        (tmp_path / name).write_text("")
    assert folder.records() == [RECORD], "a half of a record is none"
    folder.sweep()
    assert {path.name for path in tmp_path.iterdir()} == {"ab-0.json", "ab-0.jsonl", "ab-0.keys"}
    folder.drop(RECORD)
    assert list(tmp_path.iterdir()) == []


def test_what_a_living_process_is_writing_is_not_swept(tmp_path: Path) -> None:
    folder = BatchFolder(tmp_path)
    names = [folder.scratch("results"), folder.scratch("results"), tmp_path / ".new-1-f0-results"]
    for path in names:
        path.write_text("")
    folder.sweep()
    assert len(set(names)) == len(list(tmp_path.iterdir())) == 3


def test_a_record_that_another_changed_or_dropped_stays_as_it_is(tmp_path: Path) -> None:
    folder = BatchFolder(tmp_path)
    folder.save(RECORD)
    created, done = replace(RECORD, state="created"), replace(RECORD, state="done")
    assert folder.change(RECORD, created) == created
    assert folder.change(RECORD, done) == created
    assert folder.records() == [created]
    folder.drop(created)
    assert folder.change(created, done) is None
    assert folder.records() == []


def test_one_sends_at_a_time_and_the_next_after_it(tmp_path: Path) -> None:
    folder = BatchFolder(tmp_path)
    with folder.submitting():
        with pytest.raises(PlanError, match="Another process"), folder.submitting():
            pass
        with pytest.raises(PlanError):
            BatchFolder(tmp_path).submitting().__enter__()
    with folder.submitting():
        pass


def test_an_error_while_sending_is_told_as_it_is(tmp_path: Path) -> None:
    with pytest.raises(BlockingIOError), BatchFolder(tmp_path).submitting():
        raise BlockingIOError


def test_totals_add_up_field_by_field() -> None:
    first = BatchTotals(batches=1, answered=2, ignored=3, prompt_tokens=4)
    assert first + first == BatchTotals(batches=2, answered=4, ignored=6, prompt_tokens=8)
