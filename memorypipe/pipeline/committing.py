"""The commit of a plan: at once, a sample of its scopes, or so many scopes at a time.

Each commit is a part of the run. Its run row says by two places, as of
`memorypipe.pipeline.runs.scope_places`, which scopes it took up, so that the next call finds out
of the table alone what is left: after a kill, after a sample, or where a guard now lets a scope
through.
"""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import orjson
import pyarrow as pa

from memorypipe.errors import InvalidArgumentError
from memorypipe.pipeline.runs.scope_places import PLACES, places_below, scope_places
from memorypipe.table.erasing.erased import erased_run_name
from memorypipe.table.guards import GUARD_PREFIX, MaxRetired
from memorypipe.table.table import MemoryTable
from memorypipe.table.transaction import CommitResult, Outcome

__all__ = ["CommitScope", "Committed", "commit_plan", "left_to_commit"]

# The first that any part had is that of the whole.
_OUTCOMES: tuple[Outcome, ...] = ("landed", "already_landed", "nothing")
_COUNTS = ("added", "updated", "deleted", "none", "duplicates", "blocked")


@dataclass(frozen=True, kw_only=True)
class CommitScope:
    """How much of a plan is committed, and how much at a time.

    Attributes:
        sample: Share of the scopes, more than 0 and at most 1; None: all.
        seed: Which ones: the same seed gives the same scopes, and a smaller sample lies within a
            larger one.
        commit_every: Scopes of one commit; None: all in one.

    Raises:
        InvalidArgumentError: For a number that cannot be.
    """

    sample: float | None = None
    seed: int = 0
    commit_every: int | None = None

    def __post_init__(self) -> None:
        if self.sample is not None:
            places_below(self.sample)
        every = self.commit_every
        if every is not None and (isinstance(every, bool) or every < 1):
            raise InvalidArgumentError(f"commit_every must be 1 or more scopes, got {every!r}.")

    @property
    def end(self) -> int:
        """The place at which the sample ends."""
        return PLACES if self.sample is None else places_below(self.sample)


@dataclass(frozen=True, kw_only=True)
class Committed:
    """What has become of a plan so far.

    Attributes:
        result: Of all its parts together; `version` is that of the last one.
        scopes: Scopes that were taken up, the ones that were held back included.
        of: Scopes of the plan.
    """

    result: CommitResult
    scopes: int
    of: int


@dataclass(frozen=True, kw_only=True)
class _Range:
    """Which scopes a part took up, of those that no earlier one had.

    Attributes:
        seed: Of the places.
        start: Place of the first one.
        end: The place before which they end.
        again: Whether it took up those that a guard had held back, and no others.
    """

    seed: int = 0
    start: int = 0
    end: int = PLACES
    again: bool = False

    @classmethod
    def of(cls, info: str) -> "_Range":
        told = orjson.loads(info).get("scopes", {})
        names = {"seed": "seed", "from": "start", "to": "end", "again": "again"}
        return cls(**{names[name]: value for name, value in told.items()})

    def told(self) -> dict[str, Any]:
        """Give what the run row keeps of it; a part that takes up all needs to say nothing."""
        if (self.start, self.end) == (0, PLACES):
            return {}
        told = {"seed": self.seed, "from": self.start, "to": self.end}
        return {"scopes": {**told, "again": True} if self.again else told}


