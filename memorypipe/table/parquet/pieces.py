"""A version of a Parquet table in pieces that any process can read: its data files."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import pyarrow as pa

from memorypipe.table.parquet.manifest import Manifest
from memorypipe.table.storage import Where

__all__ = ["ParquetPiece", "parquet_pieces"]


@dataclass(frozen=True, kw_only=True)
class ParquetPiece:
    """One data file of one version.

    Attributes:
        uri: Of the table.
        manifest: Of the version, with that file alone.
    """

    uri: str
    manifest: Manifest

    @property
    def num_rows(self) -> int:
        """How many rows it has, whatever their kind and state."""
        return sum(file.rows for file in self.manifest.files)

    @property
    def size_bytes(self) -> int | None:
        """Of the file."""
        return sum(file.size_bytes for file in self.manifest.files)

    def scan(self, columns: Sequence[str], where: Where) -> Iterator[pa.Table]:
        """Read columns of the selected rows; a file holds a bounded number of them."""
        from memorypipe.table.parquet.storage import ParquetStorage  # noqa: PLC0415  # it imports this one

        yield ParquetStorage(self.uri).version(self.manifest).scan(columns, where)


def parquet_pieces(uri: str, manifest: Manifest) -> list[ParquetPiece]:
    """Cut a version into its data files.

    Args:
        uri: Of the table.
        manifest: Of the version.
    """
    return [
        ParquetPiece(uri=uri, manifest=replace(manifest, files=(file,))) for file in manifest.files
    ]
