from pathlib import Path

import lance
import numpy as np
import pyarrow as pa

from memorypipe.table.lance.dataset import commit_operation, write

WIDTH = 512
ROWS = 10_000  # more than are written at a time


def test_rows_are_written_whole_and_in_order_with_vectors_and_without(tmp_path: Path) -> None:
    values = pa.array(np.arange(ROWS * WIDTH, dtype=np.float32))
    mixed = [pa.FixedSizeListArray.from_arrays(values, WIDTH), pa.nulls(3, _kind()), _vectors(2)]
    vectors = pa.chunked_array(mixed, _kind())
    rows = pa.table({"number": np.arange(len(vectors)), "vector": vectors})
    dataset = lance.write_dataset(rows[:0], tmp_path / "rows.lance", data_storage_version="2.2")
    fragments = write(dataset, rows)
    assert len(fragments) == 1
    commit_operation(dataset, lance.LanceOperation.Append(fragments))
    assert lance.dataset(dataset.uri).to_table().equals(rows)


def _vectors(count: int) -> pa.Array:
    values = pa.array(np.ones(count * WIDTH, np.float32))
    return pa.FixedSizeListArray.from_arrays(values, WIDTH)


def _kind() -> pa.DataType:
    return pa.list_(pa.float32(), WIDTH)
