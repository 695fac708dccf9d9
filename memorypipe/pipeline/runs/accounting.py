"""The accounts of a run: what came back row by row, and what its workers counted.

The rows of a stage tell what each of them cost. They can't tell what rows cost that never came
back, nor how often an attempt failed before one worked: a run whose workers have a coordinator
takes attempts, tokens and failures from there.
"""

import threading
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

import orjson
import pyarrow as pa
import pyarrow.compute as pc

from memorypipe.llm.limits.control import Bounds
from memorypipe.llm.metrics import difference, latencies, merge

__all__ = ["Accounts", "call_totals", "fact_totals", "stage_numbers"]

_GOOD = frozenset({"ok", "empty"})

# What a task ends with that was kept from being asked: no attempt failed.
_NEVER_SENT = frozenset({"BudgetError", "JournalMissError", "StoppedError"})

# Prefixes of counts: attempts that failed, and tasks that came to no good end.
_FAILED = "failure:"
_ENDED = "ended:"
_BOUNDED = f"{_ENDED}BudgetError"
_STOPPED = f"{_ENDED}StoppedError"

# What cannot be told of one of several stages at a time.
_UNKNOWN: dict[str, Any] = {"waited_s": None, "max_in_flight": None}

# Points of the requests in flight over time that a record keeps at most.
_MAX_POINTS = 500


@dataclass(kw_only=True)
class _Span:
    """Stages that went on at the same time, and where the workers' counts stood then.

    Attributes:
        rows: What came back, by stage.
        before: The last snapshot of each worker when it began.
        after: Likewise when it ended; None where no worker told.
        from_s: When it began, on the coordinator's clock.
        max_in_flight: The most requests in flight that the coordinator saw.
    """

    rows: Mapping[str, Counter[str]]
    before: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    after: Mapping[str, Mapping[str, Any]] | None = None
    from_s: float = 0.0
    max_in_flight: int = 0

    def counts(self) -> dict[str, Any] | None:
        """Merge what its workers counted; None where no worker told."""
        if self.after is None:
            return None
        parts = [
            difference(snapshot, self.before.get(worker, {}))
            for worker, snapshot in self.after.items()
            if snapshot != self.before.get(worker)
        ]
        counts = merge(parts)
        counts["max_in_flight"] = max(counts.get("max_in_flight", 0), self.max_in_flight)
        return counts

    def stages(self) -> dict[str, dict[str, Any] | None]:
        """Tell the counts of its stages apart; waits and requests in flight can't be told so."""
        counts = self.counts()
        if counts is None or len(self.rows) == 1:
            return dict.fromkeys(self.rows, counts)
        return {stage: counts.get("stages", {}).get(stage, {}) for stage in self.rows}


