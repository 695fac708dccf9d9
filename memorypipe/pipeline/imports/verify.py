"""Proof of an import: is each memory of the export in the table, and if not, why not."""

from dataclasses import dataclass
from typing import Literal

from memorypipe.pipeline.imports.known import Asked, KnownMemories, look_up
from memorypipe.pipeline.imports.mapping import ImportMapping
from memorypipe.pipeline.imports.reading import read_import
from memorypipe.table.table import MemoryTable

__all__ = ["Absent", "Standing", "Verification", "standing_of", "verify_import"]

Standing = Literal["found", "said_elsewhere", "changed_here", "deleted_here", "differs", "missing"]


@dataclass(frozen=True, kw_only=True)
class Absent:
    """A record of an export that the table does not have as it is.

    Attributes:
        source: The file.
        line: Its line, row or item, from 1.
        id: Of the record where it comes from; None where it has none.
        standing: What became of it; ``"rejected"``: it could not be read.
        reason: In words.
    """

    source: str
    line: int
    id: str | None
    standing: str
    reason: str


@dataclass(frozen=True, kw_only=True)
class Verification:
    """What a comparison of a table with an export found; the numbers add up to `records`.

    Attributes:
        records: Records of the export.
        found: The table has the memory, live, with the same text.
        said_elsewhere: Another live memory of the scope says the same.
        changed_here: The table had it, and has changed it since.
        deleted_here: The table had it, and has deleted it since.
        differs: The table has the memory and never had this text: the export is newer.
        missing: The table knows nothing of it.
        rejected: It could not be read.
        skipped: It was superseded, deleted or invalid where it comes from.
        absent: The ones that are neither found nor skipped, in their order.
    """

    records: int
    found: int
    said_elsewhere: int
    changed_here: int
    deleted_here: int
    differs: int
    missing: int
    rejected: int
    skipped: int
    absent: tuple[Absent, ...]

    @property
    def is_complete(self) -> bool:
        """Whether the table has, or had, everything that could be read."""
        return not (self.missing or self.differs)


_REASONS: dict[Standing, str] = {
    "said_elsewhere": "another memory of its scope says the same",
    "changed_here": "it was imported and has changed here since",
    "deleted_here": "it was imported and has been deleted here since",
    "differs": "the table has it with another text and never had this one; import again",
    "missing": "the table knows nothing of it; import again",
}


def verify_import(table: MemoryTable, path: str, mapping: ImportMapping) -> Verification:
    """Compare a table with the export that was imported into it.

    Args:
        table: The table.
        path: The export: a file, a directory, or a pattern.
        mapping: The one that it was imported with.

    Raises:
        InvalidArgumentError: If there is no such file, or without the key of the table's ids.
        LogFormatError: If a file is not of that kind.
    """
    read = read_import(path, mapping, id_key=table.read_id_key())
    known = look_up(table, (asked for _, asked in read.memories))
    standings = [standing_of(asked, known) for _, asked in read.memories]
    rejected = [
        Absent(
            source=reject.source,
            line=reject.line,
            id=None,
            standing="rejected",
            reason=reject.reason,
        )
        for reject in read.rejects
    ]
    absent = [
        Absent(
            source=source,
            line=line,
            id=asked.external_id or asked.memory_id,
            standing=standing,
            reason=_REASONS[standing],
        )
        for (source, line), (_, asked), standing in zip(
            read.places, read.memories, standings, strict=True
        )
        if standing != "found"
    ]
    return Verification(
        records=read.records,
        found=standings.count("found"),
        said_elsewhere=standings.count("said_elsewhere"),
        changed_here=standings.count("changed_here"),
        deleted_here=standings.count("deleted_here"),
        differs=standings.count("differs"),
        missing=standings.count("missing"),
        rejected=len(rejected),
        skipped=read.skipped.total(),
        absent=tuple(sorted([*absent, *rejected], key=lambda each: (each.source, each.line))),
    )


def standing_of(asked: Asked, known: KnownMemories) -> Standing:
    """Say what became of one record."""
    found = known.find(asked)
    if found is not None and found.by != "unsure":
        memory = found.memory
        if memory.is_live and memory.text_hash == asked.text_hash:
            return "found"
        if memory.text is None:
            return "deleted_here"
        if memory.has_had(asked):
            return "changed_here"
    if known.who_says(asked) is not None:
        return "said_elsewhere"
    return "missing" if found is None or found.by == "text" else "differs"
