"""The audit of a table: one pass over its live rows, and a second over those that look alike."""

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from memorypipe.errors import InvalidArgumentError
from memorypipe.schema import RECORD_TYPE_MEMORY
from memorypipe.table.auditing.alike import Suspects
from memorypipe.table.auditing.origins import Origins, read_origins
from memorypipe.table.auditing.report import (
    CHECKS,
    JUNK_CHECKS,
    ORPHAN_CHECKS,
    AuditReport,
    Check,
    Example,
    Finding,
)
from memorypipe.table.auditing.row_checks import row_checks
from memorypipe.table.auditing.word_sums import mixed, string_numbers, word_sums
from memorypipe.table.blocks import BLOCK_COLUMNS, FORGET_EVENT, Blocks, blocks_of
from memorypipe.table.ledger import ledger_batches
from memorypipe.table.pinned import PinnedRead
from memorypipe.table.storage import Snapshot, Where
from memorypipe.table.transaction import runs_where

__all__ = ["AUDIT_COLUMNS", "AuditSettings", "audit_table"]

AUDIT_COLUMNS = (
    "scope_key",
    "record_type",
    "memory_id",
    "text",
    "event_time",
    "run_id",
    "conversation_id",
    "source_ids",
    "text_hash",
    "vector",
)

_LEDGER_COLUMNS = ("scope_key", "conversation_id", "message_id")
_READ_AGAIN = ("scope_key", "memory_id", "text")
_TEXT_CHARS = 160
_TOP_SCOPES = 10
_ROWS_AT_ONCE = 16_384
# Reading two texts closely takes a few ten thousandths of a second.
_MAX_PAIRS = 200_000


@dataclass(frozen=True, kw_only=True)
class AuditSettings:
    """How an audit is made.

    Attributes:
        examples: How many memories each check shows.
        large_scope: A scope with more memories than this is large.

    Raises:
        InvalidArgumentError: Where a value cannot work.
    """

    examples: int = 5
    large_scope: int = 1000

    def __post_init__(self) -> None:
        for name, least in (("examples", 0), ("large_scope", 1)):
            value = getattr(self, name)
            if not isinstance(value, int) or isinstance(value, bool) or value < least:
                raise InvalidArgumentError(
                    f"{name} must be an integer of at least {least}, got {value!r}."
                )


def audit_table(
    read: PinnedRead, snapshot: Snapshot, uri: str, settings: AuditSettings
) -> AuditReport:
    """Look for what is wrong in the live rows of a table.

    Reads them once a batch at a time, and once more the texts that look alike; takes about 200
    bytes per row beside those texts.

    Args:
        read: The live rows, `AUDIT_COLUMNS`.
        snapshot: Of the same version or a later one.
        uri: Of the table, where its ledgers lie.
        settings: How.
    """
    runs = runs_where(snapshot)
    names = [run.ledger for run in runs if run.ledger is not None]
    origins = read_origins(runs, ledger_batches(uri, names, _LEDGER_COLUMNS))
    forgotten = snapshot.scan(BLOCK_COLUMNS, Where(events=[FORGET_EVENT], rows="current"))
    tally = _Tally(settings)
    audit = _Audit(tally, origins, blocks_of(forgotten), has_vectors=read.embedder is not None)
    columns = [name for name in AUDIT_COLUMNS if name != "vector" or read.embedder is not None]
    for rows in _batches(read.narrowed(columns)):
        audit.look_at(rows)
    audit.compare(read.narrowed(_READ_AGAIN))
    unchecked = {} if read.embedder is not None else {"no_vector": "the table has no embedder"}
    if not origins.logged:
        reason = "no run of the table has dealt with messages"
        unchecked |= {"unknown_conversation": reason, "unknown_source": reason}
    if audit.unread:
        reason = f"{audit.unread} pairs beyond the first {_MAX_PAIRS} that look alike were not read"
        unchecked |= {"near_duplicates": reason, "contradictions": reason}
    return AuditReport(
        version=read.version,
        memories=tally.rows,
        scopes=len(tally.sizes),
        tombstones=forgotten.num_rows,
        erased_scopes=len(snapshot.head.settings.erased),
        orphans=tally.orphans,
        junk=tally.junk,
        findings=tally.findings(),
        unchecked=unchecked,
    )


def _batches(read: PinnedRead) -> Iterator[pa.Table]:
    """Read rows, not too many at a time."""
    for rows in read.tables():
        for start in range(0, rows.num_rows, _ROWS_AT_ONCE):
            yield rows.slice(start, _ROWS_AT_ONCE)


class _Tally:
    """Counts what checks find, by scope, and keeps some examples."""

    def __init__(self, settings: AuditSettings) -> None:
        self._settings = settings
        self._counts: dict[Check, Counter[str]] = {check: Counter() for check in CHECKS}
        self._examples: dict[Check, list[Example]] = {check: [] for check in CHECKS}
        self.sizes: Counter[str] = Counter()
        self.orphans = 0
        self.junk = 0

    @property
    def rows(self) -> int:
        return self.sizes.total()

    @property
    def examples_wanted(self) -> int:
        return self._settings.examples

    def note(self, check: Check, example: Example) -> None:
        """Note one memory."""
        self._counts[check][example.scope_key] += 1
        if len(self._examples[check]) < self._settings.examples:
            self.show(check, example)

    def count(self, check: Check, rows: pa.Table) -> None:
        """Count memories, without an example."""
        self._counts[check].update(_scope_counts(rows))

    def show(self, check: Check, example: Example) -> None:
        """Keep an example of what is counted already."""
        self._examples[check].append(example)

    def note_rows(self, found: Mapping[Check, NDArray[np.bool_]], rows: pa.Table) -> None:
        """Note the rows of a batch that checks found."""
        for check, mask in found.items():
            if not mask.any():
                continue
            some = rows.select(_READ_AGAIN).filter(pa.array(mask))
            self.count(check, some)
            missing = self._settings.examples - len(self._examples[check])
            self._examples[check] += map(_example, some.slice(0, missing).to_pylist())
        self.orphans += _any_of(found, ORPHAN_CHECKS)
        self.junk += _any_of(found, JUNK_CHECKS)

    def findings(self) -> dict[Check, Finding]:
        """Give what was found, check by check."""
        limit = self._settings.large_scope
        large = {key: size for key, size in self.sizes.items() if size > limit}
        self._counts["large_scope"].update(large)
        return {check: self._finding(check) for check in CHECKS}

    def _finding(self, check: Check) -> Finding:
        counts = self._counts[check]
        most = sorted(counts.items(), key=lambda item: (-item[1], item[0]))[:_TOP_SCOPES]
        return Finding(
            check=check,
            count=counts.total(),
            share=counts.total() / max(self.rows, 1),
            scopes=len(counts),
            by_scope=dict(most),
            examples=tuple(self._examples[check]),
        )


