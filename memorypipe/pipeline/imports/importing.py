"""Import: another store's memories as a plan, and the commit of such a plan."""

import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, replace
from datetime import datetime
from importlib.metadata import version
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from memorypipe import ids
from memorypipe.errors import PlanError
from memorypipe.id_key import IdKeySource, fingerprint
from memorypipe.llm.embed.types import Embedder
from memorypipe.pipeline.id_keys import id_key_to_apply, id_key_to_plan, key_of
from memorypipe.pipeline.imports.known import Asked, KnownMemories, look_up
from memorypipe.pipeline.imports.mapping import CONSTANT, Imported, ImportMapping
from memorypipe.pipeline.imports.reading import ImportRead, read_import, without_unsure
from memorypipe.pipeline.plans.plan import Plan
from memorypipe.pipeline.runs.folder import OPEN_WINDOWS, RunFolder
from memorypipe.pipeline.runs.record import write_record
from memorypipe.pipeline.runs.summary import RunStatus, RunSummary
from memorypipe.schema import ACTION_OPTIONS, ACTIONS
from memorypipe.table.backends import check_backend
from memorypipe.table.table import MemoryTable
from memorypipe.table.times import now_utc
from memorypipe.table.transfer_import import IMPORT_KIND

__all__ = ["IMPORT_ACTIONS", "apply_import", "import_actions", "is_import", "plan_import"]

#: Schema of the actions of an import's plan.
IMPORT_ACTIONS = pa.schema([*ACTIONS, *ACTION_OPTIONS])

_UNCHANGED = "the table has had this already"
_DELETED = "it was imported before and is deleted here"


def import_actions(read: ImportRead, known: KnownMemories) -> pa.Table:
    """Decide what becomes of each memory of an export.

    A memory that the table does not know is added. One that it knows by its id changes nothing
    where it ever said this here, whatever people or runs have made of it since; else it is
    updated, unless it is deleted here.

    Args:
        read: The export.
        known: What the table knows of it.

    Returns:
        Columns of `ACTIONS` and `ACTION_OPTIONS`, sorted by scope and `seq`; the rationale of a
        NONE says why.
    """
    seqs = Counter[str]()
    rows: list[pa.Table] = []
    for chunk in _chunks(read.memories):
        values = []
        for memory, asked in chunk:
            values.append(_action(memory, asked, known, seqs[asked.scope_key]))
            seqs[asked.scope_key] += 1
        rows.append(pa.Table.from_pylist(values, schema=IMPORT_ACTIONS))
    if not rows:
        return IMPORT_ACTIONS.empty_table()
    return pa.concat_tables(rows).sort_by([("scope_key", "ascending"), ("seq", "ascending")])


_CHUNK_ROWS = 8192


def _chunks(items: list[Any]) -> Iterator[list[Any]]:
    for start in range(0, len(items), _CHUNK_ROWS):
        yield items[start : start + _CHUNK_ROWS]


def _action(memory: Imported, asked: Asked, known: KnownMemories, seq: int) -> dict[str, Any]:
    action = {
        **memory.values,
        "scope": list(memory.scope.items()),
        "scope_key": asked.scope_key,
        "seq": seq,
        "record_type": memory.record_type,
        "text": memory.text,
    }
    found = known.find(asked)
    if found is not None and (found.memory.text is None or found.memory.has_had(asked)):
        why = _UNCHANGED if found.memory.text is not None else _DELETED
        nothing = {"event": "NONE", "memory_id": None, "rationale": why, "vector": None}
        return {**action, **nothing}
    if found is None or found.by == "text":
        return {**action, "event": "ADD", "memory_id": asked.memory_id or asked.minted}
    return {
        **action,
        "event": "UPDATE",
        "memory_id": found.memory.memory_id,
        "old_memory": found.memory.text,
    }


