"""The commit that takes rows out for good, and blocks the scopes that were erased as a whole."""

import re
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime

import pyarrow as pa
import pyarrow.compute as pc

from memorypipe.schema import table_schema
from memorypipe.table.erasing.erased import erased_name, erased_run_name
from memorypipe.table.erasing.requests import EraseRequest
from memorypipe.table.erasing.targets import TEXT_COLUMNS, Targets, names_one, scrub, texts_of
from memorypipe.table.ledger import LEDGER_FILE, read_ledger, write_ledger_file
from memorypipe.table.records import Head, RunRecord, Settings, read_runs, run_row
from memorypipe.table.revisions import with_columns
from memorypipe.table.storage import ADDRESS, Snapshot, Where
from memorypipe.table.times import Clock, next_commit_time
from memorypipe.table.transaction import RUN_COLUMNS, CommitResult, Transaction

__all__ = ["EraseCommit", "Found", "find_rows", "ledger_rows_of"]

_REASON = "erased"

# What tells whether a row belongs to a request.
_KEYS = ("memory_id", "scope_key", "source_ids")
_COLUMNS = (ADDRESS, "record_type", "is_live", *_KEYS)

_SAID = tuple(
    name for name in TEXT_COLUMNS if name in table_schema().names and name not in _COLUMNS
)


@dataclass(frozen=True, kw_only=True)
class Found:
    """What a version of the table holds of some requests.

    Attributes:
        targets: The requests, with the memories and scopes that were found.
        rows: The revisions that go, with their `ADDRESS`.
        texts: What they say.
    """

    targets: Targets
    rows: pa.Table
    texts: frozenset[str]

    @property
    def counts(self) -> dict[str, int]:
        """Numbers for people: `memories`, `live_memories`, `revisions`."""
        records = self.rows.group_by(["record_type", "memory_id"]).aggregate([])
        live = pc.sum(self.rows["is_live"].cast(pa.int64())).as_py() or 0
        return {
            "memories": records.num_rows,
            "live_memories": live,
            "revisions": self.rows.num_rows,
        }


def find_rows(snapshot: Snapshot, requests: Iterable[EraseRequest]) -> Found:
    """Find the revisions that belong to requests.

    A memory goes whole: what later revisions say was built on the earlier ones.
    """
    targets = Targets.of(requests)
    if targets.scope_keys:
        scope_keys = pc.unique(snapshot.scan(["scope_key"], Where())["scope_key"])
        targets = targets.with_others(scope_keys.to_pylist())
    if targets.source_ids:
        rows = snapshot.scan(_KEYS, Where())
        targets = targets.with_rows(rows.filter(targets.of_table(rows)))
    parts = []
    for where in (
        Where(scope_keys=targets.scope_keys),
        Where(memory_ids={name for name, _ in targets.memory_ids}),
    ):
        rows = snapshot.scan([*_COLUMNS, *_SAID], where)
        parts.append(rows.filter(targets.of_table(rows)))
    found = _each_once(pa.concat_tables(parts))
    return Found(
        targets=targets.with_rows(found),
        rows=found.select(list(_COLUMNS)),
        texts=frozenset(texts_of(found)),
    )


def _each_once(rows: pa.Table) -> pa.Table:
    numbered = rows.select([ADDRESS]).append_column("row", pa.array(range(rows.num_rows)))
    firsts = numbered.group_by(ADDRESS, use_threads=False).aggregate([("row", "min")])
    return rows.take(firsts["row_min"])


def ledger_rows_of(uri: str, name: str, targets: Targets) -> tuple[pa.Table, pa.Array]:
    """Read a ledger file, and tell which of its rows belong to the targets."""
    rows = read_ledger(uri, name)
    return rows, targets.of_table(rows)


@dataclass(frozen=True, kw_only=True)
class _Rewritten:
    """A ledger file that stands in another one's place.

    Attributes:
        name: Its name; None where nothing is left to write.
        rows: How many it has.
        removed: How many the old one had more.
        nameless: Of these, those that stay dealt with, by their keys alone.
    """

    name: str | None
    rows: int
    removed: int
    nameless: pa.Table


