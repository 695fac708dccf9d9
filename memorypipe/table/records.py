"""Head and run rows: the table's own records, kept beside the memories.

The head row holds the commit number, the commit time and the settings; every commit replaces it.
A run row is written once per commit and never changes: who committed, when, what, and where the
ledger lies.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields, replace
from datetime import datetime
from typing import Any

import orjson
import pyarrow as pa

from memorypipe.errors import TableError
from memorypipe.schema import LABELS, TABLE_FORMAT_VERSION, TIME, table_schema

__all__ = [
    "HEAD_TYPE",
    "RUNS",
    "RUN_TYPE",
    "SYSTEM_TYPES",
    "Head",
    "RunRecord",
    "Settings",
    "head_row",
    "read_head",
    "read_runs",
    "run_row",
    "runs_table",
]

HEAD_TYPE = "head"
RUN_TYPE = "run"
SYSTEM_TYPES = (HEAD_TYPE, RUN_TYPE)

# What `MemoryTable.runs` gives: one row per commit.
RUNS = pa.schema(
    [
        pa.field("run_id", pa.string(), nullable=False),
        pa.field("part", pa.int32(), nullable=False),
        pa.field("kind", pa.string(), nullable=False),
        pa.field("undone", pa.bool_(), nullable=False),  # an undo that stands took it back
        pa.field("commit_number", pa.int32(), nullable=False),
        pa.field("committed_at", TIME, nullable=False),
        pa.field("base_version", pa.int32()),
        pa.field("added", pa.int64(), nullable=False),
        pa.field("updated", pa.int64(), nullable=False),
        pa.field("deleted", pa.int64(), nullable=False),
        pa.field("none", pa.int64(), nullable=False),
        pa.field("duplicates", pa.int64(), nullable=False),  # of `none`: texts already there
        pa.field("blocked", pa.int64(), nullable=False),  # of `none`: forgotten texts
        pa.field("held_back", pa.list_(pa.string()), nullable=False),  # scope keys
        pa.field("ledger_rows", pa.int64(), nullable=False),
        pa.field("model", pa.string()),  # null where actions name none, or several
        pa.field("prompt_hash", pa.string()),  # as `model`
        pa.field("tokens_in", pa.int64()),  # of `info`, as are the next two; null where it has none
        pa.field("tokens_out", pa.int64()),
        pa.field("cost", pa.float64()),
        pa.field("labels", LABELS),
        pa.field("info", pa.string(), nullable=False),  # JSON object
    ]
)


@dataclass(frozen=True, kw_only=True)
class Settings:
    """What was chosen for a table, and holds for everybody who opens it.

    Attributes:
        embedder: Name of the embedder that made all vectors; None: the table has no vectors.
        revision_ttl_days: How long a revision is kept after it was superseded; None: for ever.
        artifact_ttl_days: How long journal, plans, rejects and reports are kept after the commit
            of their run; None: for ever.
        history_horizon: Commit time (UTC) from which on the history is whole; None: all of it.
        revisions_horizon: Commit time (UTC) up to which vacuum may have dropped what was
            superseded, but for what `RunRecord.thins` tells; erasure does not move it, since it
            takes whole records.
        erased: Names of the scopes that were erased and stay blocked, as from
            `memorypipe.table.erasing.erased.erased_name`.
        id_key: Fingerprint of the key that ids and hashes are made with; None: they have none.
    """

    embedder: str | None = None
    revision_ttl_days: int | None = 365
    artifact_ttl_days: int | None = 30
    history_horizon: datetime | None = None
    revisions_horizon: datetime | None = None
    erased: tuple[str, ...] = ()
    id_key: str | None = None


@dataclass(frozen=True, kw_only=True)
class Head:
    """The newest commit and the table's settings.

    Attributes:
        number: Number of commits so far; 0 for an empty table.
        committed_at: Time of the newest commit (of creation, for 0), UTC.
        created_at: When the table was made, UTC.
        vector_dim: Width of `vector`.
        format_version: Of the table's layout.
        created_by: Library and version that made the table.
        settings: What was chosen for it.
        has_forgotten: Whether any commit may have forgotten something; False spares every commit
            the search for what it must not bring back.
    """

    number: int
    committed_at: datetime
    created_at: datetime
    vector_dim: int
    format_version: int = TABLE_FORMAT_VERSION
    created_by: str = "memorypipe"
    settings: Settings = Settings()
    has_forgotten: bool = False

    def after_commit(
        self, moment: datetime, settings: Settings | None = None, *, forgets: bool = False
    ) -> "Head":
        """Give the head that the next commit writes, in today's format."""
        return replace(
            self,
            number=self.number + 1,
            committed_at=moment,
            format_version=TABLE_FORMAT_VERSION,
            settings=self.settings if settings is None else settings,
            has_forgotten=self.has_forgotten or forgets,
        )


