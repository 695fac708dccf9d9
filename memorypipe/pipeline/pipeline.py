"""`MemoryPipeline`: from conversation logs to committed memories."""

from collections.abc import Callable, Collection, Mapping
from datetime import datetime
from pathlib import Path
from typing import Any, Self

from memorypipe.errors import InvalidArgumentError
from memorypipe.expressions.build_action import MemoryBuildAction
from memorypipe.expressions.extract import MemoryExtract
from memorypipe.id_key import IdKeySource, check_id_key_source
from memorypipe.llm.batch.settings import BatchSettings, check_batches
from memorypipe.llm.embed.types import Embedder
from memorypipe.llm.spec import OFFLINE_MODEL, OFFLINE_URL
from memorypipe.llm.tokens import TokenCounter
from memorypipe.logs.read import ConversationLog, read_conversations
from memorypipe.logs.redact import Redact
from memorypipe.pipeline.committing import CommitScope
from memorypipe.pipeline.estimates.estimate import Estimate
from memorypipe.pipeline.estimates.estimating import EstimateSettings, Estimating
from memorypipe.pipeline.here import spared_collector
from memorypipe.pipeline.on_ray import own_errors
from memorypipe.pipeline.planning import Planning
from memorypipe.pipeline.planning_config import PlanConfig, Progress
from memorypipe.pipeline.plans.apply import apply_plan
from memorypipe.pipeline.plans.plan import Plan
from memorypipe.pipeline.reconsolidating import Reconsolidation
from memorypipe.pipeline.runs.bounds import make_bounds
from memorypipe.pipeline.runs.budget import check_budget
from memorypipe.pipeline.runs.folder import RunFolder
from memorypipe.pipeline.runs.request import RunRequest
from memorypipe.pipeline.runs.selection import Selection
from memorypipe.pipeline.runs.summary import RunSummary
from memorypipe.pipeline.scopes.carrying import Carried
from memorypipe.pipeline.scopes.settings import ConsolidationSettings
from memorypipe.rank.lookup import Lookup
from memorypipe.table.backends import check_backend
from memorypipe.table.guards import MaxRetired
from memorypipe.table.reprocess import Reprocess
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
        journal: Address of the reply journal, a folder or ``s3://bucket/prefix`` say; None puts
            it beside the table. Expressions that have one of their own keep it.
        max_calls: Requests that a planning sends at most; None for no bound. At a bound the run
            stops cleanly: what was decided can be applied, the rest stays open, and the next run
            pays for that only.
        max_tokens: Prompt and completion tokens together, likewise.
        max_cost: In the currency of the prices that the expressions have, likewise.
        budget: Names what these three bound: all runs of this budget together, restarts too. What
            they have spent is kept beside the table. None: each run alone.
        batch: Asks the extraction through the provider's Batch API, at its lower price and within
            a day, cut and waited for as this says; None asks at once. What a batch fails to
            answer is asked at once after it.
        embedder: Makes the vectors of the memories: ``"wordllama"``, ``"none"``, or an embedder,
            as `EndpointEmbedder`. None for the table's own where it needs no address, and for a
            new table ``"wordllama"`` where the extra ``embed`` is installed, else ``"none"``.
        backend: How a new table is stored, ``"lance"`` or ``"parquet"``; None for what the table
            has, or its plan says, or ``"lance"``.
        mirror: A folder that commits keep as plain Parquet, as for `MemoryTable.open`.
        id_key: Where the key of ids and hashes comes from, as for `MemoryTable.open`; workers must
            find it there too.
        redact: Gives for a list of texts what may be seen of them, as for `read_conversations`;
            applied to every source before anything else sees it. A `ConversationLog` must have
            been read with a function of its own then.
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
        max_calls: int | None = None,
        max_tokens: int | None = None,
        max_cost: float | None = None,
        budget: str | None = None,
        batch: BatchSettings | None = None,
        embedder: str | Embedder | None = None,
        backend: str | None = None,
        mirror: str | None = None,
        id_key: IdKeySource | None = None,
        redact: Redact | None = None,
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
        self.redact = redact
        self.clock = clock
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
            bounds=make_bounds(
                max_calls=max_calls,
                max_tokens=max_tokens,
                max_cost=max_cost,
                specs=(extract.spec, decide.spec),
            ),
            budget=check_budget(budget, with_batches=batch is not None),
            batch=batch,
            embedder=embedder,
            backend=check_backend(backend),
            mirror=mirror,
            id_key=check_id_key_source(id_key),
        )

        if batch is not None:
            check_batches(self._config.extract.spec, self._config.bounds)

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

    def run(  # noqa: PLR0913  # one keyword per independent choice of a run
        self,
        source: Any,
        *,
        run_id: str | None = None,
        selection: Selection | None = None,
        labels: Mapping[str, str] | None = None,
        reprocess: Reprocess | None = None,
        commit_every: int | None = None,
        max_retired: MaxRetired = "auto",
        accept_guards: Collection[str] = (),
    ) -> RunSummary:
        """Plan and apply; arguments as of `plan` and `apply`."""
        plan = self.plan(
            source, run_id=run_id, selection=selection, labels=labels, reprocess=reprocess
        )
        return self.apply(
            plan, commit_every=commit_every, max_retired=max_retired, accept_guards=accept_guards
        )

    def plan(  # noqa: PLR0913  # as above
        self,
        source: Any,
        *,
        run_id: str | None = None,
        selection: Selection | None = None,
        labels: Mapping[str, str] | None = None,
        reprocess: Reprocess | None = None,
        carried: Carried | None = None,
        has_revisions: bool = True,
    ) -> Plan:
        """Do everything but the commit.

        Messages that a committed run has dealt with are left out. The same log, settings and
        table give the same plan under the same run id; what the journal knows is not paid again.

        Args:
            source: A `ConversationLog`, or what `read_conversations` takes.
            run_id: Names the run; None derives it from inputs, settings and base version.
            selection: Takes a period or a sample of the log; None: all of it.
            labels: For the run, and for every revision that it writes.
            reprocess: Takes messages again that committed runs have dealt with, as this model and
                prompt see them; None: none. A fact that the table has had from the same message
                is not decided again, so nothing doubles.
            carried: What goes with the memories of single conversations: metadata, labels, and
                when revisions expire. None: nothing.
            has_revisions: Whether what the run supersedes is kept, as for `MemoryTable.commit`.

        Returns:
            The plan, stored in `runs/<run_id>/` beside the table. No table is needed yet.

        Raises:
            EndpointError: If the endpoint cannot serve the run (wrong key, model or address).
            TableError: If the table's embedder needs an address, and none was given.
            InvalidArgumentError: As `read_conversations`; or for another embedder than the
                table's.
        """
        request = RunRequest(
            run_id=run_id,
            selection=selection or Selection(),
            labels=labels or {},
            reprocess=reprocess,
            carried=carried,
            has_revisions=has_revisions,
        )
        if run_id is not None:
            RunFolder.of(self.table_uri, run_id)  # refuses a name that cannot be one
        with spared_collector(), own_errors():
            log = self._read(source, request.selection)
            return Planning(self._config, log, request).plan()

    def _read(self, source: Any, selection: Selection) -> ConversationLog:
        if not isinstance(source, ConversationLog):
            return read_conversations(source, redact=self.redact, wants_scope=selection.takes_scope)
        if self.redact is not None and not source.is_redacted:
            raise InvalidArgumentError(
                "This pipeline redacts, and the log was read without that; read it with "
                "read_conversations(…, redact=…), or give its path."
            )
        return source

    def consolidate(
        self,
        *,
        scope: Mapping[str, Any] | None = None,
        again: bool = False,
        run_id: str | None = None,
    ) -> Plan:
        """Plan to decide again over what is in the table: duplicates and contradictions.

        What says the same in nearly the same words becomes one memory without a question. Of
        memories that may have to do with each other the later one is decided against the earlier
        ones, as a fact of a log is: the newest says what holds. Of two that become one the
        earlier keeps its id and has the messages of both. Nothing is committed; `apply` commits
        the plan, and `MemoryTable.undo` takes it back.

        Memories that a committed run has compared are not paid again until one of them changes
        or another one comes to have to do with them.

        Args:
            scope: Only this scope, matched exactly; None: all.
            again: Whether they are compared again all the same.
            run_id: Names the run; None derives it from memories, settings and version.

        Raises:
            TableNotFoundError: If there is no table.
            EndpointError: If the endpoint cannot serve the run (wrong key, model or address).
            InvalidArgumentError: For a scope that cannot be, or another embedder than the table's.
            PlanError: If the run is committed already, or under way.
        """
        if run_id is not None:
            RunFolder.of(self.table_uri, run_id)  # refuses a name that cannot be one
        with own_errors():
            return Reconsolidation(self._config, scope=scope, again=again, run_id=run_id).plan()

    def cancel_batches(self, run_id: str) -> list[str]:
        """Cancel the batches of a run that was interrupted; what they answered is kept.

        Returns:
            The provider's names of the batches that were cancelled.

        Raises:
            EndpointError: If the endpoint does not let us.
        """
        from memorypipe.pipeline.batch_extraction import cancel_run  # noqa: PLC0415  # imports the client library

        return cancel_run(self._config.extract, table_uri=self.table_uri, run_id=run_id)

    def estimate(  # noqa: PLR0913  # one keyword per independent choice of an estimate
        self,
        source: Any,
        *,
        calibrate: int = 0,
        count_tokens: TokenCounter | None = None,
        latency_ms: float | None = None,
        selection: Selection | None = None,
        reprocess: Reprocess | None = None,
    ) -> Estimate:
        """Say what `plan` would take in calls, tokens, money and time, without making it.

        Windows are cut and extraction requests are made exactly as `plan` does; messages that a
        committed run has dealt with are left out, and what the journal knows costs nothing. What
        the model will say is assumed, or measured.

        Args:
            source: A `ConversationLog`, or what `read_conversations` takes.
            calibrate: Calls to make, four in five of them extractions, which the run then takes
                from the journal; what they show replaces what is assumed. 0: no call, no
                connection.
            count_tokens: Counts the tokens of a text; None takes the model's own tokenizer where
                it is known and the extra ``tokenizers`` is installed, else
                `memorypipe.llm.tokens.estimate_tokens`.
            latency_ms: Milliseconds that a call takes; None takes what is measured, or 2 s and
                20 ms per completion token.
            selection: As for `plan`.
            reprocess: As for `plan`.

        Raises:
            EndpointError: If the endpoint cannot serve the calls of a calibration.
            ModelError: If no call of a calibration gave anything.
            InvalidArgumentError: As `read_conversations`, or for a parameter that cannot work.
        """
        settings = EstimateSettings(
            calibrate=calibrate, count_tokens=count_tokens, latency_ms=latency_ms
        )
        request = RunRequest(selection=selection or Selection(), reprocess=reprocess)
        log = self._read(source, request.selection)
        with own_errors():
            return Estimating(self._config, log, settings, request).estimate()

    def apply(  # noqa: PLR0913  # one keyword per independent choice of a commit
        self,
        plan: Plan,
        *,
        sample: float | None = None,
        seed: int = 0,
        commit_every: int | None = None,
        max_retired: MaxRetired = "auto",
        accept_guards: Collection[str] = (),
    ) -> RunSummary:
        """Commit a plan, in one atomic commit or in several under one run id.

        A scope whose memories have changed since the plan was made is held back as a whole, and
        so is one of which too much would be deleted; the others land. A plan without any action
        and any message that is done commits nothing.

        Args:
            plan: What to commit. Applied again, it commits what is left: of a sample, after a
                kill between two commits, or because a guard now lets it through. Nothing lands
                twice; `MemoryTable.undo` takes all commits of the run back together.
            sample: Share of the scopes to commit, whole ones, e.g. 0.05; None: all.
            seed: Which ones: the same seed gives the same scopes, in every plan and log, and a
                smaller sample lies within a larger one.
            commit_every: Scopes of one commit; None: all in one.
            max_retired: Most memories of a scope that the run may delete; ``"auto"``: 10, or half
                of the live ones where that is more; None: all.
            accept_guards: Keys of scopes, as `held_back` has them, in which it may delete as many
                as it likes.

        Returns:
            The summary; its status is ``"held"`` where `held_back` lists scopes. Their messages
            stay open: the next run decides them anew. `scopes_left` counts those that a sample
            left out.

        Raises:
            InvalidArgumentError: For a parameter that cannot work, or part of an import.
        """
        return apply_plan(
            plan,
            self._config,
            scope=CommitScope(sample=sample, seed=seed, commit_every=commit_every),
            max_retired=max_retired,
            accept_guards=accept_guards,
        )