class _Rows:
    """The actions and the ledger of a plan, by scope."""

    def __init__(self, actions: pa.Table, ledger: pa.Table) -> None:
        self._tables = (actions, ledger)
        columns = [*actions["scope_key"].chunks, *ledger["scope_key"].chunks]
        encoded = pa.chunked_array(columns, pa.string()).combine_chunks().dictionary_encode()
        self.keys: list[str] = encoded.dictionary.to_pylist()
        numbers = np.asarray(encoded.indices)
        self._numbers = (numbers[: actions.num_rows], numbers[actions.num_rows :])
        self._places: dict[int, Any] = {}

    def places(self, seed: int) -> Any:
        if seed not in self._places:
            self._places[seed] = scope_places(self.keys, seed)
        return self._places[seed]

    def within(self, part: _Range) -> Any:
        """Tell which scopes a range holds (numpy, by number of the scope)."""
        places = self.places(part.seed)
        return (places >= part.start) & (places < part.end)

    def of(self, chosen: Any) -> tuple[pa.Table, pa.Table]:
        """Give the actions and ledger rows of some scopes."""
        if chosen.all():
            return self._tables
        actions, ledger = (
            table.filter(pa.array(chosen[numbers]))
            for table, numbers in zip(self._tables, self._numbers, strict=True)
        )
        return actions, ledger


@dataclass(kw_only=True)
class _Run:
    """One call of `commit_plan`.

    Attributes:
        commit: Commits actions and ledger rows as a part of the run, with this told of it.
        rows: Of the plan.
        open: Scopes that no part has settled (numpy).
        results: Of the parts so far.
        guarded: Numbers of the scopes that a guard held back, with the reason.
        held_back: Scopes that something else held back.
        info: What the first part tells of the run.
        next_part: The first number that no part has.
    """

    commit: Callable[..., CommitResult]
    rows: _Rows
    info: Mapping[str, Any]
    open: Any
    results: list[CommitResult] = field(default_factory=list)
    guarded: dict[int, str] = field(default_factory=dict)
    held_back: dict[str, str] = field(default_factory=dict)
    next_part: int = 0

    def take(self, part: int, chosen: Any, told: Mapping[str, Any]) -> CommitResult:
        """Commit a part, or hear what became of it."""
        actions, ledger = self.rows.of(chosen)
        info = {**(self.info if part == 0 else {}), **told}
        result = self.commit(actions, ledger=ledger, part=part, info=info)
        if result.outcome != "nothing":
            self.next_part = max(self.next_part, part + 1)
        self.open &= ~chosen
        for number in np.flatnonzero(chosen).tolist():
            self.guarded.pop(number, None)
            reason = result.held_back.get(self.rows.keys[number])
            if reason is not None and reason.startswith(GUARD_PREFIX):
                self.guarded[number] = reason
            elif reason is not None:
                self.held_back[self.rows.keys[number]] = reason
        self.results.append(result)
        return result

    def repeat(self, part: int, which: _Range) -> None:
        """Go through a part that is in the table."""
        wanted = self.open
        if which.again:
            wanted = np.zeros_like(self.open)
            wanted[list(self.guarded)] = True
        self.take(part, wanted & self.rows.within(which), {})

    def retry_guarded(self, allowed: _Range) -> None:
        """Let each scope that a guard held back try again, so that it lands once."""
        within = self.rows.within(allowed)
        for number in sorted(self.guarded, key=self.rows.keys.__getitem__):
            if within[number]:
                chosen = np.zeros(len(within), bool)
                chosen[number] = True
                place = int(self.rows.places(allowed.seed)[number])
                alone = _Range(seed=allowed.seed, start=place, end=place + 1, again=True)
                self.take(self.next_part, chosen, alone.told())


