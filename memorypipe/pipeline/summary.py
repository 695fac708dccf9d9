"""What a run did, in the numbers that users and schedulers read."""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Literal

import orjson
import pyarrow as pa
import pyarrow.compute as pc

__all__ = ["RunStatus", "RunSummary", "call_totals", "fact_totals"]

RunStatus = Literal["planned", "done", "partial", "held", "failed"]


@dataclass(frozen=True, kw_only=True)
class RunSummary:
    """The closing summary of a plan or a run.

    Attributes:
        run_id: The run.
        status: ``"planned"``: nothing is committed yet; ``"done"``; ``"partial"``: some windows
            failed or some lines were rejected; ``"held"``: a conflict held scopes back.
        conversations: Conversations in the log.
        windows: Windows with something new in them.
        windows_new: Of these, the ones that were not answered from the journal.
        windows_failed: Windows that stay open for the next run.
        rejected_lines: Log lines that could not be read.
        calls: Requests that were needed, the journal's included.
        attempts: Requests that were sent.
        journal_hits: Rows and decisions that the journal answered.
        facts: Facts extracted.
        added: Memories added.
        updated: Memories updated.
        deleted: Memories deleted.
        none: Facts that changed nothing.
        fallback: Facts that became the fallback action.
        tokens_in: Prompt tokens, failed attempts included.
        tokens_out: Completion tokens, likewise.
        cost: In the currency of the prices; None without prices.
        wall_s: Seconds from start to end.
        failures: How often each failure class occurred.
        model: The models, as the records name them.
        held_back: Scope key to the reason why nothing of it was committed.
    """

    run_id: str
    status: RunStatus
    conversations: int = 0
    windows: int = 0
    windows_new: int = 0
    windows_failed: int = 0
    rejected_lines: int = 0
    calls: int = 0
    attempts: int = 0
    journal_hits: int = 0
    facts: int = 0
    added: int = 0
    updated: int = 0
    deleted: int = 0
    none: int = 0
    fallback: int = 0
    tokens_in: int = 0
    tokens_out: int = 0
    cost: float | None = None
    wall_s: float = 0.0
    failures: Mapping[str, int] = field(default_factory=dict)
    model: str = ""
    held_back: Mapping[str, str] = field(default_factory=dict)

    def to_dict(self) -> dict[str, Any]:
        """Give the summary as JSON values."""
        return asdict(self)


def fact_totals(facts: pa.Table) -> Counter[str]:
    """Add up one table of schema `memorypipe.schema.FACTS`."""
    asked = pc.or_(pc.greater(facts["attempts"], 0), facts["cached"])
    totals: Counter[str] = Counter(
        windows=facts.num_rows,
        calls=_sum(asked),
        attempts=_sum(facts["attempts"]),
        journal_hits=_sum(facts["cached"]),
        windows_new=facts.num_rows - _sum(facts["cached"]),
        tokens_in=_sum(facts["prompt_tokens"]),
        tokens_out=_sum(facts["completion_tokens"]),
    )
    for cell in facts["facts_json"].to_pylist():
        totals["facts"] += len(orjson.loads(cell)["memories"]) if cell else 0
    for status in facts["status"].to_pylist():
        totals[f"failure:{status}"] += status not in {"ok", "empty"}
    return totals


def call_totals(calls: Iterable[str]) -> Counter[str]:
    """Add up the records of decision calls."""
    totals: Counter[str] = Counter()
    for call in map(orjson.loads, calls):
        totals["calls"] += 1
        totals["attempts"] += call["attempts"]
        totals["journal_hits"] += call["cached"]
        totals["tokens_in"] += call["prompt_tokens"]
        totals["tokens_out"] += call["completion_tokens"]
        for kind, count in call["failures"].items():
            totals[f"failure:{kind}"] += count
    return totals


def _sum(column: Any) -> int:
    return int(pc.sum(pc.cast(column, pa.int64())).as_py() or 0)
