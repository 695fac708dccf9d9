"""Planning: cut windows, extract facts, decide actions, and write all of it down."""

import time
import uuid
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, field, replace
from datetime import datetime
from importlib.metadata import version
from typing import Any, Literal

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from memorypipe.errors import MemoryPipeError, PlanError
from memorypipe.expressions.build_action import MemoryBuildAction
from memorypipe.expressions.extract import MemoryExtract
from memorypipe.llm.batch.settings import BatchSettings
from memorypipe.llm.embed.resolve import NO_EMBEDDER
from memorypipe.llm.embed.types import Embedder
from memorypipe.llm.limits.control import Bounds
from memorypipe.llm.owner import Owner
from memorypipe.logs.read import ConversationLog
from memorypipe.pipeline.accounting import Accounts, call_totals, fact_totals
from memorypipe.pipeline.batch_folder import open_batches
from memorypipe.pipeline.coordination import Coordination
from memorypipe.pipeline.cutting import cut_windows
from memorypipe.pipeline.deciding import Decider, decide_actions
from memorypipe.pipeline.embedders import embedder_to_plan
from memorypipe.pipeline.extraction import extract_facts
from memorypipe.pipeline.identity import WindowDigest, describe_stage, make_run_id
from memorypipe.pipeline.interrupts import drained_first
from memorypipe.pipeline.on_ray import arrow_batches
from memorypipe.pipeline.plan import Plan
from memorypipe.pipeline.run_folder import OPEN_WINDOWS, SCOPES, RunFolder
from memorypipe.pipeline.run_record import Heartbeat, RunRecord
from memorypipe.pipeline.settings import ConsolidationSettings
from memorypipe.pipeline.summary import RunStatus, RunSummary
from memorypipe.pipeline.text_vectors import settled_settings
from memorypipe.schema import ACTIONS
from memorypipe.table.run_status import EVERY_S
from memorypipe.table.table import MemoryTable

__all__ = ["PlanConfig", "Planning", "Progress"]

ProgressStage = Literal["windows", "batch", "extract", "decide", "commit"]


@dataclass(frozen=True, kw_only=True)
class Progress:
    """How far a run has come.

    Attributes:
        stage: What is being done.
        done: Windows done in that stage.
        total: Windows in that stage; None while nobody knows.
    """

    stage: ProgressStage
    done: int
    total: int | None


@dataclass(frozen=True, kw_only=True)
class PlanConfig:
    """What a planning works with.

    Attributes:
        table_uri: The memory table.
        extract: How facts are extracted.
        decide: How facts are decided.
        settings: How windows are cut and facts are grouped.
        on_progress: Called with each step forward.
        clock: Gives the time of the run.
        bounds: Where the run stops, whatever is left.
        batch: How batches are cut where the extraction is asked in batches; None where not.
        embedder: Makes the vectors, as for `MemoryTable.open`.
    """

    table_uri: str
    extract: MemoryExtract
    decide: MemoryBuildAction
    settings: ConsolidationSettings
    on_progress: Callable[[Progress], None]
    clock: Callable[[], datetime]
    bounds: Bounds = field(default_factory=Bounds)
    batch: BatchSettings | None = None
    embedder: str | Embedder | None = None
    backend: str | None = None
    mirror: str | None = None