def plan_import(  # noqa: PLR0913  # one keyword per independent choice of an import
    table_uri: str,
    path: str,
    mapping: ImportMapping,
    *,
    vectors_by: str | None = None,
    update: bool = False,
    backend: str | None = None,
    id_key: IdKeySource | None = None,
    run_id: str | None = None,
    clock: Callable[[], datetime] = now_utc,
) -> Plan:
    """Plan to take the memories of another store over; nothing is committed.

    Args:
        table_uri: The table; it need not be there yet.
        path: The export: a file, a directory, or a pattern.
        mapping: Which field is what.
        vectors_by: As for `read_import`.
        update: Whether a record updates the memory that has its id also where nothing tells that
            both come from the same store; else it is rejected where it says something new.
        backend: Of the table that is to be made, as for `MemoryTable.open`.
        id_key: As for `MemoryTable.open`.
        run_id: Names the run; None derives it from the export, the mapping and the version.
        clock: Gives the time of the run.

    Returns:
        The plan: actions only, in `runs/<run_id>/` beside the table; what could not be read is in
        its ``rejects.jsonl``.

    Raises:
        InvalidArgumentError: As `read_import`; or for another back end than the table's.
        LogFormatError: If a file is not of that kind.
        PlanError: If the run is committed already, or under way.
    """
    started = time.monotonic()
    check_backend(backend)
    table = None
    if MemoryTable.exists(table_uri):
        table = MemoryTable.open(table_uri, create=False, backend=backend, id_key=id_key)
    if table is not None and run_id in table.runs()["run_id"].to_pylist():
        raise PlanError(f"Run {run_id!r} is committed already; choose another run id.")
    base_version = 0 if table is None else table.version
    key = key_of(id_key_to_plan(id_key, table))
    read = read_import(path, mapping, table=table, vectors_by=vectors_by, id_key=key)
    known = look_up(table, (asked for _, asked in read.memories), update=update)
    read = without_unsure(read, known)
    actions = import_actions(read, known)
    described = {"path": path, "vectors_by": vectors_by, "update": update, **asdict(mapping)}
    if run_id is None:
        run_id = f"import_{ids.digest(read.digest, described, base_version, size=12).hex()}"
    with RunFolder.scratch(table_uri) as scratch:
        folder = scratch.become(run_id, now=clock())
    pq.write_table(actions, folder.path / "actions.parquet", compression="zstd")
    folder.write_table("open", OPEN_WINDOWS.empty_table())
    folder.write_lines("rejects", (asdict(reject) for reject in read.rejects))
    manifest = {
        "run_id": run_id,
        "kind": IMPORT_KIND,
        "planned_at": clock().isoformat(),
        "base_version": base_version,
        "source": described,
        "records": read.records,
        "skipped": dict(read.skipped),
        "vectors_left_out": read.vectors_left_out,
        "backend": backend,
        "id_key": fingerprint(key),
        "versions": {"memorypipe": version("memorypipe")},
    }
    folder.write_json("manifest", manifest)
    _write_summary(folder, _planned(run_id, read, actions, started), clock)
    return Plan(table_uri, run_id)


def _planned(run_id: str, read: ImportRead, actions: pa.Table, started: float) -> RunSummary:
    events = Counter(actions["event"].to_pylist())
    return RunSummary(
        run_id=run_id,
        status="planned",
        conversations=read.records - len(read.rejects),
        rejected_lines=len(read.rejects),
        added=events["ADD"],
        updated=events["UPDATE"],
        none=events["NONE"],
        wall_s=round(time.monotonic() - started, 3),
    )


def _write_summary(folder: RunFolder, summary: RunSummary, clock: Callable[[], datetime]) -> None:
    at = clock().isoformat()
    write_record(folder, {**summary.to_dict(), "started_at": at, "heartbeat_at": at})


def is_import(plan: Plan) -> bool:
    """Tell whether a plan is an import."""
    return bool(plan.manifest.get("kind") == IMPORT_KIND)


def apply_import(  # noqa: PLR0913  # one keyword per independent choice of a table
    plan: Plan,
    *,
    embedder: str | Embedder | None = None,
    backend: str | None = None,
    mirror: str | None = None,
    id_key: IdKeySource | None = None,
    clock: Callable[[], datetime] = now_utc,
) -> RunSummary:
    """Commit an import in one atomic commit, making the table where there is none.

    A scope whose memories have changed since the plan was made is held back as a whole; the
    others land. Committed again, it changes nothing.

    Args:
        plan: Of an import.
        embedder: Makes the vectors that the export does not bring, as for `MemoryTable.open`.
        backend: As for `MemoryTable.open`; None: as the plan says.
        mirror: As for `MemoryTable.open`.
        id_key: As for `MemoryTable.open`.
        clock: Gives the time of the commit.

    Returns:
        The summary; `none` counts what the table said already.
    """
    started = time.monotonic()
    folder = RunFolder.of(plan.table_uri, plan.run_id)
    actions = folder.read_table("actions", IMPORT_ACTIONS)
    summary = plan.summary()
    if actions.num_rows:
        table = MemoryTable.open(
            plan.table_uri,
            backend=backend or plan.manifest.get("backend"),
            embedder=embedder,
            mirror=mirror,
            id_key=id_key_to_apply(id_key, plan.manifest.get("id_key")),
            clock=clock,
        )
        result = table.commit(
            _without_unused(actions),
            run_id=plan.run_id,
            base_version=plan.base_version,
            info={
                "source": _nameless(plan.manifest["source"]),
                "records": plan.manifest["records"],
            },
            on_conflict="skip",
            imports=True,
        )
        summary = replace(
            summary,
            added=result.added,
            updated=result.updated,
            none=result.none,
            held_back=dict(result.held_back),
        )
    complete: RunStatus = "partial" if summary.rejected_lines else "done"
    summary = replace(
        summary,
        status="held" if summary.held_back else complete,
        committed=True,
        wall_s=round(summary.wall_s + time.monotonic() - started, 3),
    )
    write_record(folder, {**folder.read_json("run"), **summary.to_dict()})
    return summary


def _nameless(source: Mapping[str, Any]) -> dict[str, Any]:
    """Describe an import for the table, which outlives it: what was what, and not whose.

    Args:
        source: Of the plan's manifest: the path, and the mapping.
    """
    scope = {
        key: CONSTANT if name.startswith(CONSTANT) else name
        for key, name in source["scope"].items()
    }
    return {**{name: each for name, each in source.items() if name != "path"}, "scope": scope}


def _without_unused(actions: pa.Table) -> pa.Table:
    """Leave out the optional columns that no record gives."""
    unused = [n for n in ACTION_OPTIONS.names if actions[n].null_count == actions.num_rows]
    return actions.drop_columns(unused)
