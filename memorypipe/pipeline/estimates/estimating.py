"""Estimating: count the windows of a run, make a few calls where wanted, rehearse its decisions."""

import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from memorypipe.errors import InvalidArgumentError
from memorypipe.llm.tokens import RequestCounter, TokenCounter
from memorypipe.logs.read import ConversationLog
from memorypipe.pipeline.cutting import cut_windows
from memorypipe.pipeline.estimates.behaviour import (
    Behaviours,
    assumed,
    measure_decisions,
    measure_extractions,
)
from memorypipe.pipeline.estimates.calibration import (
    Spent,
    calibrate_decisions,
    calibrate_extractions,
    share_out,
)
from memorypipe.pipeline.estimates.counting import count_windows
from memorypipe.pipeline.estimates.decisions import GroupModel, Rehearsal, fit_groups
from memorypipe.pipeline.estimates.estimate import Counts, Estimate, Stage, put_together
from memorypipe.pipeline.estimates.known import KnownScopes, decide_known
from memorypipe.pipeline.estimates.samples import (
    arrange,
    real_windows,
    staged,
    stand_in_windows,
)
from memorypipe.pipeline.estimates.tally import Scopes, WindowTally, fact_count
from memorypipe.pipeline.id_keys import id_key_to_plan
from memorypipe.pipeline.on_ray import asks_both
from memorypipe.pipeline.planning_config import PlanConfig
from memorypipe.pipeline.runs.request import RunRequest
from memorypipe.pipeline.scopes.consolidate import WindowFacts
from memorypipe.pipeline.scopes.text_vectors import local_embedder
from memorypipe.table.table import MemoryTable

__all__ = ["EstimateSettings", "Estimating"]

# Windows whose decisions are rehearsed, where nothing is measured.
_REHEARSED = 80

# Calls that a rehearsed scope has: what is decided again goes from one into the next.
_REHEARSED_CALLS = 4
# So many replies tell more of a model than what is assumed of it.
_TELLING = 20
_SEED = 0
_KEYS_AT_A_TIME = 10_000


@dataclass(frozen=True, kw_only=True)
class EstimateSettings:
    """How a run is estimated.

    Attributes:
        calibrate: Calls to make, in order to measure the model.
        count_tokens: Counts the tokens of a text; None takes what is best for the model.
        latency_ms: Milliseconds that a call takes; None takes what is measured, or 2 s and 20 ms
            per completion token.

    Raises:
        InvalidArgumentError: Where a value cannot work.
    """

    calibrate: int = 0
    count_tokens: TokenCounter | None = None
    latency_ms: float | None = None

    def __post_init__(self) -> None:
        calls = self.calibrate
        if not isinstance(calls, int) or isinstance(calls, bool) or calls < 0:
            raise InvalidArgumentError(f"calibrate must be a whole number from 0, got {calls!r}.")
        if self.count_tokens is not None and not callable(self.count_tokens):
            raise InvalidArgumentError(
                "count_tokens must be a function from a text to its tokens, or None, got "
                f"{self.count_tokens!r}."
            )
        latency_ms = self.latency_ms
        number = isinstance(latency_ms, int | float) and not isinstance(latency_ms, bool)
        if latency_ms is not None and not (number and 0 <= latency_ms < float("inf")):
            raise InvalidArgumentError(
                f"latency_ms must be a number from 0, or None, got {latency_ms!r}."
            )