class Planning:
    """One planning, from the log to the files of its run.

    Args:
        config: Table, stages and settings.
        log: The conversations.
        run_id: Names the run; None derives it.
    """

    def __init__(self, config: PlanConfig, log: ConversationLog, run_id: str | None) -> None:
        self._config = config
        self._log = log
        self._run_id = run_id
        self._started = time.monotonic()
        self._cut = 0
        self._batch: dict[str, int] | None = None
        self._progress = Progress(stage="windows", done=0, total=None)
        specs = (config.extract.spec, config.decide.spec)
        self._accounts = Accounts(
            bounds=config.bounds, has_prices=any(spec.prices is not None for spec in specs)
        )
        self._coordination = Coordination(uuid.uuid4().hex, config.bounds)
        uri = config.table_uri
        table = None
        if MemoryTable.exists(uri):
            table = MemoryTable.open(
                uri, create=False, backend=config.backend, embedder=config.embedder
            )
        if table is not None and run_id in table.runs()["run_id"].to_pylist():
            raise PlanError(f"Run {run_id!r} is committed already; choose another run id.")
        self._embedder = embedder_to_plan(config.embedder, table)
        self._settings = settled_settings(config.settings, self._embedder)
        self._base_version = table.version if table else None
        self._known_keys = [] if table is None else table.ledger_keys().to_pylist()
        self._erased = () if table is None else table.settings.erased

    def plan(self) -> Plan:
        """Plan, and write everything down."""
        try:
            folder = self._cut_windows()
            if self._cut:
                self._accounts.begin("extract")
            record = RunRecord(folder, lambda: self._describe(folder), clock=self._config.clock)
            try:
                record.write()
                beat = Heartbeat(record.write, every_s=EVERY_S)
                with beat, drained_first(self._coordination.drain):
                    actions, opened = self._work(folder)
            except BaseException as error:
                record.write(**_ending(error))
                raise
            folder.write_json("manifest", self._manifest(folder.path.name))
            record.write(**self._summary(folder, actions, opened).to_dict())
        finally:
            self._coordination.close()
        return Plan(self._config.table_uri, folder.path.name)

    def _work(self, folder: RunFolder) -> tuple[pa.Table, pa.Table]:
        """Extract and decide the windows that were cut; give the actions and the open windows."""
        actions, opened = ACTIONS.empty_table(), OPEN_WINDOWS.empty_table()
        if self._cut:
            self._fill_journal(folder)
            self._extract_facts(folder)
            actions, opened = self._decide(folder)
        folder.write_table("actions", actions)
        folder.write_table("open", opened)
        folder.write_lines("rejects", _reject_lines(self._log))
        return actions, opened

    def _cut_windows(self) -> RunFolder:
        """Write the windows, and name the run after them."""
        settings = self._settings
        uri = self._config.table_uri
        dataset = cut_windows(self._log.dataset, settings, self._known_keys, self._erased)
        digest = WindowDigest()
        with RunFolder.scratch(uri) as scratch:
            for part, batch in enumerate(arrow_batches(dataset)):
                digest.add(batch["window_id"])
                scratch.write_part("windows", part, batch)
                self._cut += batch.num_rows
                if self._cut:
                    # It takes a second to come up, while the rest is cut and the workers start.
                    self._coordination.start(self._config.extract, self._config.decide)
                self._report("windows", self._cut, None)
            run_id = self._run_id or make_run_id(
                windows=digest.value(),
                stages=self._stages(),
                settings=self._chosen(),
                base_version=self._base_version or 0,
            )
            return scratch.become(run_id, now=self._config.clock())

    def _fill_journal(self, folder: RunFolder) -> None:
        """Have the extraction answered in batches, where that is wanted."""
        if self._config.batch is None:
            self._check_none_open(folder)
            return
        from memorypipe.pipeline.batch_extraction import fill_journal  # noqa: PLC0415  # imports the client library

        totals = fill_journal(
            folder.parts("windows"),
            self._config.extract,
            table_uri=self._config.table_uri,
            run_id=folder.path.name,
            settings=self._config.batch,
            on_progress=lambda done, total: self._report("batch", done, total),
        )
        self._batch = asdict(totals)

    def _check_none_open(self, folder: RunFolder) -> None:
        """Do not ask alone what a batch of an earlier try is answering."""
        config = self._config
        if open_batches(config.table_uri):
            from memorypipe.pipeline.batch_extraction import check_none_open  # noqa: PLC0415  # imports the client library

            windows = folder.parts("windows")
            check_none_open(windows, config.extract, table_uri=config.table_uri)

    def _extract_facts(self, folder: RunFolder) -> None:
        done, total = 0, self._cut
        self._report("extract", done, total)
        cut = folder.parts("windows")
        extract = self._coordination.join(self._config.extract)
        for part, facts in enumerate(extract_facts(cut, extract)):
            folder.write_part("facts", part, facts)
            self._accounts.add_rows(fact_totals(facts))
            done += facts.num_rows
            self._report("extract", done, total)
        _check_all_back("extraction", done, total)
        self._read_counts()

    def _decide(self, folder: RunFolder) -> tuple[pa.Table, pa.Table]:
        config = self._config
        decider = Decider(
            decide=self._coordination.join(config.decide),
            settings=self._settings,
            table_uri=config.table_uri,
            base_version=self._base_version,
            embedder=self._embedder,
            owner=Owner.current(),
        )
        facts = folder.parts("facts")
        self._accounts.begin("decide")
        self._report("decide", 0, self._cut)
        names = ["scope_key", "window_id", "conversation_id"]
        cut = pa.concat_tables([pq.read_table(part, columns=names) for part in facts])
        windows_of = Counter(cut["scope_key"].to_pylist())
        results, done = [], 0
        for batch in decide_actions(facts, decider):
            results.append(batch)
            totals = call_totals(c for calls in batch["calls"].to_pylist() for c in calls)
            totals["fallback"] = sum(batch["fallback"].to_pylist())
            totals.update(flag for flags in batch["flags"].to_pylist() for flag in flags)
            self._accounts.add_rows(totals)
            done += sum(windows_of[scope_key] for scope_key in batch["scope_key"].to_pylist())
            self._report("decide", done, self._cut)
        _check_all_back("consolidation", done, self._cut)
        self._read_counts()
        scopes = pa.concat_tables(results).sort_by("scope_key")
        chains = [scopes["scope_key"], pc.list_value_length(scopes["calls"]).cast(pa.int64())]
        folder.write_table("scopes", pa.table(chains, schema=SCOPES))
        window_ids = cut["window_id"].to_pylist()
        return _lay_out(
            scopes, dict(zip(window_ids, cut["conversation_id"].to_pylist(), strict=True))
        )

    def _report(self, stage: ProgressStage, done: int, total: int | None) -> None:
        self._progress = Progress(stage=stage, done=done, total=total)
        self._config.on_progress(self._progress)

    def _read_counts(self) -> None:
        if (counted := self._coordination.totals()) is not None:
            self._accounts.told(counted)

    def _stages(self) -> dict[str, Any]:
        config = self._config
        return {
            "extract": describe_stage(config.extract),
            "decide": describe_stage(config.decide),
        }

    def _chosen(self) -> dict[str, Any]:
        """Give what shapes the result, apart from stages and inputs."""
        chosen = self._settings.to_dict()
        if self._embedder is not None and self._settings.lookup.uses_vectors:
            chosen["embedder"] = self._embedder.name
        return chosen

    def _models(self) -> str:
        stages = self._stages()
        return " + ".join(dict.fromkeys(stages[name]["model"] for name in ("extract", "decide")))

    def _manifest(self, run_id: str) -> dict[str, Any]:
        packages = ("memorypipe", "ray", "pyarrow", "pylance")
        config = self._config
        return {
            "run_id": run_id,
            "planned_at": config.clock().isoformat(),
            "base_version": self._base_version or 0,
            "stages": self._stages(),
            "settings": self._settings.to_dict(),
            "backend": config.backend,
            "embedder": NO_EMBEDDER if self._embedder is None else self._embedder.name,
            "versions": {name: version(name) for name in packages},
        }

    def _summary(self, folder: RunFolder, actions: pa.Table, opened: pa.Table) -> RunSummary:
        """Give the numbers of a planning that came to its end."""
        counted = self._accounts.summary()
        events = Counter(actions["event"].to_pylist())
        return replace(
            self._so_far(folder, "stopped" if counted["stopped_by"] else "planned"),
            windows_failed=opened.num_rows,
            added=events["ADD"],
            updated=events["UPDATE"],
            deleted=events["DELETE"],
            none=events["NONE"],
        )

    def _so_far(self, folder: RunFolder, status: RunStatus) -> RunSummary:
        return RunSummary(
            run_id=folder.path.name,
            status=status,
            conversations=self._log.conversations,
            windows=self._cut,
            rejected_lines=len(self._log.rejects),
            wall_s=round(time.monotonic() - self._started, 3),
            model=self._models(),
            batch=self._batch,
            **self._accounts.summary(),
        )

    def _describe(self, folder: RunFolder) -> dict[str, Any]:
        """Describe the run as it is now, for its record; any thread may ask."""
        self._read_counts()
        progress = self._progress
        return {
            **self._so_far(folder, "running").to_dict(),
            **self._accounts.extras(),
            "stage": progress.stage,
            "windows_done": progress.done,
        }


