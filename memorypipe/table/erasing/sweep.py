"""Search everything under a table's place for what was erased.

Every file is read byte by byte and, where it is a table, value by value. Data files are read as
they lie there, whichever version names them: rows that are only marked as deleted are found too.
"""

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import PurePosixPath
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.fs as pafs
import pyarrow.parquet as pq

from memorypipe.errors import InvalidArgumentError
from memorypipe.llm.journal.catalog import SEGMENT_SUFFIX
from memorypipe.llm.journal.lines import scope_of
from memorypipe.table.erasing.needles import Needles, text_buffers
from memorypipe.table.erasing.short_names import REJECTS_FILE, ShortNames
from memorypipe.table.erasing.targets import Targets, scope_values
from memorypipe.table.lance.values import lance_batches
from memorypipe.table.records import SYSTEM_TYPES

__all__ = ["Leftover", "Sweep", "check_searchable", "sweep"]

# Folders beside the table whose files are evidence.
_EVIDENCE = frozenset({"batches", "journal", "runs"})

_KEY_COLUMNS = (
    "record_type",
    "scope_key",
    "memory_id",
    "message_id",
    "source_ids",
    "message_ids",
    "messages",
)


@dataclass(frozen=True, kw_only=True)
class Leftover:
    """What was found again.

    Attributes:
        path: The file.
        rows: Rows or lines in it that belong to what was erased.
        texts: Texts in it that nobody else says.
    """

    path: str
    rows: int
    texts: int


@dataclass(kw_only=True)
class Sweep:
    """What a search covered, and found.

    Attributes:
        files: Files searched byte by byte.
        size_bytes: Of these.
        tables: Of `files`, those that were read value by value too.
        rows: Rows in them.
        texts: Texts that were looked for.
        too_short: Texts too short to be looked for byte by byte.
        shared: Texts that were found and are others' own words too.
        unreadable: Files that are no tables in spite of their names; searched byte by byte only.
        left: What was found again.
    """

    files: int = 0
    size_bytes: int = 0
    tables: int = 0
    rows: int = 0
    texts: int = 0
    too_short: int = 0
    shared: int = 0
    unreadable: list[str] = field(default_factory=list)
    left: list[Leftover] = field(default_factory=list)


def sweep(
    places: Sequence[str], targets: Targets, texts: Collection[str], *, journals: Collection[str]
) -> Sweep:
    """Search places for what belongs to targets.

    Args:
        places: Folders or object-store URIs; everything below them is read.
        targets: What was erased.
        texts: What it said.
        journals: Those of the places that are reply journals, all of whose lines are evidence.
    """
    needles = Needles(set(texts) | targets.words())
    search = _Search(targets, needles)
    for place in places:
        search.place(place, is_evidence=place in journals)
    return search.result()


def check_searchable(places: Sequence[str]) -> None:
    """Check that `sweep` can list and read places.

    Raises:
        InvalidArgumentError: For one that it cannot.
    """
    for place in places:
        try:
            filesystem, root, _ = _filesystem(place)
            filesystem.get_file_info(root)
        except (OSError, ValueError) as error:
            raise InvalidArgumentError(
                f"{place!r} cannot be searched for what would be erased there: {error}. Nothing "
                "was erased. Erase where every file can be read: on a local or mounted folder, or "
                "at an s3:// or gs:// address; copy the table there first."
            ) from error


