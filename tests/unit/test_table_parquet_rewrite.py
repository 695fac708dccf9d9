"""Which files a commit replaces: those it must, and small ones beside them."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from memorypipe import ids
from memorypipe.table.parquet.files import DataFiles
from memorypipe.table.parquet.manifest import DataFile, Kind, Manifest, scope_hash
from memorypipe.table.parquet.places import Folder
from memorypipe.table.parquet.rewrite import Rewrite, merges, plan_commit, rewrite
from memorypipe.table.records import RunRecord, run_row
from tests.support.stored_rows import DIM, stored_rows
from tests.support.table_actions import START

USER = {"user_id": "u1"}
HASH = scope_hash(ids.scope_key(USER))
RUN = run_row(RunRecord(run_id="r", part=0, number=1, committed_at=START, content_hash="h"), DIM)


def file(name: str, rows: int, kind: Kind = "current", bucket: int = 0) -> DataFile:
    return DataFile(name=name, kind=kind, bucket=bucket, rows=rows, size_bytes=rows)


def manifest(*files: DataFile, bounds: tuple[int, ...] = (0,)) -> Manifest:
    return Manifest(version=1, token="", head_row={}, bounds=bounds, files=files)


def new(count: int) -> pa.Table:
    return stored_rows([f"text {n}" for n in range(count)], [USER] * count)


def replaced(plans: list[Rewrite]) -> set[str]:
    return {each.name for plan in plans for change in plan.changes for each in change.files}


@pytest.mark.parametrize(
    ("sizes", "coming", "merged"),
    [
        ([5, 5, 5], 1, 0),
        ([2], 1, 1),
        ([1, 4, 12], 1, 3),
        ([1, 5], 1, 1),
        ([4, 1, 12], 1, 3),
        ([500], 300, 1),
        ([700], 300, 0),
    ],
)
def test_new_rows_take_files_along_that_are_at_most_twice_as_big(
    sizes: list[int], coming: int, merged: int
) -> None:
    files = [file(str(number), rows) for number, rows in enumerate(sizes)]
    plans = plan_commit(manifest(*files), {}, new(coming))
    assert len(replaced(plans)) == merged


def test_a_file_that_loses_rows_is_replaced_and_its_equals_are_not() -> None:
    files = [file("a", 3000), file("b", 9000), file("c", 10, "past")]
    closed = {"a": np.array([1, 2])}
    plans = plan_commit(manifest(*files), closed, new(0))
    assert replaced(plans) == {"a"}
    (change,) = plans[0].changes
    assert change.closed == closed


def test_other_buckets_are_left_alone() -> None:
    files = [file("low", 5), file("own", 5, bucket=HASH), file("high", 5, bucket=HASH + 1)]
    plans = plan_commit(manifest(*files, bounds=(0, HASH, HASH + 1)), {}, new(3))
    assert replaced(plans) == {"own"}


def test_current_and_past_revisions_and_run_rows_go_into_files_of_their_own() -> None:
    rows = new(2)
    place = rows.schema.get_field_index("is_current")
    rows = rows.set_column(place, rows.schema.field(place), pa.array([True, False]))
    plans = plan_commit(manifest(), {}, pa.concat_tables([rows, RUN]))
    made = {(change.kind, change.rows.num_rows) for plan in plans for change in plan.changes}  # type: ignore[union-attr]  # all put rows in
    assert made == {("current", 1), ("past", 1), ("run", 1)}


def test_a_commit_of_nothing_rewrites_nothing() -> None:
    assert plan_commit(manifest(file("a", 5)), {}, new(0)) == []


def test_a_bucket_of_too_many_rows_is_split_with_all_its_files() -> None:
    files = [file("a", 10_000), file("b", 6_384, "past")]
    assert not plan_commit(manifest(*files), {"a": np.arange(10)}, new(10))[0].split
    plans = plan_commit(manifest(*files), {}, new(10))
    assert (plans[0].split, replaced(plans)) == (True, {"a", "b"})


def test_a_bucket_of_one_hash_is_not_split_and_its_full_files_stay() -> None:
    files = [file("a", 65_536, bucket=HASH), file("b", 9, bucket=HASH)]
    plans = plan_commit(manifest(*files, bounds=(0, HASH, HASH + 1)), {}, new(10))
    assert (plans[0].split, replaced(plans)) == (False, {"b"})


def test_several_small_files_of_a_bucket_are_worth_a_merge() -> None:
    files = [file("a", 5), file("b", 6), file("c", 7, "past"), file("d", 40_000)]
    plans = list(merges(manifest(*files)))
    assert replaced(plans) == {"a", "b"}
    assert list(merges(manifest(*files[1:]))) == []


def test_a_split_writes_each_row_once_into_the_bucket_of_its_scope(tmp_path: Path) -> None:
    files = DataFiles(Folder(str(tmp_path)), "place")
    scopes = [{"user_id": f"u{n % 300}"} for n in range(17_000)]
    rows = stored_rows([f"text {n}" for n in range(17_000)], scopes)
    first = manifest()
    (plan,) = plan_commit(first, {}, rows)
    done = rewrite(files, DIM, plan)
    after = replace(first, bounds=(0, *done.bounds), files=done.files)
    assert len(done.files) == len(after.bounds) > 1
    read = {each.bucket: files.read(each, rows.schema) for each in done.files}
    for bucket, part in read.items():
        assert {after.bucket(key) for key in part["scope_key"].to_pylist()} == {bucket}
    whole = pa.concat_tables(read.values()).sort_by("memory_id")
    assert whole.equals(rows.sort_by("memory_id"))
