"""What a Parquet table's folder holds, and what its newest manifest names."""

from pathlib import Path

from memorypipe.table.parquet.manifest import DataFile
from memorypipe.table.parquet.storage import ParquetStorage
from memorypipe.table.table import MemoryTable


def named(table: MemoryTable) -> tuple[DataFile, ...]:
    return ParquetStorage(table.uri).snapshot().manifest.files


def there(table: MemoryTable, folder: str) -> set[str]:
    return {f"{folder}/{file.name}" for file in (Path(table.uri) / folder).iterdir()}
