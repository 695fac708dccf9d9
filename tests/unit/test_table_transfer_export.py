"""An export that fails leaves what was there."""

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import pyarrow as pa
import pytest

from memorypipe.errors import TableError
from memorypipe.schema import table_schema
from memorypipe.table.pinned import PinnedRead, Selection
from memorypipe.table.storage import Where
from memorypipe.table.transfer_export import ExportFormat, export_columns, export_rows


@dataclass(frozen=True)
class _Broken:
    num_rows: int = 1
    size_bytes: int | None = None

    def scan(self, columns: Sequence[str], where: Where) -> Iterator[pa.Table]:
        raise TableError(f"{columns[0]!r} is gone, as is {where.rows!r}")


@pytest.mark.parametrize("form", ["parquet", "jsonl"])
def test_a_failed_export_keeps_the_old_file_and_leaves_no_other(
    tmp_path: Path, form: ExportFormat
) -> None:
    path = tmp_path / "o[u]t"
    path.write_text("old")
    killed = tmp_path / ".o[u]t.9.new"
    killed.write_text("half of the memories, long ago")
    os.utime(killed, (9, 9))
    columns = export_columns(table_schema(), form, None)
    read = PinnedRead(
        version=1,
        embedder=None,
        schema=pa.schema([table_schema().field(name) for name in columns]),
        selection=Selection(
            columns=tuple(columns),
            include=("live",),
            now=datetime(2024, 1, 1, tzinfo=UTC),
            moment=None,
            where=Where(),
        ),
        pieces=(_Broken(),),
    )
    with pytest.raises(TableError, match="is gone"):
        export_rows(read, path, form)
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]