class _Ledgers:
    """Ledger files written anew; attempts of one commit share them.

    Args:
        uri: Of the table.
    """

    def __init__(self, uri: str) -> None:
        self._uri = uri
        self._known: dict[tuple[str, Targets], _Rewritten | None] = {}

    def rewritten(self, run: RunRecord, targets: Targets) -> _Rewritten | None:
        """Give what stands for a run's ledger from now on; None where that stays as it is."""
        if run.ledger is None:
            return None
        key = (run.ledger, targets)
        if key not in self._known:
            self._known[key] = self._write(run, run.ledger, targets)
        return self._known[key]

    def write_nameless(self, parts: Sequence[_Rewritten], run_id: str) -> tuple[str | None, int]:
        """Write the keys of messages of erased sources: they stay dealt with, whatever is undone.

        Returns:
            Name of the file, and its rows; None where there are none.
        """
        rows = pa.concat_tables([LEDGER_FILE.empty_table(), *(each.nameless for each in parts)])
        if not rows.num_rows:
            return None, 0
        return write_ledger_file(self._uri, rows, run_id=run_id), rows.num_rows

    def _write(self, run: RunRecord, name: str, targets: Targets) -> _Rewritten | None:
        rows, mask = ledger_rows_of(self._uri, name, targets)
        gone = rows.filter(mask)
        # The file bears the name of its run, which may itself be one that goes.
        if not gone.num_rows and not names_one(name, targets.words()):
            return None
        left = rows.filter(pc.invert(mask))
        written = None
        if left.num_rows:
            written = write_ledger_file(self._uri, left, run_id=run.run_id)
        scopes = pa.array(list(targets.scope_keys), pa.string())
        keys = gone.filter(pc.invert(pc.is_in(gone["scope_key"], scopes)))["key"]
        blank = pa.array([""] * len(keys), pa.string())
        return _Rewritten(
            name=written,
            rows=left.num_rows,
            removed=gone.num_rows,
            nameless=pa.table([blank, blank, blank, blank, keys], schema=LEDGER_FILE),
        )


class EraseCommit:
    """Builds the commit of erase requests.

    Args:
        uri: Of the table, for its ledger files.
        requests: What to erase.
        run_id: Names the commit.
        content_hash: Of the requests.

    Attributes:
        found: What the last attempt found.
        run_rows: Run rows that the last attempt wrote anew.
        ledger_rows: Ledger rows that it took out.
        old_ledgers: Ledger files that no run names once it has landed.
    """

    part = 0

    def __init__(
        self, uri: str, requests: Sequence[EraseRequest], *, run_id: str, content_hash: str
    ) -> None:
        self._requests = requests
        self.run_id = run_id
        self.content_hash = content_hash
        self._ledgers = _Ledgers(uri)
        self.found: Found | None = None
        self.run_rows = 0
        self.ledger_rows = 0
        self.old_ledgers: tuple[str, ...] = ()
        self._renamed: list[RunRecord] = []

    def build(self, snapshot: Snapshot, clock: Clock) -> Transaction | CommitResult:
        """Find the rows in the snapshot, and make the commit that takes them out."""
        head = snapshot.head
        self.found = found = find_rows(snapshot, self._requests)
        places, runs, ledgers = self._changed_runs(snapshot, found.targets)
        renamed = _renamed_rows(snapshot, self._renamed, found.rows[ADDRESS])
        names = {erased_name(key) for key in found.targets.scope_keys}
        erased = tuple(sorted(names.union(head.settings.erased)))
        if not (found.rows.num_rows or runs or erased != head.settings.erased):
            return CommitResult(outcome="nothing", version=head.number)
        run = self._record(head, next_commit_time(clock, head.committed_at), found, ledgers)
        return Transaction(
            closed=pa.concat_arrays(
                [found.rows[ADDRESS].combine_chunks(), places, renamed[ADDRESS].combine_chunks()]
            ),
            rows=pa.concat_tables(
                [
                    renamed.drop_columns([ADDRESS]),
                    *(run_row(each, head.vector_dim) for each in runs),
                ]
            ),
            run=run,
            settings=_settings(
                head.settings, erased, run.committed_at if found.rows.num_rows else None
            ),
        )

    def _changed_runs(
        self, snapshot: Snapshot, targets: Targets
    ) -> tuple[pa.Array, list[RunRecord], list[_Rewritten]]:
        """Find the run rows that name what goes: their addresses, and what stands for them."""
        rows = snapshot.scan([*RUN_COLUMNS, ADDRESS], Where(record_type="run"))
        runs = read_runs(rows)
        words = targets.words() | _named_after(runs, targets)
        new: dict[int, RunRecord] = {}
        ledgers: dict[str | None, _Rewritten] = {}
        self._renamed = []
        for run in runs:
            changed = _without(run, targets, words)
            if changed.run_id != run.run_id:
                self._renamed.append(run)
            if (ledger := self._ledgers.rewritten(changed, targets)) is not None:
                ledgers[run.ledger] = ledger
                changed = replace(changed, ledger=ledger.name, ledger_rows=ledger.rows)
            if changed != run:
                new[run.number] = changed
        self.run_rows = len(new)
        self.ledger_rows = sum(each.removed for each in ledgers.values())
        self.old_ledgers = tuple(name for name in ledgers if name is not None)
        hit = pc.is_in(rows["revision"], pa.array(list(new), pa.int32()))
        places = rows[ADDRESS].filter(hit).combine_chunks()
        return places, list(new.values()), list(ledgers.values())

    def _record(
        self, head: Head, moment: datetime, found: Found, ledgers: Sequence[_Rewritten]
    ) -> RunRecord:
        counts = found.counts
        ledger, ledger_rows = self._ledgers.write_nameless(ledgers, self.run_id)
        return RunRecord(
            run_id=self.run_id,
            part=self.part,
            kind="erase",
            number=head.number + 1,
            committed_at=moment,
            content_hash=self.content_hash,
            deleted=counts["live_memories"],
            ledger=ledger,
            ledger_rows=ledger_rows,
            info={
                "requests": len(self._requests),
                **counts,
                "run_rows": self.run_rows,
                "ledger_rows": self.ledger_rows,
            },
        )


