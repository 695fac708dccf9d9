"""Data files: what was written is read, by columns and by rows."""

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from memorypipe.errors import TableError
from memorypipe.schema import table_schema
from memorypipe.table.parquet.files import DataFiles
from memorypipe.table.parquet.manifest import DataFile
from memorypipe.table.parquet.places import Folder
from memorypipe.table.storage import RaceLostError
from tests.support.stored_rows import DIM, stored_rows

SCHEMA = table_schema(DIM)


@pytest.fixture
def files(tmp_path: Path) -> DataFiles:
    return DataFiles(Folder(str(tmp_path)), "place")


def rows(count: int) -> pa.Table:
    return stored_rows([f"text {n}" for n in range(count)], [{"user_id": "u"}] * count)


def test_rows_come_back_as_they_were(files: DataFiles) -> None:
    file = files.write(rows(3), "current", 7)
    assert (file.kind, file.bucket, file.rows) == ("current", 7, 3)
    again = files.read(file, SCHEMA)
    assert again.equals(rows(3))
    assert again.schema.equals(SCHEMA, check_metadata=True)


def test_chosen_rows_are_those_of_their_numbers_in_any_row_group(files: DataFiles) -> None:
    whole = rows(20_000)
    file = files.write(whole, "current", 0)
    for chosen in ([0], [8191, 8192], [16_383, 16_384, 19_999], [5, 17_000], range(20_000)):
        offsets = np.array(chosen, np.int64)
        read = files.read(file, SCHEMA, offsets)
        assert read.equals(whole.take(pa.array(offsets)))


def test_a_column_that_an_older_file_lacks_is_null(files: DataFiles, tmp_path: Path) -> None:
    pq.write_table(rows(2).drop_columns(["labels"]), tmp_path / "old.parquet")
    file = DataFile(name="old.parquet", kind="current", bucket=0, rows=2, size_bytes=0)
    read = files.read(file, pa.schema([SCHEMA.field("text"), SCHEMA.field("labels")]))
    assert read.to_pylist() == [{"text": f"text {n}", "labels": None} for n in range(2)]


def test_what_is_remembered_is_read_once(files: DataFiles, tmp_path: Path) -> None:
    file = files.write(rows(3), "current", 0)
    keys = pa.schema([SCHEMA.field("memory_id")])
    first = files.remembered(file, keys)
    (tmp_path / file.name).unlink()
    assert files.remembered(file, keys).equals(first)
    with pytest.raises(RaceLostError, match="is gone"):
        files.remembered(file, SCHEMA)


def test_a_damaged_file_is_a_clear_error(files: DataFiles, tmp_path: Path) -> None:
    file = files.write(rows(3), "current", 0)
    (tmp_path / file.name).write_bytes(b"not any more")
    with pytest.raises(TableError, match=r"current-.*'place' cannot be read"):
        files.read(file, SCHEMA)


def test_vectors_are_written_plainly_and_all_else_is_compressed(
    files: DataFiles, tmp_path: Path
) -> None:
    file = files.write(rows(100), "current", 0)
    group = pq.ParquetFile(tmp_path / file.name).metadata.row_group(0)
    columns = [group.column(number) for number in range(group.num_columns)]
    plain = {each.path_in_schema for each in columns if each.compression == "UNCOMPRESSED"}
    assert plain == {"vector.list.element"}