class _Audit:
    """Looks at rows batch by batch, then at those that look alike."""

    def __init__(
        self, tally: _Tally, origins: Origins, blocks: Blocks, *, has_vectors: bool
    ) -> None:
        self._tally = tally
        self._origins = origins
        self._blocks = blocks
        self._has_vectors = has_vectors
        self._suspects = Suspects()
        self.unread = 0

    def look_at(self, rows: pa.Table) -> None:
        """Check the rows of a batch, each on its own, and number their texts."""
        texts = rows["text"].combine_chunks()
        sums = word_sums(texts)
        is_memory = np.asarray(pc.equal(rows["record_type"], RECORD_TYPE_MEMORY))
        found = {check: mask & is_memory for check, mask in row_checks(texts, sums).items()}
        found |= self._origins.check(rows)
        found["no_time"] = np.asarray(pc.is_null(rows["event_time"]))
        if self._has_vectors:
            found["no_vector"] = np.asarray(pc.is_null(rows["vector"]))
        found["forgotten"] = self._forgotten(rows)
        self._tally.sizes.update(_scope_counts(rows))
        self._tally.note_rows(found, rows)
        scopes, kinds = (_numbers(rows[name]) for name in ("scope_key", "record_type"))
        exact = _numbers(pc.coalesce(rows["text_hash"], rows["text"]))
        self._suspects.add(texts, exact, sums, mixed(scopes) + kinds)

    def _forgotten(self, rows: pa.Table) -> NDArray[np.bool_]:
        """Find what says what was forgotten, though nothing later than the forgetting said so."""
        found = np.zeros(rows.num_rows, np.bool_)
        keys = pa.array(self._blocks.scope_keys, pa.string())
        places = np.flatnonzero(np.asarray(pc.is_in(rows["scope_key"], keys)))
        names = ["scope_key", "text_hash", "event_time"]
        for place, row in zip(
            places, rows.select(names).take(pa.array(places)).to_pylist(), strict=True
        ):
            found[place] = self._blocks.stop(
                row["scope_key"], row["text_hash"] or "", (), row["event_time"]
            )
        return found

    def compare(self, read: PinnedRead) -> None:
        """Read the texts that look alike, and tell how they stand to each other."""
        found = self._suspects.find(_MAX_PAIRS)
        self.unread = found.left_out
        shown = found.duplicates[: self._tally.examples_wanted]
        wanted = np.unique(np.concatenate([found.pairs, found.values, shown]))
        held: dict[int, dict[str, Any]] = {}
        start = 0
        for rows in _batches(read):
            end = start + rows.num_rows
            self._tally.count("duplicates", rows.take(_within(found.duplicates[:, 0], start, end)))
            places = _within(wanted, start, end)
            values = rows.take(places).to_pylist()
            held |= zip((np.asarray(places) + start).tolist(), values, strict=True)
            start = end
        for row, other in shown.tolist():
            self._tally.show("duplicates", _example(held[row], held[other]))
        judged = found.judged({row: values["text"] for row, values in held.items()})
        for check, others in judged.items():
            for row, other in sorted(others.items()):
                self._tally.note(check, _example(held[row], held[other]))


def _numbers(strings: pa.ChunkedArray) -> NDArray[np.uint64]:
    return string_numbers(strings.combine_chunks())


def _within(rows: NDArray[np.int64], start: int, end: int) -> pa.Array:
    """Give the places within a batch of the rows that it holds, these being sorted."""
    edges = np.searchsorted(rows, [start, end])
    return pa.array(rows[edges[0] : edges[1]] - start)


def _example(row: Mapping[str, Any], other: Mapping[str, Any] | None = None) -> Example:
    return Example(
        scope_key=row["scope_key"],
        memory_id=row["memory_id"],
        text=_cut(row["text"]),
        other_id=None if other is None else other["memory_id"],
        other_text=None if other is None else _cut(other["text"]),
    )


def _cut(text: str) -> str:
    return text if len(text) <= _TEXT_CHARS else f"{text[: _TEXT_CHARS - 1]}…"


def _scope_counts(rows: pa.Table) -> dict[str, int]:
    counts = pc.value_counts(rows["scope_key"])
    keys, numbers = counts.field("values"), counts.field("counts")
    return dict(zip(keys.to_pylist(), numbers.to_pylist(), strict=True))


def _any_of(found: Mapping[Check, NDArray[np.bool_]], checks: frozenset[str]) -> int:
    masks = [mask for check, mask in found.items() if check in checks]
    return int(np.count_nonzero(np.logical_or.reduce(masks)))