def _ending(error: BaseException) -> dict[str, Any]:
    """What a record says of a planning that an error ended; foreign errors may quote anything."""
    if isinstance(error, KeyboardInterrupt):
        return {"status": "stopped", "error": "interrupted"}
    cause = getattr(error, "cause", None) or error  # Ray's own error quotes a whole traceback
    told = str(cause) if isinstance(cause, MemoryPipeError) else type(cause).__name__
    return {"status": "failed", "error": told}


def _check_all_back(stage: str, done: int, total: int) -> None:
    """A window that did not come back must never count as one without facts."""
    if done != total:
        raise MemoryPipeError(f"The {stage} gave back {done} of {total} windows; nothing is kept.")


def _lay_out(results: pa.Table, conversations: dict[str, str]) -> tuple[pa.Table, pa.Table]:
    """Lay scope results out as actions and open windows, sorted by scope."""
    actions: list[dict[str, Any]] = []
    opened: list[dict[str, Any]] = []
    for scope in results.to_pylist():
        named = {"scope": scope["scope"], "scope_key": scope["scope_key"]}
        actions += [{**action, **named} for action in scope["actions"]]
        opened += [
            {
                "scope_key": scope["scope_key"],
                "conversation_id": conversations[window["window_id"]],
                **window,
            }
            for window in scope["open_windows"]
        ]
    return (
        pa.Table.from_pylist(actions, schema=ACTIONS),
        pa.Table.from_pylist(opened, schema=OPEN_WINDOWS),
    )


def _reject_lines(log: ConversationLog) -> Iterator[dict[str, Any]]:
    return (asdict(reject) for reject in log.rejects)
