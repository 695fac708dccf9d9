"""Planning: cut windows, extract facts, decide actions, and write all of it down."""

import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from datetime import datetime
from importlib.metadata import version
from typing import Any, Literal

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import ray

from memorypipe.errors import MemoryPipeError, PlanError
from memorypipe.expressions.build_action import MemoryBuildAction
from memorypipe.expressions.extract import MemoryExtract
from memorypipe.logs.known import pack_keys
from memorypipe.logs.read import ConversationLog, windows
from memorypipe.pipeline.deciding import Decider, decide_actions
from memorypipe.pipeline.extraction import extract_facts
from memorypipe.pipeline.identity import WindowDigest, describe_stage, make_run_id
from memorypipe.pipeline.on_ray import arrow_batches
from memorypipe.pipeline.plan import Plan
from memorypipe.pipeline.run_folder import OPEN_WINDOWS, SCOPES, RunFolder
from memorypipe.pipeline.settings import ConsolidationSettings
from memorypipe.pipeline.summary import RunSummary, call_totals, fact_totals
from memorypipe.schema import ACTIONS
from memorypipe.table.table import MemoryTable

__all__ = ["PlanConfig", "Planning", "Progress"]

ProgressStage = Literal["windows", "extract", "decide", "commit"]


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
    """

    table_uri: str
    extract: MemoryExtract
    decide: MemoryBuildAction
    settings: ConsolidationSettings
    on_progress: Callable[[Progress], None]
    clock: Callable[[], datetime]


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
        self._totals: Counter[str] = Counter()
        uri = config.table_uri
        table = MemoryTable.open(uri, create=False) if MemoryTable.exists(uri) else None
        if table is not None and run_id in table.runs()["run_id"].to_pylist():
            raise PlanError(f"Run {run_id!r} is committed already; choose another run id.")
        self._base_version = table.version if table else None
        self._known_keys = [] if table is None else table.ledger_keys().to_pylist()

    def plan(self) -> Plan:
        """Plan, and write everything down."""
        folder = self._cut_windows()
        run_id = folder.path.name
        if self._totals["cut"]:
            self._extract_facts(folder)
            actions, opened = self._decide(folder)
        else:
            actions, opened = ACTIONS.empty_table(), OPEN_WINDOWS.empty_table()
        folder.write_table("actions", actions)
        folder.write_table("open", opened)
        folder.write_lines("rejects", _reject_lines(self._log))
        folder.write_json("manifest", self._manifest(run_id))
        folder.write_json("run", self._summary(run_id, actions, opened).to_dict())
        return Plan(self._config.table_uri, run_id)

    def _cut_windows(self) -> RunFolder:
        """Write the windows, and name the run after them."""
        settings = self._config.settings
        uri = self._config.table_uri
        dataset = windows(
            self._log.dataset,
            window_tokens=settings.window_tokens,
            overlap_messages=settings.overlap_messages,
            known_keys_ref=ray.put(pack_keys(self._known_keys)) if self._known_keys else None,
        )
        digest = WindowDigest()
        with RunFolder.scratch(uri) as scratch:
            for part, batch in enumerate(arrow_batches(dataset)):
                digest.add(batch["window_id"])
                scratch.write_part("windows", part, batch)
                self._totals["cut"] += batch.num_rows
                self._report("windows", self._totals["cut"], None)
            run_id = self._run_id or make_run_id(
                windows=digest.value(),
                stages=self._stages(),
                settings=settings.to_dict(),
                base_version=self._base_version or 0,
            )
            return scratch.become(run_id)

    def _extract_facts(self, folder: RunFolder) -> None:
        done, total = 0, self._totals["cut"]
        self._report("extract", done, total)
        cut = folder.parts("windows")
        for part, facts in enumerate(extract_facts(cut, self._config.extract)):
            folder.write_part("facts", part, facts)
            self._totals += fact_totals(facts)
            done += facts.num_rows
            self._report("extract", done, total)
        _check_all_back("extraction", done, total)

    def _decide(self, folder: RunFolder) -> tuple[pa.Table, pa.Table]:
        config = self._config
        decider = Decider(
            decide=config.decide,
            settings=config.settings,
            table_uri=config.table_uri,
            base_version=self._base_version,
        )
        facts = folder.parts("facts")
        self._report("decide", 0, self._totals["cut"])
        names = ["scope_key", "window_id", "conversation_id"]
        cut = pa.concat_tables([pq.read_table(part, columns=names) for part in facts])
        windows_of = Counter(cut["scope_key"].to_pylist())
        results, done = [], 0
        for batch in decide_actions(facts, decider):
            results.append(batch)
            self._totals += call_totals(c for calls in batch["calls"].to_pylist() for c in calls)
            self._totals["fallback"] += sum(batch["fallback"].to_pylist())
            done += sum(windows_of[scope_key] for scope_key in batch["scope_key"].to_pylist())
            self._report("decide", done, self._totals["cut"])
        _check_all_back("consolidation", done, self._totals["cut"])
        scopes = pa.concat_tables(results).sort_by("scope_key")
        chains = [scopes["scope_key"], pc.list_value_length(scopes["calls"]).cast(pa.int64())]
        folder.write_table("scopes", pa.table(chains, schema=SCOPES))
        window_ids = cut["window_id"].to_pylist()
        return _lay_out(
            scopes, dict(zip(window_ids, cut["conversation_id"].to_pylist(), strict=True))
        )

    def _report(self, stage: ProgressStage, done: int, total: int | None) -> None:
        self._config.on_progress(Progress(stage=stage, done=done, total=total))

    def _stages(self) -> dict[str, Any]:
        config = self._config
        return {
            "extract": describe_stage(config.extract),
            "decide": describe_stage(config.decide),
        }

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
            "settings": config.settings.to_dict(),
            "versions": {name: version(name) for name in packages},
        }

    def _summary(self, run_id: str, actions: pa.Table, opened: pa.Table) -> RunSummary:
        totals, events = self._totals, Counter(actions["event"].to_pylist())
        prefix = "failure:"
        return RunSummary(
            run_id=run_id,
            status="planned",
            conversations=self._log.conversations,
            windows=totals["cut"],
            windows_new=totals["windows_new"],
            windows_failed=opened.num_rows,
            rejected_lines=len(self._log.rejects),
            calls=totals["calls"],
            attempts=totals["attempts"],
            journal_hits=totals["journal_hits"],
            facts=totals["facts"],
            added=events["ADD"],
            updated=events["UPDATE"],
            deleted=events["DELETE"],
            none=events["NONE"],
            fallback=totals["fallback"],
            tokens_in=totals["tokens_in"],
            tokens_out=totals["tokens_out"],
            wall_s=round(time.monotonic() - self._started, 3),
            failures={
                key.removeprefix(prefix): count
                for key, count in sorted(totals.items())
                if key.startswith(prefix) and count
            },
            model=self._models(),
        )


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