class Estimating:
    """One estimate, from the log to its numbers. Nothing but calibration calls the model.

    Args:
        config: Table, stages and settings of the run.
        log: The conversations.
        settings: How it is estimated.
        request: What is asked of the run.
    """

    def __init__(
        self,
        config: PlanConfig,
        log: ConversationLog,
        settings: EstimateSettings,
        request: RunRequest,
    ) -> None:
        self._config = config
        self._request = request
        self._log = log
        self._settings = settings
        self._counter = RequestCounter(config.decide.spec.model, settings.count_tokens)
        uri = config.table_uri
        exists, key = MemoryTable.exists(uri), config.id_key
        self._table = MemoryTable.open(uri, create=False, id_key=key) if exists else None
        self._embedder = local_embedder(config.embedder, self._table)
        self._tally = WindowTally(sample_size=max(settings.calibrate, _REHEARSED))
        self._spent = Spent()
        self._decisions_measured = False

    def estimate(self) -> Estimate:
        """Count, measure, rehearse, and put it all together."""
        with tempfile.TemporaryDirectory(prefix="memorypipe-estimate-") as scratch:
            folder = Path(scratch)
            self._count(folder)
            behaviours = self._behaviours(folder)
            scopes = self._tally.scopes()
            model = self._rehearse(scopes, behaviours)
            known = self._decide_known(folder, scopes, behaviours)
        return put_together(
            self._counts(scopes, known),
            model,
            behaviours,
            extract=self._stage("extract"),
            decide=self._stage("decide"),
            is_one=asks_both(self._tally.windows, self._config.extract, self._config.decide),
            conversations=self._log.conversations,
            windows=self._tally.windows,
            rejected_lines=len(self._log.rejects),
            journal_hits=self._tally.journal_hits(),
            tokenizer=self._counter.name,
            measured_calls=len(self._tally.measured) if self._is_measured else 0,
            spent=self._priced(self._spent),
        )

    @property
    def _is_measured(self) -> bool:
        return bool(self._spent.calls) or len(self._tally.measured) >= _TELLING

    def _stage(self, name: str) -> Stage:
        expression = getattr(self._config, name)
        return Stage(spec=expression.spec, workers=expression.worker_options.num_workers)

    def _priced(self, spent: Spent) -> Spent:
        prices = self._config.extract.spec.prices
        if prices is None:
            return spent
        return replace(spent, cost=prices.cost(spent.tokens_in, spent.tokens_out))

    def _count(self, folder: Path) -> None:
        keys = []
        if self._table is not None:
            keys = self._table.ledger_keys(reprocess=self._request.reprocess).to_pylist()
        erased = () if self._table is None else self._table.settings.erased
        id_key = id_key_to_plan(self._config.id_key, self._table)
        windows = cut_windows(
            self._log.dataset,
            self._config.settings,
            known_keys=keys,
            erased=erased,
            selection=self._request.selection,
            id_key=id_key,
        )
        counted = count_windows(
            windows,
            self._config.extract,
            count_tokens=self._settings.count_tokens,
            sample=self._tally.sample_size,
        )
        for part, batch in enumerate(counted):
            self._keep(folder, f"counted-{part:06d}", self._tally.add(batch))

    def _keep(self, folder: Path, name: str, facts: pa.Table) -> None:
        """Write facts that are known to the disk; most runs have none."""
        if facts.num_rows:
            pq.write_table(facts, folder / f"{name}.parquet")

    def _behaviours(self, folder: Path) -> Behaviours:
        behaviours = assumed()
        if self._settings.calibrate and self._tally.sampled.num_rows:
            behaviours = self._calibrate(folder, behaviours)
        elif self._is_measured:
            behaviours = measure_extractions(behaviours, self._tally.measured, seed=_SEED)
        if self._settings.latency_ms is not None:
            seconds = self._settings.latency_ms / 1e3
            behaviours = behaviours.change(
                latency_s=seconds, decide_latency_s=None, latency_per_token_s=0.0
            )
        return behaviours

    def _calibrate(self, folder: Path, behaviours: Behaviours) -> Behaviours:
        tally, config = self._tally, self._config
        extractions, decisions = share_out(self._settings.calibrate)
        windows = tally.sampled.slice(0, extractions)
        made = calibrate_extractions(windows, tally.sample_numbers(), config.extract, folder)
        asked = self._config.decide
        decided, spent = calibrate_decisions(
            made.facts,
            asked,
            calls=decisions,
            facts_per_call=config.settings.facts_per_call,
        )
        rows = made.facts.to_pylist()
        tally.learn({row["window_id"]: fact_count(row["facts_json"]) for row in rows})
        tally.measured.extend(made.calls)
        tally.known.extend(rows)
        self._keep(folder, "calibrated", made.facts)
        self._spent = Spent(
            calls=made.attempts + spent.calls,
            tokens_in=made.tokens_in + spent.tokens_in,
            tokens_out=made.tokens_out + spent.tokens_out,
        )
        behaviours = measure_extractions(behaviours, tally.measured, seed=_SEED)
        return measure_decisions(behaviours, decided, seed=_SEED) if decided else behaviours

    def _rehearse(self, scopes: Scopes, behaviours: Behaviours) -> GroupModel:
        """Rehearse the decisions of some windows, put together as the scopes of the run are."""
        rate = behaviours.mid.facts_per_1000_tokens
        windows = self._rehearsed_windows(rate)
        facts = scopes.known_facts + rate / 1e3 * scopes.unknown_tokens
        add_share = behaviours.mid.add_share
        rehearsal = Rehearsal(
            self._config.decide,
            self._config.settings,
            self._counter,
            add_share=add_share,
            embedder=self._embedder,
        )
        scopes_played = arrange(
            windows,
            facts[~scopes.is_known],
            least_facts=_REHEARSED_CALLS * self._config.settings.facts_per_call,
        )
        played = [rehearsal.scope("", group, memories) for group, memories in staged(scopes_played)]
        return fit_groups(played, self._config.settings, add_share=add_share)

    def _rehearsed_windows(self, rate: float) -> list[list[WindowFacts]]:
        if self._is_measured:
            return real_windows(self._tally.known[:_REHEARSED])
        return stand_in_windows(self._tally.sampled.to_pylist()[:_REHEARSED], rate)

    def _decide_known(
        self, folder: Path, scopes: Scopes, behaviours: Behaviours
    ) -> dict[str, tuple[int, int, int]]:
        """Rehearse the scopes all of whose facts are known, as they are."""
        keys = {key for key, known in zip(scopes.keys, scopes.is_known, strict=True) if known}
        parts = sorted(str(path) for path in folder.glob("c*.parquet"))
        parts = [part for part in parts if not part.endswith("calibration.parquet")]
        if not keys or not parts:
            return {}
        known = KnownScopes(
            decide=self._config.decide,
            settings=self._config.settings,
            table_uri=self._config.table_uri,
            base_version=None if self._table is None else self._table.version,
            count_tokens=self._settings.count_tokens,
            add_share=behaviours.mid.add_share,
            keys=frozenset(keys),
            embedder=self._embedder,
        )
        return decide_known(parts, known)

    def _counts(self, scopes: Scopes, known: dict[str, tuple[int, int, int]]) -> Counts:
        calls, prompt_tokens, new_tokens = self._tally.unpaid()
        open_ = ~scopes.is_known
        keys = [key for key, is_open in zip(scopes.keys, open_, strict=True) if is_open]
        sums = np.array([*known.values(), (0, 0, 0)], dtype=np.float64)
        return Counts(
            calls_extract=calls,
            prompt_tokens=prompt_tokens,
            new_tokens=new_tokens,
            known_facts=float(scopes.known_facts.sum()),
            sure=(float(sums[:, 0].sum()), float(sums[:, 1].sum()), float(sums[:, 2].sum())),
            sure_longest=float(sums[:, 0].max()),
            scopes=(
                scopes.unknown_tokens[open_].astype(np.float64),
                scopes.known_facts[open_].astype(np.float64),
                np.array([*self._memories(keys)], dtype=np.float64),
            ),
        )

    def _memories(self, scope_keys: Sequence[str]) -> Iterator[int]:
        """Count the memories that scopes have before the run."""
        for start in range(0, len(scope_keys), _KEYS_AT_A_TIME):
            keys = scope_keys[start : start + _KEYS_AT_A_TIME]
            counts: dict[str, int] = {}
            if self._table is not None:
                rows = self._table.read_scopes(keys, ["scope_key"])
                counted = rows["scope_key"].value_counts().to_pylist()
                counts = {row["values"]: row["counts"] for row in counted}
            yield from (counts.get(key, 0) for key in keys)
