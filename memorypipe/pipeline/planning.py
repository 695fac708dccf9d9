"""Planning: cut windows, extract facts, decide actions, and write all of it down."""

from collections import Counter
from collections.abc import Iterator
from dataclasses import asdict, replace
from importlib.metadata import version
from typing import Any

import pyarrow as pa

from memorypipe.errors import MemoryPipeError
from memorypipe.id_key import fingerprint
from memorypipe.llm.embed.resolve import NO_EMBEDDER
from memorypipe.llm.owner import Owner
from memorypipe.logs.read import ConversationLog
from memorypipe.pipeline.base_table import BaseTable
from memorypipe.pipeline.batch_folder import open_batches
from memorypipe.pipeline.by_scope import extract_and_decide
from memorypipe.pipeline.checking import Checker
from memorypipe.pipeline.cutting import cut_here, cut_windows
from memorypipe.pipeline.deciding import Decider, decide_actions
from memorypipe.pipeline.extraction import extract_facts
from memorypipe.pipeline.id_keys import key_of
from memorypipe.pipeline.on_ray import arrow_batches, asks_both, fits_here
from memorypipe.pipeline.planning_config import PlanConfig
from memorypipe.pipeline.plans.plan import Plan
from memorypipe.pipeline.recorded import RecordedPlanning
from memorypipe.pipeline.runs.accounting import call_totals, fact_totals
from memorypipe.pipeline.runs.folder import RunFolder
from memorypipe.pipeline.runs.identity import (
    WindowDigest,
    asked_of,
    changes,
    describe_stage,
    make_run_id,
)
from memorypipe.pipeline.runs.job_lock import check_alone, one_at_a_time
from memorypipe.pipeline.runs.request import RunRequest
from memorypipe.pipeline.scope_results import SCOPE_RESULTS, write_results
from memorypipe.pipeline.scopes.carrying import carried_columns
from memorypipe.pipeline.scopes.settings import ConsolidationSettings
from memorypipe.pipeline.scopes.text_vectors import settled_settings
from memorypipe.pipeline.sorting import Sorter
from memorypipe.pipeline.told_before import ToldBefore
from memorypipe.schema import FACTS, WINDOWS

__all__ = ["Planning"]

# In this order windows are written down, whatever the order in which they come.
_IN_ORDER = ("scope_key", "event_time", "conversation_id", "window_index", "window_id")

# Rows of one file, whole scopes: what memory holds while it is written. A row is a window with
# its transcript, a window with its facts, or a scope.
_PART_ROWS = {"windows": 4_096, "facts": 8_192, "results": 1_024}

# Where rows wait to be sorted, in the folder of the run.
_SORTING = ".sorting"

_PACKAGES = ("memorypipe", "ray", "pyarrow", "pylance")