class Accounts:
    """Adds up what a run did, stage by stage; any thread may ask.

    Args:
        bounds: Where the run stops.
        has_prices: Whether a cost is known.
    """

    def __init__(self, *, bounds: Bounds, has_prices: bool) -> None:
        self._bounds = bounds
        self._has_prices = has_prices
        self._spans: list[_Span] = []
        self._told: Mapping[str, Any] = {}
        self._lock = threading.Lock()

    def begin(self, *stages: str) -> None:
        """Begin stages that go on at the same time: what is told from now on belongs to them."""
        with self._lock:
            span = _Span(
                rows={stage: Counter() for stage in stages},
                before=self._told.get("workers", {}),
                from_s=max((at_s for at_s, _ in self._told.get("in_flight", ())), default=-1.0),
            )
            self._spans.append(span)

    def add_rows(self, stage: str, totals: Counter[str]) -> None:
        """Add rows that came back in a stage under way, as `fact_totals` or `call_totals`."""
        with self._lock:
            self._spans[-1].rows[stage].update(totals)

    def told(self, totals: Mapping[str, Any]) -> None:
        """Take what the coordinator knows in.

        Args:
            totals: `workers` (the last snapshot of each), `in_flight` (pairs of seconds since the
                start and requests then), `calls`, `tokens`, `cost`; `bound` and `reason`, None
                where none is reached.
        """
        with self._lock:
            self._told = totals
            if not self._spans:
                return
            span = self._spans[-1]
            span.after = totals["workers"]
            since = [count for at_s, count in totals["in_flight"] if at_s > span.from_s]
            span.max_in_flight = max([span.max_in_flight, *since])

    def count(self, name: str) -> int:
        """Give a count of rows over all stages, e.g. ``"facts"``."""
        with self._lock:
            return sum(rows[name] for rows in self._rows().values())

    def summary(self) -> dict[str, Any]:
        """Give the fields of a `RunSummary` that calls decide, per stage and in total.

        How long was waited, and how many requests were in flight, is None for each of several
        stages that went on at the same time: it is told in total only.
        """
        with self._lock:
            stages = {name: Counter(rows) for name, rows in self._rows().items()}
            told = self._stage_counts()
            unknown = {
                name: _UNKNOWN if len(span.rows) > 1 else {}
                for span in self._spans
                for name in span.rows
            }
            known = [counts for span in self._spans if (counts := span.counts()) is not None]
            stopped_by = self._stopped_by()
        rows: Counter[str] = sum(stages.values(), Counter())
        # All stages of a run have a coordinator, or none has.
        totals = self._numbers(rows, merge(known) if known else None)
        return {
            **totals,
            "windows_new": rows["windows_new"],
            "facts": rows["facts"],
            "fallback": rows["fallback"],
            "unsupported": rows["unsupported"],
            "instructions": rows["instruction"],
            "unverified": rows["unverified"],
            "stopped_by": stopped_by,
            "stages": {
                name: {**self._numbers(rows, told[name]), **unknown[name]}
                for name, rows in stages.items()
            },
        }

    def extras(self) -> dict[str, Any]:
        """Give what a run's record holds beside its summary: values over time and in detail.

        Returns:
            `in_flight`: pairs of seconds and requests, at most 500; `paused`: why nothing is sent
            for a while, None where it is; `latency_buckets`: per stage,
            as of `memorypipe.llm.metrics`.
        """
        with self._lock:
            points = self._told.get("in_flight", ())
            counts = {name: each or {} for name, each in self._stage_counts().items()}
        return {
            "in_flight": list(_thinned(points)),
            "paused": self._told.get("paused"),
            "latency_buckets": {name: c.get("latency_ms", {}) for name, c in counts.items()},
            "latency_total_ms": {
                name: round(c.get("total_latency_ms", 0.0), 3) for name, c in counts.items()
            },
        }

    def _rows(self) -> dict[str, Counter[str]]:
        return {stage: rows for span in self._spans for stage, rows in span.rows.items()}

    def _stage_counts(self) -> dict[str, dict[str, Any] | None]:
        return {stage: counts for span in self._spans for stage, counts in span.stages().items()}

    def _numbers(self, rows: Counter[str], counts: Mapping[str, Any] | None) -> dict[str, Any]:
        return stage_numbers(rows, counts, has_prices=self._has_prices)

    def _stopped_by(self) -> dict[str, Any] | None:
        if self._told.get("interrupted") is not None:
            return None
        # Where the last call that was needed is the last one that was allowed, nothing is left.
        if not self._has_rows(_BOUNDED):
            return self._lost() if self._has_rows(_STOPPED) else None
        bound = self._told.get("bound")
        if bound is None:
            return self._untold()
        used = self._told.get(bound.removeprefix("max_"))  # of "failures" there is no measure
        return {
            "bound": bound,
            "limit": getattr(self._bounds, bound, None),
            "used": None if used is None else round(used, 6),
            "reason": self._told["reason"],
        }

    def _has_rows(self, name: str) -> bool:
        return any(rows[name] for rows in self._rows().values())

    def _lost(self) -> dict[str, Any]:
        return {
            "bound": "coordinator",
            "limit": None,
            "used": None,
            "reason": "The coordinator of the run could not be reached, so that nobody could keep "
            "the bounds of the run. What is left can be taken up later.",
        }

    def _untold(self) -> dict[str, Any]:
        """Say that a bound was reached of which the coordinator can tell no more."""
        limits = {name: bound for name, bound in asdict(self._bounds).items() if bound is not None}
        return {
            "bound": " or ".join(limits),
            "limit": next(iter(limits.values())) if len(limits) == 1 else None,
            "used": None,
            "reason": "A bound is reached; how much was used is not known, since the coordinator "
            "of the run could not be reached. What is left can be taken up later.",
        }


