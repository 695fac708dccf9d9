"""New vectors for a whole Lance dataset, as one transaction.

The type of the column may change, so this is an overwrite with a new schema. Lance lets an
overwrite win over everything that came since its version was read, unless it may not try again:
then it lands on the next version or not at all.
"""

from collections.abc import Iterator
from typing import Any, Final

import lance
import pyarrow as pa

from memorypipe.errors import TableError
from memorypipe.table.embedding import Revector
from memorypipe.table.lance.dataset import commit_operation, reading, write

__all__ = ["replace_vectors"]

# The width of vectors may be another: what is written need not fit the old schema.
_ANEW: Final = "overwrite"


def replace_vectors(
    dataset: Any, head_fragment: int, revector: Revector, *, rows: pa.Table, head: pa.Table
) -> None:
    """Write every fragment anew, and replace the head; as `Snapshot.replace_vectors`.

    Args:
        dataset: Opened at the version that is replaced.
        head_fragment: Number of the fragment with its head row.
        revector: Makes the new rows.
        rows: What is put in.
        head: The new head row.
    """
    uri = str(dataset.uri)
    fragments: list[Any] = []
    try:
        with reading(uri):
            for fragment in dataset.get_fragments():
                if fragment.fragment_id != head_fragment:
                    fragments += _rewritten(uri, fragment, revector)
        # The head comes last: see `LanceStorage.snapshot`.
        fragments += [*write(uri, rows, mode=_ANEW), *write(uri, head, mode=_ANEW)]
    except OSError as error:
        raise TableError(f"Nothing was committed to {uri!r}: {error}") from error
    operation = lance.LanceOperation.Overwrite(rows.schema, fragments)
    # Retried by Lance it would overwrite what came meanwhile.
    commit_operation(dataset, operation, max_retries=0)


def _rewritten(uri: str, fragment: Any, revector: Revector) -> list[Any]:
    if fragment.count_rows() == 0:
        return []
    batches = _Batches(fragment, revector)
    try:
        return write(uri, batches.reader(), mode=_ANEW)
    except OSError:
        if batches.error is not None:
            raise batches.error from None
        raise


class _Batches:
    """The new rows of a fragment, for a reader that turns every error into one of its own."""

    def __init__(self, fragment: Any, revector: Revector) -> None:
        self._fragment = fragment
        self._revector = revector
        self.error: Exception | None = None

    def reader(self) -> pa.RecordBatchReader:
        return pa.RecordBatchReader.from_batches(self._revector.schema, self._rows())

    def _rows(self) -> Iterator[pa.RecordBatch]:
        try:
            names = [name for name in self._revector.schema.names if name != "vector"]
            size = self._revector.batch_rows
            for batch in self._fragment.to_batches(columns=names, batch_size=size):
                yield self._revector.apply(batch)
        except Exception as error:
            self.error = error
            raise
