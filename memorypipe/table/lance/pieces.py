"""A version of a Lance table in pieces that any process can read: its fragments."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import lance
import pyarrow as pa

from memorypipe.errors import TableError
from memorypipe.table.lance.predicate import predicate
from memorypipe.table.storage import Where

__all__ = ["LancePiece", "lance_pieces"]

# Rows in hand at a time: with vectors of 256 dimensions about 10 MB.
_BATCH_ROWS = 8192


@dataclass(frozen=True, kw_only=True)
class LancePiece:
    """One fragment of one version.

    Attributes:
        uri: Of the dataset.
        version: Lance's number of the version.
        fragment: Number of the fragment.
        num_rows: Rows in it, whatever their kind.
        size_bytes: Of its files; None where nobody wrote it down.
    """

    uri: str
    version: int
    fragment: int
    num_rows: int
    size_bytes: int | None

    def scan(self, columns: Sequence[str], where: Where) -> Iterator[pa.Table]:
        """Read columns of the selected rows, some at a time."""
        try:
            dataset: Any = lance.dataset(self.uri, version=self.version)
            batches = dataset.get_fragment(self.fragment).to_batches(
                columns=list(columns), filter=predicate(where), batch_size=_BATCH_ROWS
            )
            for batch in batches:
                if batch.num_rows:
                    yield pa.Table.from_batches([batch])
        except (OSError, ValueError) as error:
            raise TableError(
                f"Version {self.version} of {self.uri!r} cannot be read any more: {error}. "
                "Maintenance may have removed it; read the newest version again."
            ) from error


def lance_pieces(dataset: Any) -> list[LancePiece]:
    """Cut a version into its fragments.

    Args:
        dataset: Opened at that version.
    """
    return [
        LancePiece(
            uri=str(dataset.uri),
            version=dataset.version,
            fragment=fragment.fragment_id,
            num_rows=fragment.physical_rows - fragment.num_deletions,
            size_bytes=_size_bytes(fragment),
        )
        for fragment in dataset.get_fragments()
    ]


def _size_bytes(fragment: Any) -> int | None:
    sizes = [file.file_size_bytes for file in fragment.metadata.files]
    return None if None in sizes else sum(sizes)
