"""The records of another store's export: JSON lines, JSON documents, Parquet. Reads the disk."""

import io
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any

import pyarrow as pa
import pyarrow.parquet as pq

from memorypipe.errors import LogFormatError
from memorypipe.llm.embed.resolve import NO_EMBEDDER
from memorypipe.logs.files import BYTE_ORDER_MARK, find_files, load_json
from memorypipe.logs.records import Record
from memorypipe.table.transfer_export import EMBEDDER_KEY, VERSION_KEY

__all__ = ["parquet_embedder", "read_export"]

_BATCH_ROWS = 4096

# Names under which a JSON document of a whole store holds its list of memories.
_LIST_KEYS = ("results", "memories", "data")


def read_export(path: str, source: str) -> Iterator[Record]:
    """Read the records of an export, in order.

    Args:
        path: A file, a directory, or a pattern.
        source: One of `memorypipe.pipeline.imports.mapping.SOURCES`.

    Returns:
        One record per line, row, or item of a document; a line that is no JSON has a `problem`.
        JSON lines and Parquet are read a piece at a time, a JSON document is read whole.

    Raises:
        InvalidArgumentError: If there is no such file.
        LogFormatError: If a file is not of that kind at all.
    """
    for file in find_files(path):
        if source == "parquet":
            yield from _parquet_records(file)
        else:
            yield from _json_records(file)


def parquet_embedder(path: str) -> str | None:
    """Read which embedder made the vectors of a Parquet export, where its first file says so.

    Returns:
        Its name; ``"none"`` for an export of ours with the caller's own vectors; None where the
        file does not say.
    """
    metadata = _open_parquet(find_files(path)[0]).schema_arrow.metadata or {}
    name: bytes | None = metadata.get(EMBEDDER_KEY.encode())
    if name is not None:
        return name.decode()
    return NO_EMBEDDER if VERSION_KEY.encode() in metadata else None


def _open_parquet(path: Path) -> pq.ParquetFile:
    try:
        return pq.ParquetFile(path)
    except pa.ArrowInvalid as error:
        raise LogFormatError(
            f"{str(path)!r} is no Parquet file; import JSON with --from jsonl or --from mem0."
        ) from error


def _parquet_records(path: Path) -> Iterator[Record]:
    line = 0
    with _open_parquet(path) as file:
        for batch in file.iter_batches(_BATCH_ROWS):
            for row in batch.to_pylist():
                line += 1
                yield Record(source=str(path), line=line, value=row)


def _json_records(path: Path) -> Iterator[Record]:
    with path.open("rb") as stream:
        if _is_document(stream):
            yield from _document_records(path, stream.read())
        else:
            yield from _line_records(path, stream)


def _is_document(stream: IO[bytes]) -> bool:
    """Tell whether a file is one JSON document: its first line is a list, or no value, or alone."""
    lines = (line.strip() for line in stream)
    head = [line for line, _ in zip((line for line in lines if line), range(2), strict=False)]
    stream.seek(0)
    if not head:
        return False
    value, problem = load_json(head[0].removeprefix(BYTE_ORDER_MARK))
    if problem is not None:
        return head[0].removeprefix(BYTE_ORDER_MARK)[:1] in {b"[", b"{"}
    return isinstance(value, list) or (len(head) == 1 and _list_in(value) is not None)


def _line_records(path: Path, stream: IO[bytes]) -> Iterator[Record]:
    for line, raw in enumerate(stream, start=1):
        if raw.strip():
            value, problem = load_json(raw.removeprefix(BYTE_ORDER_MARK) if line == 1 else raw)
            yield Record(source=str(path), line=line, value=value, raw=raw, problem=problem)


def _document_records(path: Path, text: bytes) -> Iterator[Record]:
    value, problem = load_json(text.removeprefix(BYTE_ORDER_MARK))
    if problem is not None:
        # Broken in the middle: what stands on lines of its own can still be read.
        yield from _line_records(path, io.BytesIO(text))
        return
    items = value if isinstance(value, list) else _list_in(value)
    if items is None:
        items = [value]
    for number, item in enumerate(items, start=1):
        yield Record(source=str(path), line=number, value=item)


def _list_in(value: Any) -> list[Any] | None:
    """Find the list of memories in the answer of a store."""
    if not isinstance(value, dict):
        return None
    return next((value[key] for key in _LIST_KEYS if isinstance(value.get(key), list)), None)
