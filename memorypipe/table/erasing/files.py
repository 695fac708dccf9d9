"""What lies beside a table and must forget too: run folders and batches, as changes to files.

A change is worked out first and made afterwards, so that people can be shown what would go.
"""

import json
import os
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import orjson
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from memorypipe.llm.batch.records import BatchFolder, BatchRecord
from memorypipe.table.erasing.needles import Needles
from memorypipe.table.erasing.short_names import REJECTS_FILE, ShortNames
from memorypipe.table.erasing.targets import ERASED, Targets, scope_values, scrub, texts_of

__all__ = [
    "SCRATCH_SUFFIX",
    "FileChange",
    "artifact_targets",
    "batch_changes",
    "local_folder",
    "run_changes",
    "sweep_batches",
]

# Ends the names of files that are being written.
SCRATCH_SUFFIX = ".new"


@dataclass(frozen=True, kw_only=True)
class FileChange:
    """What becomes of one file.

    Attributes:
        path: The file.
        removed: Rows, lines or values that go.
        content: The new content; None: the file goes.
        texts: What the removed rows said.
    """

    path: Path
    removed: int
    content: bytes | None
    texts: frozenset[str] = field(default=frozenset(), repr=False)

    def make(self) -> None:
        """Make the change; readers see the old file or the new one, never a half."""
        if self.content is None:
            self.path.unlink(missing_ok=True)
            return
        scratch = self.path.with_name(f".{self.path.name}{SCRATCH_SUFFIX}")
        with scratch.open("wb") as file:
            file.write(self.content)
            file.flush()
            os.fsync(file.fileno())
        scratch.replace(self.path)


def local_folder(uri: str) -> Path | None:
    """Give the folder of a table whose runs, batches and journal lie beside it; None in a store."""
    path = uri.removeprefix("file://")
    return None if "://" in path else Path(path)


def artifact_targets(folder: Path, targets: Targets) -> Targets:
    """Add the scopes and memories that the plans and facts of runs show to belong to the targets.

    Args:
        folder: Of the table.
        targets: What is to go.
    """
    if not (targets.memory_ids or targets.source_ids):
        return targets
    for path in _files(folder / "runs", ".parquet"):
        rows = pq.read_table(path)
        if "scope_key" in rows.column_names:
            targets = targets.with_rows(rows.filter(targets.of_table(rows)))
    return targets


def run_changes(folder: Path, targets: Targets) -> Iterator[FileChange]:
    """Work out what the folders of runs lose: windows, facts, actions, plans, rejects, reports.

    Args:
        folder: Of the table.
        targets: What is to go.
    """
    words = targets.words() | targets.evidence
    values = scope_values(targets.evidence)
    needles, short = Needles(words | values), ShortNames(values)
    own = ShortNames(targets.own_values)
    kinds: dict[str, Callable[[Path], FileChange | None]] = {
        ".parquet": lambda path: _parquet_change(path, targets),
        ".json": lambda path: _json_change(path, words, own),
        ".jsonl": lambda path: _lines_change(path, needles, short),
    }
    for suffix, change_of in kinds.items():
        for path in _files(folder / "runs", suffix):
            change = change_of(path)
            if change is not None:
                yield change
    for path in _files(folder / "runs", SCRATCH_SUFFIX):
        # Half written when its process was killed.
        yield FileChange(path=path, removed=0, content=None)


def batch_changes(folder: Path, targets: Targets) -> Iterator[FileChange]:
    """Work out what the files of batches lose: keys of requests, and requests not yet sent.

    What a provider answers to a request whose key is gone is not journalled.

    Args:
        folder: Of the table.
        targets: What is to go.
    """
    if not (folder / "batches").is_dir():
        return
    batches = BatchFolder(folder / "batches")
    for record in batches.records():
        yield from _batch_change(batches, record, targets.evidence)


def sweep_batches(folder: Path) -> None:
    """Remove what killed processes left half-written of batches.

    Raises:
        PlanError: If a process is sending batches.
    """
    if (folder / "batches").is_dir():
        batches = BatchFolder(folder / "batches")
        with batches.submitting():
            batches.sweep()


def _batch_change(
    batches: BatchFolder, record: BatchRecord, evidence: Collection[str]
) -> Iterator[FileChange]:
    keys = batches.keys(record.name)
    gone = {key.hex() for key, scope_key in keys.items() if scope_key in evidence}
    if not gone:
        return
    if record.state == "written":
        # Nobody has it yet: its run makes another one of what is left.
        for suffix in ("json", "keys", "jsonl"):
            path = batches.file(record.name, suffix)
            yield FileChange(path=path, removed=len(gone) if suffix == "keys" else 0, content=None)
        return
    yield _without_lines(batches.file(record.name, "keys"), lambda line: line[:32].decode() in gone)
    if batches.file(record.name, "jsonl").exists():
        yield _without_lines(
            batches.file(record.name, "jsonl"),
            lambda line: orjson.loads(line).get("custom_id") in gone,
        )


def _files(folder: Path, suffix: str) -> list[Path]:
    return sorted(path for path in folder.rglob(f"*{suffix}") if path.is_file())


def _parquet_change(path: Path, targets: Targets) -> FileChange | None:
    rows = pq.read_table(path)
    mask = targets.of_evidence(rows)
    gone = rows.filter(mask)
    if not gone.num_rows:
        return None
    kept = rows.filter(pc.invert(mask))
    is_part = path.name.startswith("part-")
    return FileChange(
        path=path,
        removed=gone.num_rows,
        content=None if is_part and not kept.num_rows else _parquet_bytes(kept),
        texts=frozenset(texts_of(gone)),
    )


def _parquet_bytes(rows: pa.Table) -> bytes:
    sink = pa.BufferOutputStream()
    pq.write_table(rows, sink)
    content: bytes = sink.getvalue().to_pybytes()
    return content


def _json_change(path: Path, words: Collection[str], own: ShortNames) -> FileChange | None:
    value = json.loads(path.read_text(encoding="utf-8"))
    left = _without_path(scrub(value, words), own)
    if left == value:
        return None
    text = json.dumps(left, indent=2, ensure_ascii=False) + "\n"
    return FileChange(path=path, removed=1, content=text.encode())


def _without_path(record: Any, own: ShortNames) -> Any:
    """Take out of a manifest whose export was imported, or whose actions were filtered."""
    match record:
        case {"filtered": {"where": str(where)} as filtered} if own.named_in(where):
            record = {**record, "filtered": {**filtered, "where": ERASED}}
    match record:
        case {"source": {"path": str(path)} as source} if own.named_in(path):
            return {**record, "source": {**source, "path": ERASED}}
    return record


def _lines_change(path: Path, needles: Needles, short: ShortNames) -> FileChange | None:
    """Take out the lines that quote anything; a line that nobody could read has no scope."""
    is_rejects = path.name == REJECTS_FILE
    change = _without_lines(
        path,
        lambda line: bool(needles.found_in(line)) or (is_rejects and short.given_in(line)),
    )
    return change if change.removed else None


def _without_lines(path: Path, goes: Callable[[bytes], bool]) -> FileChange:
    lines = path.read_bytes().splitlines(keepends=True)
    kept = [line for line in lines if not goes(line)]
    return FileChange(path=path, removed=len(lines) - len(kept), content=b"".join(kept))
