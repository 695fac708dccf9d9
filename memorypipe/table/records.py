"""Head and run rows: the table's own records, kept beside the memories.

The head row holds the commit number, the commit time and the settings; every commit replaces it.
A run row is written once per commit and never changes: who committed, when, what, and where the
ledger lies.
"""

from collections.abc import Iterable, Mapping
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
    """

    embedder: str | None = None
    revision_ttl_days: int | None = 365
    artifact_ttl_days: int | None = 30
    history_horizon: datetime | None = None


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
    """

    number: int
    committed_at: datetime
    created_at: datetime
    vector_dim: int
    format_version: int = TABLE_FORMAT_VERSION
    created_by: str = "memorypipe"
    settings: Settings = Settings()

    def after_commit(self, moment: datetime, settings: Settings | None = None) -> "Head":
        """Give the head that the next commit writes, in today's format."""
        return replace(
            self,
            number=self.number + 1,
            committed_at=moment,
            format_version=TABLE_FORMAT_VERSION,
            settings=self.settings if settings is None else settings,
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
    )


def _read_settings(values: Mapping[str, Any]) -> Settings:
    """Read settings; an older version wrote fewer, a later one may have written more."""
    known = {each.name: values[each.name] for each in fields(Settings) if each.name in values}
    if known.get("history_horizon") is not None:
        known["history_horizon"] = datetime.fromisoformat(known["history_horizon"])
    return Settings(**known)


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


def runs_table(runs: Iterable[RunRecord]) -> pa.Table:
    """Show run records as an Arrow table with the schema `RUNS`, newest last."""
    rows = [
        {
            **asdict(run),
            "commit_number": run.number,
            "held_back": sorted(run.held_back),
            "labels": None if run.labels is None else sorted(run.labels.items()),
            "info": orjson.dumps(run.info).decode(),
        }
        for run in runs
    ]
    return pa.Table.from_pylist(
        [{name: row[name] for name in RUNS.names} for row in rows], schema=RUNS
    )