class _Search:
    """One search over some places."""

    def __init__(self, targets: Targets, needles: Needles) -> None:
        self._targets = targets
        self._needles = needles
        self._short = ShortNames(scope_values(targets.evidence))
        self._sweep = Sweep(texts=len(needles.texts), too_short=needles.left_out)
        self._others: set[str] = set()  # texts that rows of other scopes hold
        self._hits: dict[str, set[str]] = {}
        self._rows: dict[str, int] = {}

    def place(self, place: str, *, is_evidence: bool) -> None:
        filesystem, root, scheme = _filesystem(place)
        found = filesystem.get_file_info(
            pafs.FileSelector(root, recursive=True, allow_not_found=True)
        )
        for each in sorted(found, key=lambda info: str(info.path)):
            if each.is_file:
                below = PurePosixPath(each.path).relative_to(root)
                evidence = is_evidence or below.parts[0] in _EVIDENCE
                self._file(filesystem, each.path, scheme, is_evidence=evidence)

    def result(self) -> Sweep:
        said = set().union(*self._hits.values())
        self._sweep.shared = len(said & self._others)
        for path in sorted({*self._hits, *self._rows}):
            own = self._hits.get(path, set()) - self._others
            if own or self._rows.get(path):
                self._sweep.left.append(
                    Leftover(path=path, rows=self._rows.get(path, 0), texts=len(own))
                )
        return self._sweep

    def _file(
        self, filesystem: pafs.FileSystem, path: str, scheme: str, *, is_evidence: bool
    ) -> None:
        try:
            with filesystem.open_input_stream(path) as stream:
                hits, size_bytes = self._needles.found_in_stream(stream.read)
        except FileNotFoundError:
            return  # another process has removed it meanwhile
        self._sweep.files += 1
        self._sweep.size_bytes += size_bytes
        self._note(path, hits)
        if path.endswith(SEGMENT_SUFFIX) and is_evidence and hits:
            self._journal(filesystem, path)
        elif path.endswith(REJECTS_FILE) and is_evidence:
            self._rejects(filesystem, path)
        elif path.endswith(".lance"):
            self._table(path, lance_batches(scheme + path), is_evidence=is_evidence)
        elif path.endswith(".parquet"):
            self._table(path, _parquet_batches(filesystem, path), is_evidence=is_evidence)

    def _note(self, path: str, hits: set[str]) -> None:
        if hits:
            self._hits.setdefault(path, set()).update(hits)

    def _journal(self, filesystem: pafs.FileSystem, path: str) -> None:
        """Tell whose the lines are in which something was found."""
        with filesystem.open_input_file(path) as file:
            for line in file.read().splitlines():
                scope_key = scope_of(line)
                if scope_key in self._targets.evidence:
                    self._rows[path] = self._rows.get(path, 0) + 1
                elif scope_key is not None:
                    self._others |= self._needles.found_in(line, besides=self._others)

    def _rejects(self, filesystem: pafs.FileSystem, path: str) -> None:
        """Count the lines that give a name which is too short to be looked for byte by byte."""
        with filesystem.open_input_file(path) as file:
            if found := sum(map(self._short.given_in, file.read().splitlines())):
                self._rows[path] = found

    def _table(self, path: str, batches: Iterator[pa.Table], *, is_evidence: bool) -> None:
        try:
            for batch in batches:
                self._batch(path, batch, is_evidence=is_evidence)
        except FileNotFoundError:
            return
        except (OSError, ValueError):
            self._sweep.unreadable.append(path)
        else:
            self._sweep.tables += 1

    def _batch(self, path: str, batch: pa.Table, *, is_evidence: bool) -> None:
        """Look at each row: is it gone, is it another's, or does nobody know whose it is?"""
        self._sweep.rows += batch.num_rows
        of = self._targets.of_evidence if is_evidence else self._targets.of_table
        mine = np.asarray(of(batch.select([n for n in _KEY_COLUMNS if n in batch.column_names])))
        if mine.any():
            self._rows[path] = self._rows.get(path, 0) + int(mine.sum())
        others = np.asarray(_has_owner(batch)) & ~mine
        for rows, is_others in ((_taken(batch, others), True), (_taken(batch, ~others), False)):
            known = self._others if is_others else ()
            for buffer in text_buffers(rows.columns):
                found = self._needles.found_in(buffer, besides=known)
                if is_others:
                    self._others |= found
                else:
                    self._note(path, found)


def _has_owner(batch: pa.Table) -> Any:
    """Tell which rows belong to a scope; rows of the table's own belong to none."""
    if "scope_key" not in batch.column_names:
        return np.zeros(batch.num_rows, np.bool_)
    owned = pc.fill_null(pc.not_equal(batch["scope_key"], ""), False)
    if "record_type" in batch.column_names:
        owned = pc.and_not(owned, pc.is_in(batch["record_type"], pa.array(SYSTEM_TYPES)))
    return np.asarray(owned)


def _taken(batch: pa.Table, mask: Any) -> pa.Table:
    return batch if mask.all() else batch.filter(pa.array(mask))


def _parquet_batches(filesystem: pafs.FileSystem, path: str) -> Iterator[pa.Table]:
    """Read the columns of a file that may hold text."""
    with filesystem.open_input_file(path) as file:
        parquet = pq.ParquetFile(file)
        names = [each.name for each in parquet.schema_arrow if _may_hold_text(each.type)]
        for batch in parquet.iter_batches(columns=names):
            yield pa.Table.from_batches([batch])


def _may_hold_text(kind: pa.DataType) -> bool:
    if pa.types.is_nested(kind):
        return any(_may_hold_text(kind.field(number).type) for number in range(kind.num_fields))
    return not (
        pa.types.is_primitive(kind) or pa.types.is_fixed_size_binary(kind) or pa.types.is_null(kind)
    )


def _filesystem(place: str) -> tuple[pafs.FileSystem, str, str]:
    """Give file system, root in it, and what makes a URI of a path in it."""
    if "://" in place:
        filesystem, path = pafs.FileSystem.from_uri(place)
        return filesystem, path, place.split("://", maxsplit=1)[0] + "://"
    return pafs.LocalFileSystem(), place, ""