def stage_numbers(
    rows: Counter[str], counts: Mapping[str, Any] | None, *, has_prices: bool
) -> dict[str, Any]:
    """Put together what rows and workers tell of a stage.

    Args:
        rows: Sums over `fact_totals` or `call_totals`.
        counts: Merged snapshots of the workers; None where nobody collected them.
        has_prices: Whether a cost is known.
    """
    failures: Counter[str] = Counter(dict(_named(rows, _ENDED)))
    if counts is None:
        failures.update(dict(_named(rows, _FAILED)))
        told: Mapping[str, Any] = rows
    else:
        sent = {k: n for k, n in counts.get("failures", {}).items() if k not in _NEVER_SENT}
        failures.update(sent)
        told = counts
    return {
        "calls": rows["calls"],
        "attempts": told.get("attempts", 0),
        "journal_hits": rows["journal_hits"],
        "failures": dict(sorted(failures.items())),
        "tokens_in": told.get("tokens_in", 0),
        "tokens_out": told.get("tokens_out", 0),
        "cost": round(told.get("cost", 0.0), 6) if has_prices else None,
        "latency_ms": latencies(counts or {}),
        "waited_s": {k: round(s, 3) for k, s in sorted(told.get("waited_s", {}).items())},
        "max_in_flight": told.get("max_in_flight", 0),
    }


def _named(rows: Counter[str], prefix: str) -> Iterator[tuple[str, int]]:
    return (
        (name.removeprefix(prefix), n) for name, n in rows.items() if n and name.startswith(prefix)
    )


def fact_totals(facts: pa.Table) -> Counter[str]:
    """Add up one table of schema `memorypipe.schema.FACTS`."""
    totals: Counter[str] = Counter(
        windows=facts.num_rows,
        attempts=_sum(facts["attempts"]),
        journal_hits=_sum(facts["cached"]),
        tokens_in=_sum(facts["prompt_tokens"]),
        tokens_out=_sum(facts["completion_tokens"]),
    )
    totals["windows_new"] = facts.num_rows - totals["journal_hits"]
    for cell in facts["facts_json"].to_pylist():
        totals["facts"] += len(orjson.loads(cell)["memories"]) if cell else 0
    totals.update(each["flag"] for flags in facts["flags"].to_pylist() for each in flags or ())
    names = ("status", "error", "attempts", "cached")
    for row in zip(*(facts[name].to_pylist() for name in names), strict=True):
        status, error, attempts, cached = row
        totals["calls"] += attempts > 0 or cached
        if status == "llm_error":
            kind = _class(error)
            totals[f"{_ENDED if kind in _NEVER_SENT else _FAILED}{kind}"] += 1
        elif status not in _GOOD:
            totals[f"{_ENDED}{status}"] += 1
    return totals


def call_totals(calls: Iterable[str]) -> Counter[str]:
    """Add up the records of decision calls."""
    totals: Counter[str] = Counter()
    for call in map(orjson.loads, calls):
        totals["calls"] += call["attempts"] > 0 or call["cached"]
        totals["attempts"] += call["attempts"]
        totals["journal_hits"] += call["cached"]
        totals["tokens_in"] += call["prompt_tokens"]
        totals["tokens_out"] += call["completion_tokens"]
        for kind, count in call["failures"].items():
            totals[f"{_ENDED if kind in _NEVER_SENT else _FAILED}{kind}"] += count
        if call["status"] not in _GOOD | {"llm_error"}:
            totals[f"{_ENDED}{call['status']}"] += 1
    return totals


def _class(error: str | None) -> str:
    """Give the error class that a status' error begins with."""
    return (error or "error").partition(":")[0]


def _thinned(points: Sequence[tuple[float, int]]) -> Iterator[tuple[float, int]]:
    """Keep the greatest of neighbours, so that no more than `_MAX_POINTS` are left."""
    step = -(-len(points) // _MAX_POINTS) or 1
    for start in range(0, len(points), step):
        at_s, count = max(points[start : start + step], key=lambda point: point[1])
        yield round(at_s, 3), count


def _sum(column: Any) -> int:
    return int(pc.sum(pc.cast(column, pa.int64())).as_py() or 0)
