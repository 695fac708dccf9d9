"""New vectors for a whole Parquet table: every file anew, and one manifest that names them."""

from dataclasses import replace
from uuid import uuid4

import pyarrow as pa

from memorypipe.errors import TableError
from memorypipe.schema import table_schema
from memorypipe.table.embedding import Revector
from memorypipe.table.parquet.files import DataFiles, publish
from memorypipe.table.parquet.manifest import DataFile, Manifest

__all__ = ["replace_vectors"]


def replace_vectors(
    files: DataFiles, manifest: Manifest, revector: Revector, *, rows: pa.Table, head: pa.Table
) -> None:
    """Write every file anew, and replace the head; as `Snapshot.replace_vectors`.

    Args:
        files: Of the table.
        manifest: Of the version that is replaced.
        revector: Makes the new rows.
        rows: Run rows to put in.
        head: The new head row.
    """
    written: list[DataFile] = []
    try:
        # Even where one fails, those before it are known.
        written.extend(_rewritten(files, manifest, file, revector) for file in manifest.files)
        written.append(files.write(rows, "run", 0))
    except OSError as error:
        files.remove(written)
        raise TableError(f"Nothing was committed to {files.uri!r}: {error}") from error
    except BaseException:
        files.remove(written)
        raise
    (head_row,) = head.select(list(manifest.head_row)).to_pylist()
    after = replace(
        manifest,
        version=manifest.version + 1,
        token=uuid4().hex,
        head_row=head_row,
        files=tuple(written),
    )
    publish(files, manifest, after, written)


def _rewritten(
    files: DataFiles, manifest: Manifest, file: DataFile, revector: Revector
) -> DataFile:
    schema = table_schema(manifest.head.vector_dim)
    rows = files.read(file, schema.remove(schema.get_field_index("vector")))
    batches = rows.to_batches(max_chunksize=revector.batch_rows)
    table = pa.Table.from_batches(map(revector.apply, batches), revector.schema)
    return files.write(table, file.kind, file.bucket)