def commit_plan(  # noqa: PLR0913  # one keyword per independent choice of a commit
    table: MemoryTable,
    actions: pa.Table,
    ledger: pa.Table,
    *,
    run_id: str,
    base_version: int,
    info: Mapping[str, Any],
    max_retired: MaxRetired,
    accept_guards: Collection[str],
    labels: Mapping[str, str] | None = None,
    has_revisions: bool = True,
    scope: CommitScope | None = None,
    on_part: Callable[[int, int], None] | None = None,
) -> Committed:
    """Commit what is not committed yet of a plan, and what a guard held back and now lets through.

    Args:
        table: The table.
        actions: Of the plan.
        ledger: Of the plan.
        run_id: As for `MemoryTable.commit`, and so are all others up to `labels`.
        base_version: The version that it was decided against.
        info: For the first run row.
        max_retired: Most memories of a scope that may be deleted.
        accept_guards: Keys of scopes without a limit.
        labels: For the run rows and every new revision.
        has_revisions: Whether what it supersedes is kept.
        scope: How much, and how much at a time; None: everything at once.
        on_part: Called with the scopes that were taken up and those to take up, after each commit.

    Raises:
        RunConflictError: If this run is in the table with other actions.
    """
    scope = scope or CommitScope()

    def commit(actions: pa.Table, **part: Any) -> CommitResult:
        return table.commit(
            actions,
            run_id=run_id,
            base_version=base_version,
            on_conflict="skip",
            max_retired=max_retired,
            accept_guards=accept_guards,
            labels=labels,
            revisions=has_revisions,
            **part,
        )

    rows = _Rows(actions, ledger)
    run = _Run(commit=commit, rows=rows, info=info, open=np.ones(len(rows.keys), bool))
    allowed = _Range(seed=scope.seed, end=scope.end)
    for part, which in _landed(table, run_id):
        run.repeat(part, which)
    run.retry_guarded(allowed)
    todo = run.open & rows.within(allowed)
    total, left = int(todo.sum()), int(todo.sum())
    for which in _cut(rows.places(scope.seed)[todo], scope, is_rest=bool(run.results)):
        chosen = todo & rows.within(which)
        run.take(run.next_part, chosen, which.told())
        left -= int(chosen.sum())
        if on_part is not None:
            on_part(total - left, total)
    held_back = run.held_back | {rows.keys[each]: why for each, why in run.guarded.items()}
    return Committed(
        result=_added_up(run.results, held_back, table),
        scopes=len(rows.keys) - int(run.open.sum()),
        of=len(rows.keys),
    )


def left_to_commit(table: MemoryTable, run_id: str, scope_keys: Sequence[str]) -> list[str]:
    """Find the scopes that no commit of a run has taken up.

    Args:
        table: The table.
        run_id: The run.
        scope_keys: The scopes of its plan.
    """
    taken = np.zeros(len(scope_keys), bool)
    for _, which in _landed(table, run_id):
        places = scope_places(scope_keys, which.seed)
        taken |= (places >= which.start) & (places < which.end)
    return [key for key, is_taken in zip(scope_keys, taken, strict=True) if not is_taken]


def _landed(table: MemoryTable, run_id: str) -> list[tuple[int, _Range]]:
    """Find the parts of a run that are in the table, in their order."""
    runs = table.runs().select(["run_id", "part", "info"]).to_pylist()
    names = {run_id, erased_run_name(run_id)}
    own = sorted((run["part"], run["info"]) for run in runs if run["run_id"] in names)
    return [(part, _Range.of(info)) for part, info in own]


def _cut(places: Any, scope: CommitScope, *, is_rest: bool) -> Iterator[_Range]:
    """Cut scopes that are to be committed into ranges, given their places (numpy)."""
    if not len(places):
        if not is_rest:
            yield _Range(seed=scope.seed, end=scope.end)
        return
    ordered = np.sort(places)
    every = scope.commit_every or len(ordered)
    # A cut at a place keeps scopes of one place together.
    cuts = sorted({int(ordered[n]) for n in range(every, len(ordered), every)} - {0})
    starts, ends = [0, *cuts], [*cuts, scope.end]
    for start, end in zip(starts, ends, strict=True):
        yield _Range(seed=scope.seed, start=start, end=end)


def _added_up(
    results: Sequence[CommitResult], held_back: Mapping[str, str], table: MemoryTable
) -> CommitResult:
    counts = {name: sum(getattr(each, name) for each in results) for name in _COUNTS}
    renamed = {old: new for each in results for old, new in each.ids.items()}
    outcomes = {"nothing", *(each.outcome for each in results)}
    return CommitResult(
        outcome=min(outcomes, key=_OUTCOMES.index),
        version=max((each.version for each in results), default=table.version),
        ids=renamed,
        held_back=dict(held_back),
        **counts,
    )