@dataclass(frozen=True, kw_only=True)
class RunRecord:
    """One commit, as its run row keeps it.

    Attributes:
        run_id: As the caller gave it.
        part: Which of several commits under one run id, from 0.
        kind: What kind of commit: ``"commit"`` for a batch of actions, else the operation.
        number: The commit's number in the table.
        committed_at: Commit time, UTC.
        content_hash: Of actions and ledger; tells "again" from "something else".
        base_version: Commit number that the actions were decided against.
        added: Memories added.
        updated: Memories updated.
        deleted: Memories deleted.
        none: Actions that changed nothing.
        duplicates: Of `none`, those that would have added what was already there.
        blocked: Of `none`, those that would have brought back what was forgotten.
        ids: Provisional id to final id, where they differ.
        held_back: Scope key to the reason why none of its actions were taken.
        ledger: Name of the ledger file; None without one.
        ledger_rows: Messages in it.
        model: The one model that the actions name.
        prompt_hash: The one prompt that the actions name.
        labels: Given with the commit.
        info: Given with the commit, any JSON values.
        has_revisions: Whether what it closed is kept for a while; else it cannot be undone.
        undoes: Numbers of the commits that it undid.
        reopens: Of these, the ones whose ledger does not count while this one stands.
        thins: Numbers of the commits of whose revisions it dropped some before their time: those
            that a run without revisions had superseded.
    """

    run_id: str
    part: int
    number: int
    committed_at: datetime
    content_hash: str
    kind: str = "commit"
    base_version: int | None = None
    added: int = 0
    updated: int = 0
    deleted: int = 0
    none: int = 0
    duplicates: int = 0
    blocked: int = 0
    ids: Mapping[str, str] = field(default_factory=dict)
    held_back: Mapping[str, str] = field(default_factory=dict)
    ledger: str | None = None
    ledger_rows: int = 0
    model: str | None = None
    prompt_hash: str | None = None
    labels: Mapping[str, str] | None = None
    info: Mapping[str, Any] = field(default_factory=dict)
    has_revisions: bool = True
    undoes: Sequence[int] = ()
    reopens: Sequence[int] = ()
    thins: Sequence[int] = ()


# Fields of a run record that have a column of the table; the others go into `payload`.
_RUN_COLUMNS = frozenset({"run_id", "number", "committed_at", "model", "prompt_hash", "labels"})
_RUN_PAYLOAD = frozenset(each.name for each in fields(RunRecord)) - _RUN_COLUMNS


def _system_row(moment: datetime, vector_dim: int, **values: Any) -> pa.Table:
    row = {
        "is_current": False,
        "event": "COMMIT",
        "scope": [],
        "scope_key": "",  # no scope has this key: readers of a scope never meet the row
        "text": "",
        "created_at": moment,
        "updated_at": moment,
        "valid_from": moment,
        "deleted": False,
        "status": "valid",
        "is_live": False,
        "run_id": "",
        **values,
    }
    return pa.Table.from_pylist([row], schema=table_schema(vector_dim))


