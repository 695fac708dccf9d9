"""Deciding again over what is in a table, as a plan."""

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from memorypipe import ids
from memorypipe.errors import PlanError, TableNotFoundError
from memorypipe.expressions.build_action import DecideWork
from memorypipe.expressions.coordinator import connect
from memorypipe.expressions.worker_errors import plainly
from memorypipe.id_key import fingerprint
from memorypipe.llm.embed.resolve import NO_EMBEDDER
from memorypipe.llm.owner import Owner
from memorypipe.llm.replies.reply import ReadActions
from memorypipe.llm.stage import Outcome
from memorypipe.llm.worker import Worker, all_or_none
from memorypipe.pipeline.deciding import stops_of
from memorypipe.pipeline.embedders import embedder_to_plan
from memorypipe.pipeline.planning_config import PlanConfig
from memorypipe.pipeline.plans.plan import Plan
from memorypipe.pipeline.reconsolidate_rows import COMPARED, compared_rows, result_rows
from memorypipe.pipeline.recorded import RecordedPlanning
from memorypipe.pipeline.runs.accounting import call_totals
from memorypipe.pipeline.runs.folder import RunFolder
from memorypipe.pipeline.runs.identity import WindowDigest, describe_stage, make_run_id
from memorypipe.pipeline.runs.job_lock import check_alone_in, one_at_a_time
from memorypipe.pipeline.scope_results import write_results
from memorypipe.pipeline.scopes.reconsolidate import (
    Member,
    ScopeWork,
    decide_scope,
    mark_of,
    prepare_scope,
)
from memorypipe.pipeline.scopes.text_vectors import TextVectors, settled_settings
from memorypipe.rank.live import live_vectors
from memorypipe.schema import RECORD_TYPE_MEMORY
from memorypipe.table.auditing.origins import CONSOLIDATION_KIND
from memorypipe.table.blocks import Blocks
from memorypipe.table.table import MemoryTable, TableView

__all__ = ["Reconsolidation"]

_COLUMNS = (
    *("scope", "scope_key", "record_type", "memory_id", "text", "context", "topics"),
    *("event_time", "updated_at", "conversation_id", "source_ids"),
)

# Memories that are read at a time, whole scopes; and scopes that are asked about at a time.
_PAGE_MEMORIES = 50_000
_SCOPES_AT_ONCE = 256


@dataclass(frozen=True, kw_only=True)
class _Base:
    """The table that is decided over.

    Attributes:
        table: Opened.
        version: The version that is read.
    """

    table: MemoryTable
    version: int