# Older versions named a run that forgets or restores one memory after its id.
_OF_ONE = re.compile(r"(?:forget|restore)\d*-(.+)", re.DOTALL)


def _named_after(runs: Iterable[RunRecord], targets: Targets) -> set[str]:
    """Find the names of runs that are named after a memory that goes."""
    gone = {name for name, _ in targets.memory_ids}
    found = ((run.run_id, _OF_ONE.fullmatch(run.run_id)) for run in runs)
    return {run_id for run_id, match in found if match is not None and match[1] in gone}


def _without(run: RunRecord, targets: Targets, words: Collection[str]) -> RunRecord:
    """Take what goes out of a run record; which scope was held back becomes nameless."""
    gone = {name for name, _ in targets.memory_ids}
    held_back = {
        erased_name(key) if key in targets.scope_keys else key: (
            _REASON if key in targets.scope_keys else scrub(reason, words)
        )
        for key, reason in run.held_back.items()
    }
    return replace(
        run,
        run_id=erased_run_name(run.run_id) if names_one(run.run_id, words) else run.run_id,
        held_back=held_back,
        ids={old: new for old, new in run.ids.items() if not {old, new} & gone},
        labels=None if run.labels is None else scrub(run.labels, words),
        info=scrub(run.info, words),
    )


def _renamed_rows(snapshot: Snapshot, runs: Iterable[RunRecord], gone: pa.ChunkedArray) -> pa.Table:
    """Give the rows that stay and that runs of other names by now have written.

    Args:
        snapshot: The version.
        runs: With their old names.
        gone: `ADDRESS` of the rows that go.

    Returns:
        All columns, with the new names, and `ADDRESS`.
    """
    schema = table_schema(snapshot.head.vector_dim)
    parts = [schema.append(pa.field(ADDRESS, gone.type)).empty_table()]
    for run in runs:
        where = Where(touched_at=run.committed_at)
        rows = snapshot.scan([*schema.names, ADDRESS], where)
        written = pc.and_(
            pc.equal(rows["run_id"], run.run_id),
            pc.equal(rows["valid_from"], pa.scalar(run.committed_at, rows["valid_from"].type)),
        )
        rows = rows.filter(pc.and_not(written, pc.is_in(rows[ADDRESS], gone.combine_chunks())))
        name = pa.repeat(erased_run_name(run.run_id), rows.num_rows)
        rows = with_columns(rows, {"run_id": name})
        parts.append(rows.cast(parts[0].schema))
    return pa.concat_tables(parts)


def _settings(settings: Settings, erased: tuple[str, ...], moment: datetime | None) -> Settings:
    """Give the settings after the commit; what was before it can no longer be read as it was."""
    horizon = settings.history_horizon if moment is None else moment
    return replace(settings, erased=erased, history_horizon=horizon)