def head_row(head: Head) -> pa.Table:
    """Write a head as one row of the table."""
    payload = {
        "created_at": head.created_at,
        "created_by": head.created_by,
        "format_version": head.format_version,
        "vector_dim": head.vector_dim,
        "settings": asdict(head.settings),
        "has_forgotten": head.has_forgotten,
    }
    return _system_row(
        head.committed_at,
        head.vector_dim,
        record_type=HEAD_TYPE,
        memory_id=HEAD_TYPE,
        revision=head.number,
        payload=orjson.dumps(payload).decode(),
    )


def read_head(row: Mapping[str, Any]) -> Head:
    """Read a head from its row: `revision`, `valid_from` and `payload`."""
    payload = orjson.loads(row["payload"])
    return Head(
        number=row["revision"],
        committed_at=row["valid_from"],
        created_at=datetime.fromisoformat(payload["created_at"]),
        vector_dim=payload["vector_dim"],
        format_version=payload["format_version"],
        created_by=payload["created_by"],
        settings=_read_settings(payload.get("settings", {})),
        # A version that did not write it down may have forgotten.
        has_forgotten=payload.get("has_forgotten", True),
    )


def _read_settings(values: Mapping[str, Any]) -> Settings:
    """Read settings; an older version wrote fewer, a later one may have written more."""
    known = {each.name: values[each.name] for each in fields(Settings) if each.name in values}
    for name in ("history_horizon", "revisions_horizon"):
        if known.get(name) is not None:
            known[name] = datetime.fromisoformat(known[name])
    return Settings(**{**known, "erased": tuple(known.get("erased", ()))})


def run_row(run: RunRecord, vector_dim: int) -> pa.Table:
    """Write a run record as one row of the table; `revision` is the commit's number."""
    payload = {name: getattr(run, name) for name in sorted(_RUN_PAYLOAD)}
    return _system_row(
        run.committed_at,
        vector_dim,
        record_type=RUN_TYPE,
        memory_id=run.run_id,
        revision=run.number,
        run_id=run.run_id,
        model=run.model,
        prompt_hash=run.prompt_hash,
        labels=None if run.labels is None else sorted(run.labels.items()),
        payload=orjson.dumps(payload).decode(),
    )


def read_runs(rows: pa.Table) -> list[RunRecord]:
    """Read run records from their rows, in the order of their commits."""
    runs = [_read_run(row) for row in rows.to_pylist()]
    return sorted(runs, key=lambda run: run.number)


def _read_run(row: Mapping[str, Any]) -> RunRecord:
    try:
        payload = orjson.loads(row["payload"])
    except orjson.JSONDecodeError as error:
        raise TableError(f"The run row of {row['run_id']!r} holds no JSON payload.") from error
    payload |= {name: tuple(payload.get(name, ())) for name in ("undoes", "reopens", "thins")}
    return RunRecord(
        run_id=row["run_id"],
        number=row["revision"],
        committed_at=row["valid_from"],
        model=row["model"],
        prompt_hash=row["prompt_hash"],
        labels=None if row["labels"] is None else dict(row["labels"]),
        # A later minor version may have written more than this one knows.
        **{name: payload[name] for name in _RUN_PAYLOAD & payload.keys()},
    )


def _spent(info: Mapping[str, Any]) -> dict[str, float | None]:
    """Take out of what a caller told whatever is a number of tokens or a cost."""
    kinds = {"tokens_in": int, "tokens_out": int, "cost": int | float}
    return {
        name: info[name] if isinstance(info.get(name), kind) else None
        for name, kind in kinds.items()
    }


def runs_table(runs: Iterable[RunRecord], undone: Collection[int] = ()) -> pa.Table:
    """Show run records as an Arrow table with the schema `RUNS`, newest last.

    Args:
        runs: In the order of their commits.
        undone: Numbers of the commits that do not count.
    """
    rows = [
        {
            **asdict(run),
            **_spent(run.info),
            "commit_number": run.number,
            "undone": run.number in undone,
            "held_back": sorted(run.held_back),
            "labels": None if run.labels is None else sorted(run.labels.items()),
            "info": orjson.dumps(run.info).decode(),
        }
        for run in runs
    ]
    return pa.Table.from_pylist(
        [{name: row[name] for name in RUNS.names} for row in rows], schema=RUNS
    )
