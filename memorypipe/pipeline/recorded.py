"""What every planning does beside its work: it keeps a record of itself, and comes to its end."""

import time
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any

from memorypipe.errors import MemoryPipeError
from memorypipe.expressions.llm_base import LLMExpression
from memorypipe.pipeline.planning_config import PlanConfig, Progress, ProgressStage
from memorypipe.pipeline.plans.plan import Plan
from memorypipe.pipeline.runs.accounting import Accounts
from memorypipe.pipeline.runs.coordination import Coordination
from memorypipe.pipeline.runs.folder import RunFolder
from memorypipe.pipeline.runs.interrupts import drained_first
from memorypipe.pipeline.runs.record import Heartbeat, RunRecord
from memorypipe.pipeline.runs.summary import RunStatus, RunSummary
from memorypipe.table.run_status import EVERY_S

__all__ = ["RecordedPlanning"]


class RecordedPlanning(ABC):
    """One planning: its accounts, its coordinator and its record.

    Args:
        config: Table and settings.
        stages: The expressions that it asks.
        first: The stage that it begins with.
    """

    def __init__(
        self, config: PlanConfig, *stages: LLMExpression[Any, Any], first: ProgressStage
    ) -> None:
        self._config = config
        self._started = time.monotonic()
        self._progress = Progress(stage=first, done=0, total=None)
        has_prices = any(each.spec.prices is not None for each in stages)
        self._accounts = Accounts(bounds=config.bounds, has_prices=has_prices)
        self._coordination = Coordination.of(config.table_uri, config.bounds, config.budget)

    @abstractmethod
    def _about(self) -> Mapping[str, Any]:
        """Give what the summary says beside the accounts; any thread may ask."""

    @abstractmethod
    def _manifest(self, run_id: str) -> Mapping[str, Any]:
        """Describe what ran."""

    def _recorded(self, folder: RunFolder, work: Callable[[], Counter[str]]) -> Plan:
        """Do the work, and write down how it goes and what came of it.

        Args:
            folder: Of the run.
            work: Counts as `memorypipe.pipeline.scope_results.write_results`.
        """
        record = RunRecord(folder, lambda: self._describe(folder), clock=self._config.clock)
        try:
            record.write()
            beat = Heartbeat(record.write, every_s=EVERY_S)
            with beat, drained_first(self._coordination.drain):
                counts = work()
        except BaseException as error:
            record.write(**_ending(error))
            raise
        folder.write_json("manifest", self._manifest(folder.path.name))
        record.write(**self._summary(folder, counts).to_dict())
        return Plan(self._config.table_uri, folder.path.name)

    def _report(self, stage: ProgressStage, done: int, total: int | None) -> None:
        self._progress = Progress(stage=stage, done=done, total=total)
        self._config.on_progress(self._progress)

    def _read_counts(self) -> None:
        if (counted := self._coordination.totals()) is not None:
            self._accounts.told(counted)

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

    def _summary(self, folder: RunFolder, counts: Counter[str]) -> RunSummary:
        """Give the numbers of a planning that came to its end."""
        self._coordination.settle()
        return self._so_far(
            folder,
            "stopped" if self._accounts.summary()["stopped_by"] else "planned",
            windows_failed=counts["open"],
            added=counts["ADD"],
            updated=counts["UPDATE"],
            deleted=counts["DELETE"],
            none=counts["NONE"],
        )

    def _so_far(self, folder: RunFolder, status: RunStatus, **counts: Any) -> RunSummary:
        return RunSummary(
            run_id=folder.path.name,
            status=status,
            wall_s=round(time.monotonic() - self._started, 3),
            budget=self._coordination.budget(),
            **self._about(),
            **self._accounts.summary(),
            **counts,
        )


def _ending(error: BaseException) -> dict[str, Any]:
    """What a record says of a planning that an error ended; foreign errors may quote anything."""
    if isinstance(error, KeyboardInterrupt):
        return {"status": "stopped", "error": "interrupted"}
    cause = getattr(error, "cause", None) or error  # Ray's own error quotes a whole traceback
    told = str(cause) if isinstance(cause, MemoryPipeError) else type(cause).__name__
    return {"status": "failed", "error": told}
