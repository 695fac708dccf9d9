"""`MemoryPipeline`: from conversation logs to committed memories."""

import time
from collections.abc import Callable
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import Any, Self

from memorypipe.errors import InvalidArgumentError
from memorypipe.expressions.build_action import MemoryBuildAction
from memorypipe.expressions.extract import MemoryExtract
from memorypipe.llm.offline import OFFLINE_MODEL
from memorypipe.llm.spec import OFFLINE_URL
from memorypipe.logs.read import ConversationLog, read_conversations
from memorypipe.pipeline.on_ray import own_errors
from memorypipe.pipeline.plan import Plan
from memorypipe.pipeline.planning import PlanConfig, Planning, Progress
from memorypipe.pipeline.run_folder import RunFolder
from memorypipe.pipeline.settings import ConsolidationSettings
from memorypipe.pipeline.summary import RunStatus, RunSummary
from memorypipe.rank import Lookup
from memorypipe.table.table import MemoryTable
from memorypipe.table.times import now_utc

__all__ = ["MemoryPipeline", "Progress"]


def _ignore(progress: Progress) -> None:
    """Report progress to nobody."""


def _absolute(table: str) -> str:
    """Give a local place as every worker finds it, whatever folder it runs in."""
    path = table.removeprefix("file://")
    if "://" in path:
        raise InvalidArgumentError(
            f"table must be a local folder, where the runs and the journal lie beside it, got "
            f"{table!r}."
        )
    return str(Path(path).absolute())


class MemoryPipeline:
    """Extracts, decides and commits the memories of conversation logs.

    Args:
        table: The memory table: a local folder, or its ``file://`` address.
        extract: How facts are extracted.
        decide: How facts are decided against existing memories.
        lookup: Which existing memories a decision sees.
        facts_per_call: Facts that one decision call takes at most.
        window_tokens: Budget of one extraction window, in estimated tokens.
        overlap_messages: Messages before a window that are shown with it as background.
        commit_fallback: Whether a fact without a valid decision becomes `decide`'s fallback
            action; else its window stays open for the next run.
        journal: Folder of the reply journal; None puts it beside the table. Expressions that
            have one of their own keep it.
        on_progress: Called with each step forward.
        clock: Gives the time of the run.

    Raises:
        InvalidArgumentError: Where a parameter cannot work.
    """

    def __init__(  # noqa: PLR0913  # one keyword per independent choice of a run
        self,
        *,
        table: str,
        extract: MemoryExtract,
        decide: MemoryBuildAction,
        lookup: Lookup | None = None,
        facts_per_call: int = 20,
        window_tokens: int = 2000,
        overlap_messages: int = 2,
        commit_fallback: bool = False,
        journal: str | None = None,
        on_progress: Callable[[Progress], None] = _ignore,
        clock: Callable[[], datetime] = now_utc,
    ) -> None:
        for name, value, kind in (
            ("extract", extract, MemoryExtract),
            ("decide", decide, MemoryBuildAction),
        ):
            if not isinstance(value, kind):
                raise InvalidArgumentError(
                    f"{name} must be a {kind.__name__}, got {type(value).__name__}."
                )
        self.table_uri = _absolute(str(table))
        journal = journal or str(Path(self.table_uri) / "journal")
        self._config = PlanConfig(
            table_uri=self.table_uri,
            extract=extract.journalled(journal),
            decide=decide.journalled(journal),
            settings=ConsolidationSettings(
                window_tokens=window_tokens,
                overlap_messages=overlap_messages,
                facts_per_call=facts_per_call,
                lookup=lookup or Lookup(),
                commit_fallback=commit_fallback,
            ),
            on_progress=on_progress,
            clock=clock,
        )

    @classmethod
    def offline(cls, table: str, **settings: Any) -> Self:
        """Make a pipeline with the rule-based model of the package: no key, no network.

        Args:
            table: As for the class.
            **settings: As for the class, without `extract` and `decide`. A decision sees all
                memories of its scope unless `lookup` says otherwise.
        """
        settings.setdefault("lookup", Lookup(strategy="all", max_memories=None))
        return cls(
            table=table,
            extract=MemoryExtract(base_url=OFFLINE_URL, model=OFFLINE_MODEL),
            decide=MemoryBuildAction(base_url=OFFLINE_URL, model=OFFLINE_MODEL),
            **settings,
        )

    def run(self, source: Any, **options: Any) -> RunSummary:
        """Plan and apply; arguments as of `plan`."""
        return self.apply(self.plan(source, **options))

    def plan(self, source: Any, *, run_id: str | None = None) -> Plan:
        """Do everything but the commit.

        Messages that a committed run has dealt with are left out. The same log, settings and
        table give the same plan under the same run id; what the journal knows is not paid again.

        Args:
            source: A `ConversationLog`, or what `read_conversations` takes.
            run_id: Names the run; None derives it from inputs, settings and base version.

        Returns:
            The plan, stored in `runs/<run_id>/` beside the table. No table is needed yet.

        Raises:
            EndpointError: If the endpoint cannot serve the run (wrong key, model or address).
            InvalidArgumentError: As `read_conversations`.
        """
        log = source if isinstance(source, ConversationLog) else read_conversations(source)
        with own_errors():
            return Planning(self._config, log, run_id).plan()

    def apply(self, plan: Plan) -> RunSummary:
        """Commit a plan in one atomic commit.

        A scope whose memories have changed since the plan was made is held back as a whole; the
        others land. A plan without any action and any message that is done commits nothing.

        Returns:
            The summary; its status is ``"held"`` where `held_back` lists scopes. Their messages
            stay open: the next run decides them anew.
        """
        started = time.monotonic()
        summary = plan.summary()
        actions, ledger = plan.actions(), plan.ledger()
        self._config.on_progress(Progress(stage="commit", done=0, total=summary.windows))
        folder = RunFolder.of(self.table_uri, plan.run_id)
        if actions.num_rows or ledger.num_rows:
            table = MemoryTable.open(self.table_uri, clock=self._config.clock)
            result = table.commit(
                actions,
                run_id=plan.run_id,
                base_version=plan.base_version,
                ledger=ledger,
                info=_run_info(summary),
                on_conflict="skip",
            )
            summary = replace(
                summary,
                added=result.added,
                updated=result.updated,
                deleted=result.deleted,
                none=result.none,
                held_back=dict(result.held_back),
            )
        incomplete = summary.windows_failed or summary.rejected_lines
        complete: RunStatus = "partial" if incomplete else "done"
        summary = replace(
            summary,
            status="held" if summary.held_back else complete,
            wall_s=round(summary.wall_s + time.monotonic() - started, 3),
        )
        folder.write_json("run", summary.to_dict())
        self._config.on_progress(
            Progress(stage="commit", done=summary.windows, total=summary.windows)
        )
        return summary


def _run_info(summary: RunSummary) -> dict[str, Any]:
    """What the table keeps of a run for good."""
    kept = ("windows", "windows_failed", "calls", "attempts", "tokens_in", "tokens_out", "cost")
    values = summary.to_dict()
    return {**{name: values[name] for name in kept}, "model": summary.model}