class Reconsolidation(RecordedPlanning):
    """One planning, from the table to the files of its run.

    Args:
        config: Table and decisions; what is said of extraction does not matter.
        scope: Only this scope; None: all.
        again: Whether memories that were compared before are compared again.
        run_id: Names the run; None derives it.

    Raises:
        TableNotFoundError: If there is no table.
        PlanError: If the run that is asked for is committed.
    """

    def __init__(
        self,
        config: PlanConfig,
        *,
        scope: Mapping[str, Any] | None,
        again: bool,
        run_id: str | None,
    ) -> None:
        uri = config.table_uri
        if not MemoryTable.exists(uri):
            raise TableNotFoundError(
                f"There is no memory table at {uri!r}; nothing is there to consolidate."
            )
        table = MemoryTable.open(
            uri,
            create=False,
            backend=config.backend,
            embedder=config.embedder,
            id_key=config.id_key,
        )
        self._id_key = table.read_id_key()
        if run_id in table.runs()["run_id"].to_pylist():
            raise PlanError(f"Run {run_id!r} is committed already; choose another run id.")
        super().__init__(config, config.decide, first="consolidate")
        self._base = _Base(table=table, version=table.version)
        self._scope_key = None if scope is None else ids.scope_key(scope)
        self._again = again
        self._run_id = run_id
        self._embedder = embedder_to_plan(config.embedder, table)
        self._settings = settled_settings(config.settings, self._embedder)
        self._worker: Worker | None = None
        self._total = 0
        self._mark = {"kind": CONSOLIDATION_KIND, "scope_key": self._scope_key}

    def plan(self) -> Plan:
        """Compare, decide, and write everything down."""
        works = list(self._find_work())
        self._total = sum(len(work.compared) for work in works)
        folder = self._folder(works)
        try:
            self._accounts.begin("decide")
            return self._recorded(folder, lambda: self._decide(folder, works))
        finally:
            # It tells the coordinator until its end, so it goes first.
            if self._worker is not None:
                self._worker.close()
            self._coordination.close()

    def _find_work(self) -> Iterator[ScopeWork]:
        """Read the live memories, and give the scopes in which anything is to be done."""
        for rows in self._pages():
            members = [Member.of(row) for row in rows.to_pylist()]
            scope_keys = rows["scope_key"].to_pylist()
            marks = self._compared(scope_keys, members)
            vectors = self._vectors(sorted(set(scope_keys)))
            for start, end in _runs(scope_keys):
                texts = {member.text for member in members[start:end]}
                work = prepare_scope(
                    rows["scope"][start].as_py(),
                    scope_keys[start],
                    members[start:end],
                    compared=marks,
                    vectors={text: vectors[text] for text in texts & vectors.keys()},
                )
                if not work.is_empty:
                    yield work

    def _pages(self) -> Iterator[pa.Table]:
        """Read memories, whole scopes at a time, sorted by scope."""
        view = self._view()
        keys = view.to_arrow(columns=["scope_key"])["scope_key"]
        counts = pc.value_counts(keys)
        sizes = dict(
            zip(counts.field("values").to_pylist(), counts.field("counts").to_pylist(), strict=True)
        )
        if self._scope_key is not None:
            sizes = {key: size for key, size in sizes.items() if key == self._scope_key}
        for page in _paged(sizes, _PAGE_MEMORIES):
            rows = view.read_scopes(page, _COLUMNS)
            rows = rows.filter(pc.equal(rows["record_type"], RECORD_TYPE_MEMORY))
            if rows.num_rows:
                yield rows.sort_by([("scope_key", "ascending"), ("memory_id", "ascending")])

    def _view(self) -> TableView:
        return self._base.table.at(self._base.version)

    def _vectors(self, scope_keys: Sequence[str]) -> Mapping[str, NDArray[np.float32]]:
        if self._embedder is None:
            return {}
        return live_vectors(self._view(), scope_keys, self._embedder.name)

    def _compared(self, scope_keys: Sequence[str], members: Sequence[Member]) -> Collection[str]:
        """Give the marks of the memories that an earlier run has compared as they are."""
        if self._again:
            return ()
        marks = [mark_of(member) for member in members]
        keys = [
            ids.ledger_key(scope_key, COMPARED, mark)
            for scope_key, mark in zip(scope_keys, marks, strict=True)
        ]
        known = pc.is_in(pa.array(keys, pa.binary(16)), self._base.table.ledger_keys())
        return {mark for mark, is_known in zip(marks, known.to_pylist(), strict=True) if is_known}

    def _folder(self, works: Sequence[ScopeWork]) -> RunFolder:
        """Name the run after what it compares."""
        digest = WindowDigest()
        for work in works:
            marks = [f"{mark_of(m)}{'' if m.decided_by is None else '!'}" for m in work.compared]
            digest.add(pa.chunked_array([pa.array(marks, pa.string())]))
        derived = make_run_id(
            windows=digest.value(),
            stages={"decide": describe_stage(self._config.decide)},
            settings=self._chosen(),
            base_version=self._base.version,
        )
        run_id = self._run_id or derived.replace("run_", "consolidate_", 1)
        with RunFolder.scratch(self._config.table_uri) as scratch:
            runs, now = scratch.path.parent, self._config.clock()
            with one_at_a_time(runs):
                check_alone_in(self._scope_key, runs, run_id=run_id, now=now)
                return scratch.become(run_id, now=now, told=self._mark)

    def _chosen(self) -> dict[str, Any]:
        chosen = {**self._settings.to_dict(), "again": self._again}
        return chosen if self._scope_key is None else {**chosen, "scope": self._scope_key}

    def _decide(self, folder: RunFolder, works: Sequence[ScopeWork]) -> Counter[str]:
        """Ask about all scopes, many at a time, those with the longest chains first."""
        done = 0
        self._report("consolidate", done, self._total)
        by_need = sorted(works, key=lambda work: (-len(work.chosen.facts), work.scope_key))
        for start in range(0, len(by_need), _SCOPES_AT_ONCE):
            some = by_need[start : start + _SCOPES_AT_ONCE]
            self._ask([work for work in some if work.chosen.facts])
            done += sum(len(work.compared) for work in some)
            self._report("consolidate", done, self._total)
        spec, prompt_hash = self._config.decide.spec, self._config.decide.prompt_hash
        in_order = sorted(works, key=lambda work: work.scope_key)
        for part, start in enumerate(range(0, len(in_order), _SCOPES_AT_ONCE)):
            some = in_order[start : start + _SCOPES_AT_ONCE]
            folder.write_part("facts", part, pa.concat_tables(map(compared_rows, some)))
        results = (
            result_rows(
                in_order[start : start + _SCOPES_AT_ONCE], model=spec.model, prompt_hash=prompt_hash
            )
            for start in range(0, len(in_order), _SCOPES_AT_ONCE)
        )
        return write_results(folder, results)

    def _ask(self, works: Sequence[ScopeWork]) -> None:
        if not works:
            return
        worker = self._start_worker()
        blocks = self._base.table.read_blocks([work.scope_key for work in works])
        with plainly():
            worker.wait(all_or_none([self._decide_one(worker, work, blocks) for work in works]))
        results = result_rows(works, model="", prompt_hash="")
        totals = call_totals(call for calls in results["calls"].to_pylist() for call in calls)
        totals.update(flag for flags in results["flags"].to_pylist() for flag in flags)
        totals["facts"] = sum(len(work.chosen.facts) for work in works)
        self._accounts.add_rows("decide", totals)
        self._read_counts()

    def _start_worker(self) -> Worker:
        """Give the worker of this run: in this process, where its memories are."""
        if self._worker is None:
            self._coordination.start(self._config.decide, here=True)
            spec = self._coordination.join(self._config.decide).spec
            self._worker = Worker(spec, coordinator=connect(spec))
            self._worker.serve(Owner.current())
        return self._worker

    async def _decide_one(self, worker: Worker, work: ScopeWork, blocks: Blocks) -> None:
        stage, scope_key = self._config.decide.stage, work.scope_key

        async def decide(asked: DecideWork) -> Outcome[ReadActions]:
            return await worker.answer(stage, asked, scope_key=scope_key)

        await decide_scope(
            work,
            decide=decide,
            settings=self._settings,
            stops=stops_of(blocks, scope_key, self._id_key),
            vectors=TextVectors(self._embedder, work.vectors),
        )

    def _manifest(self, run_id: str) -> dict[str, Any]:
        config = self._config
        return {
            "run_id": run_id,
            "kind": CONSOLIDATION_KIND,
            "planned_at": config.clock().isoformat(),
            "base_version": self._base.version,
            "id_key": fingerprint(self._id_key),
            "decide": describe_stage(config.decide),
            "settings": self._chosen(),
            "backend": config.backend,
            "embedder": NO_EMBEDDER if self._embedder is None else self._embedder.name,
            "versions": {name: version(name) for name in ("memorypipe", "ray", "pyarrow")},
        }

    def _about(self) -> dict[str, Any]:
        return {"windows": self._total, "model": self._config.decide.spec.model}

    def _describe(self, folder: RunFolder) -> dict[str, Any]:
        return {**super()._describe(folder), **self._mark}


def _runs(values: Sequence[str]) -> Iterator[tuple[int, int]]:
    """Give where each run of equal values begins and ends."""
    start = 0
    for place in range(1, len(values) + 1):
        if place == len(values) or values[place] != values[start]:
            yield start, place
            start = place


def _paged(sizes: Mapping[str, int], limit: int) -> Iterator[list[str]]:
    """Put keys together until their sizes reach a limit."""
    page: list[str] = []
    size = 0
    for key in sorted(sizes):
        if page and size + sizes[key] > limit:
            yield page
            page, size = [], 0
        page.append(key)
        size += sizes[key]
    if page:
        yield page