class Planning(RecordedPlanning):
    """One planning, from the log to the files of its run.

    Args:
        config: Table, stages and settings.
        log: The conversations.
        request: What is asked of the run.
    """

    def __init__(self, config: PlanConfig, log: ConversationLog, request: RunRequest) -> None:
        super().__init__(config, config.extract, config.decide, first="windows")
        self._log = log
        self._request = request
        self._cut = self._extracted = self._decided = 0
        self._batch: dict[str, int] | None = None
        self._base = BaseTable.read(
            config.table_uri,
            request,
            embedder=config.embedder,
            backend=config.backend,
            id_key=config.id_key,
        )
        self._embedder = self._base.embedder
        self._settings = settled_settings(config.settings, self._embedder)
        self._base_version = self._base.version
        self._told: ToldBefore | None = None
        self._is_here = False
        self._is_one = False
        self._checker = Checker()

    def plan(self) -> Plan:
        """Plan, and write everything down."""
        try:
            folder = self._cut_windows()
            self._is_here = self._fits_here(self._cut)
            self._is_one = self._is_here and self._asks_both(self._cut)
            if self._cut:
                self._start_coordinator()
                self._accounts.begin(*(["extract", "decide"] if self._is_one else ["extract"]))
            return self._recorded(folder, lambda: self._work(folder))
        finally:
            self._checker.close()
            self._coordination.close()

    def _work(self, folder: RunFolder) -> Counter[str]:
        """Extract and decide the windows that were cut; count as `write_results`."""
        if self._cut:
            self._fill_journal(folder)
            if self._is_one:
                counts = self._extract_and_decide(folder)
            else:
                self._extract_facts(folder)
                counts = self._decide(folder)
        else:
            counts = write_results(folder, ())
        folder.write_lines("rejects", _reject_lines(self._log))
        return counts

    def _cut_windows(self) -> RunFolder:
        """Write the windows, and name the run after them."""
        settings = self._settings
        if (carried := self._request.carried) is not None:
            most = max(settings.overlap_messages, carried.overlap_messages)
            settings = replace(settings, overlap_messages=most)
        uri = self._config.table_uri
        rows = self._log.rows
        if rows is not None and self._asks_both(rows.num_rows):
            self._checker.expect(rows.num_rows)
        digest = WindowDigest()
        with RunFolder.scratch(uri) as scratch:
            sorter = Sorter(scratch.path / f"{_SORTING}-windows", WINDOWS, by=_IN_ORDER)
            for batch in self._windows(settings):
                digest.add(batch["window_id"])
                sorter.add(batch)
                self._cut += batch.num_rows
                if not self._fits_here(self._cut):
                    # It takes a second to come up, while the rest is cut and the workers start.
                    self._start_coordinator()
                self._report("windows", self._cut, None)
            _write_parts(scratch, "windows", sorter)
            run_id = self._request.run_id or make_run_id(
                windows=digest.value(),
                stages=self._stages(),
                settings=self._chosen(),
                base_version=self._base_version or 0,
            )
            runs, now = scratch.path.parent, self._config.clock()
            with one_at_a_time(runs):
                check_alone(scratch.parts("windows"), runs, run_id=run_id, now=now)
                return scratch.become(run_id, now=now)

    def _windows(self, settings: ConsolidationSettings) -> Iterator[pa.Table]:
        base, log = self._base, self._log
        how: dict[str, Any] = {
            "known_keys": base.known_keys,
            "erased": base.erased,
            "selection": self._request.selection,
            "id_key": base.id_key,
        }
        if log.rows is not None:
            return cut_here(log.rows, settings, **how)
        return arrow_batches(cut_windows(log.dataset, settings, **how))

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

    def _fits_here(self, windows: int) -> bool:
        """Tell whether this process asks both stages about so many windows itself."""
        config = self._config
        return all(fits_here(windows, stage) for stage in (config.extract, config.decide))

    def _asks_both(self, windows: int) -> bool:
        return asks_both(windows, self._config.extract, self._config.decide)

    def _start_coordinator(self) -> None:
        config = self._config
        self._coordination.start(config.extract, config.decide, here=self._is_here)

    def _extract_and_decide(self, folder: RunFolder) -> Counter[str]:
        """Do both at the same time."""
        self._report("extract", 0, self._cut)
        self._checker.expect(self._cut)
        facts, results = self._facts_sorter(folder), self._results_sorter(folder)
        for batch in extract_and_decide(
            folder.parts("windows"),
            self._coordination.join(self._config.extract),
            self._decider(),
            checker=self._checker,
            take_facts=lambda batch: self._take_facts(folder, facts, batch),
        ):
            self._take_results(results, batch)
        return self._write_results(folder, results)

    def _extract_facts(self, folder: RunFolder) -> None:
        self._report("extract", 0, self._cut)
        extract = self._coordination.join(self._config.extract)
        sorter = self._facts_sorter(folder)
        for batch in extract_facts(folder.parts("windows"), extract, here=self._is_here):
            self._take_facts(folder, sorter, batch)
        _check_all_back("extraction", self._extracted, self._cut)

    def _take_facts(self, folder: RunFolder, sorter: Sorter, facts: pa.Table) -> pa.Table:
        """Take facts in, and write all of them down when the last ones come."""
        taken = self._without_retold(facts)
        sorter.add(taken)
        self._accounts.add_rows("extract", fact_totals(facts))
        self._extracted += facts.num_rows
        self._report("extract", self._extracted, self._cut)
        if self._extracted == self._cut:
            _write_parts(folder, "facts", sorter)
            self._read_counts()
            self._report("decide", self._decided, self._cut)
        return taken

    def _facts_sorter(self, folder: RunFolder) -> Sorter:
        return Sorter(folder.path / f"{_SORTING}-facts", FACTS, by=_IN_ORDER)

    def _results_sorter(self, folder: RunFolder) -> Sorter:
        return Sorter(folder.path / f"{_SORTING}-results", SCOPE_RESULTS, by=["scope_key"])

    def _without_retold(self, facts: pa.Table) -> pa.Table:
        """Flag what messages that are taken again have told before."""
        if self._request.reprocess is None or self._base_version is None:
            return facts
        if self._told is None:
            self._told = ToldBefore.read(
                self._config.table_uri, self._base_version, key_of(self._base.id_key)
            )
        return self._told.mark(facts)

    def _decide(self, folder: RunFolder) -> Counter[str]:
        self._accounts.begin("decide")
        sorter = self._results_sorter(folder)
        for batch in decide_actions(folder.parts("facts"), self._decider(), here=self._is_here):
            self._take_results(sorter, batch)
        return self._write_results(folder, sorter)

    def _decider(self) -> Decider:
        config = self._config
        return Decider(
            decide=self._coordination.join(config.decide),
            settings=self._settings,
            table_uri=config.table_uri,
            base_version=self._base_version,
            embedder=self._embedder,
            owner=Owner.current(),
            carried=self._request.carried,
            id_key=self._base.id_key,
        )

    def _take_results(self, sorter: Sorter, results: pa.Table) -> None:
        sorter.add(results)
        totals = call_totals(call for calls in results["calls"].to_pylist() for call in calls)
        totals["fallback"] = sum(results["fallback"].to_pylist())
        totals.update(flag for flags in results["flags"].to_pylist() for flag in flags)
        self._accounts.add_rows("decide", totals)
        self._decided += sum(results["windows"].to_pylist())
        if self._extracted == self._cut:
            self._report("decide", self._decided, self._cut)

    def _write_results(self, folder: RunFolder, sorter: Sorter) -> Counter[str]:
        _check_all_back("consolidation", self._decided, self._cut)
        self._read_counts()
        counts = write_results(folder, sorter.groups(least_rows=_PART_ROWS["results"]))
        if self._request.carried is not None:
            actions = folder.read_table("actions")
            folder.write_table("actions", carried_columns(actions, self._request.carried))
        return counts

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
        return {**chosen, **self._request.to_dict()}

    def _asked(self) -> dict[str, Any]:
        return {"stages": self._stages(), "versions": self._versions()}

    def _models(self) -> str:
        stages = self._stages()
        return " + ".join(dict.fromkeys(stages[name]["model"] for name in ("extract", "decide")))

    def _manifest(self, run_id: str) -> dict[str, Any]:
        config = self._config
        return {
            "run_id": run_id,
            "planned_at": config.clock().isoformat(),
            "base_version": self._base_version or 0,
            "stages": self._stages(),
            "settings": self._settings.to_dict(),
            "request": self._request.to_dict(),
            "backend": config.backend,
            "embedder": NO_EMBEDDER if self._embedder is None else self._embedder.name,
            "id_key": fingerprint(key_of(self._base.id_key)),
            "versions": self._versions(),
        }

    def _versions(self) -> dict[str, str]:
        return {name: version(name) for name in _PACKAGES}

    def _about(self) -> dict[str, Any]:
        return {
            "conversations": self._log.conversations,
            "windows": self._cut,
            "rejected_lines": len(self._log.rejects),
            "model": self._models(),
            "batch": self._batch,
            "request": self._request.to_dict(),
            "undated": self._log.undated if self._request.selection.has_period else 0,
            "changed": changes(self._base.last_asked, asked_of(self._asked())),
        }


def _check_all_back(stage: str, done: int, total: int) -> None:
    """A window that did not come back must never count as one without facts."""
    if done != total:
        raise MemoryPipeError(f"The {stage} gave back {done} of {total} windows; nothing is kept.")


def _write_parts(folder: RunFolder, name: str, sorter: Sorter) -> None:
    for part, rows in enumerate(sorter.groups(least_rows=_PART_ROWS[name])):
        folder.write_part(name, part, rows)


def _reject_lines(log: ConversationLog) -> Iterator[dict[str, Any]]:
    return (asdict(reject) for reject in log.rejects)
