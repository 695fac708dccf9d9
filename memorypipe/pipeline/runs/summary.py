"""What a run did, in the numbers that users and schedulers read."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields
from typing import Any, Literal, Self

__all__ = ["RunStatus", "RunSummary"]

RunStatus = Literal["running", "planned", "done", "partial", "held", "stopped", "failed", "undone"]


@dataclass(frozen=True, kw_only=True)
class RunSummary:
    """The closing summary of a plan or a run.

    Attributes:
        run_id: The run.
        status: ``"planned"``: nothing is committed yet; ``"done"``; ``"partial"``: some windows
            failed, some lines were rejected, or only a sample was applied; ``"held"``: a
            conflict or a guard held scopes back; ``"stopped"``: a bound was reached, or it was
            interrupted; ``"failed"``: an error ended it; ``"running"``: it has not come to its
            end; ``"undone"``: an undo took it back, as the table tells and no record.
        conversations: Conversations in the log.
        windows: Windows with something new in them.
        windows_new: Of these, the ones that the journal did not answer, failed ones included.
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
        unsupported: Facts none of whose words stands in the messages that they name as sources;
            the `flags` of the run's facts say which.
        instructions: Facts that give the memory system orders, or rest on text that does; nobody
            was asked about them, and they changed nothing.
        unverified: Decisions that did not stand the checks, so that the fact became a memory of
            its own: the text had a number or name from nowhere, or the memory to change was
            another one's. Their `rationale` says why.
        tokens_in: Prompt tokens, failed attempts included.
        tokens_out: Completion tokens, likewise.
        cost: In the currency of the prices; None without prices.
        wall_s: Seconds from start to end.
        failures: How often each failure class occurred: attempts that failed, replies that could
            not be used, and tasks that a bound kept from being asked (``"BudgetError"``).
        model: The models, as the records name them.
        held_back: Scope key to the reason why nothing of it was committed.
        committed: Whether what was decided is in the table, or a sample of it.
        scopes: Scopes that the plan does something in; 0 where nobody has counted them, as
            nothing was committed.
        scopes_left: Of these, the ones that were not taken up, since only a sample was applied.
        stopped_by: What stopped the run: `bound` (its name; ``"coordinator"`` where nobody could
            keep the bounds any more), `limit` and `used` (None where not known) and `reason`;
            None where nothing did.
        latency_ms: `p50`, `p90`, `p99` and `max` of the attempts, waiting for limits not counted;
            empty where nothing was sent.
        waited_s: Seconds waited for each limit, added up over attempts.
        max_in_flight: The most requests at one time.
        stages: The numbers of each stage: `calls`, `attempts`, `journal_hits`, `failures`,
            `tokens_in`, `tokens_out`, `cost`, `latency_ms`, `waited_s`, `max_in_flight`.
        batch: What was asked in batches, which counts in none of the above but `journal_hits`:
            `batches`, `requests`, `answered`, `unusable`, `failed`, `expired`, `lost`, `ignored`,
            `prompt_tokens`, `completion_tokens`; None where nothing was to be.
        request: What was asked of the run, as of `memorypipe.pipeline.runs.request.RunRequest`.
        budget: What all runs of its budget have spent: `id`, `calls`, `tokens` and `cost`; None
            without a budget. While the run goes on, with what it has set aside.
        undated: Conversations that a period left out, since nothing dates them.
        changed: What has changed since the last run, as of
            `memorypipe.pipeline.runs.identity.changes`. It holds for the messages of this run
            alone.
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
    unsupported: int = 0
    instructions: int = 0
    unverified: int = 0
    tokens_in: int = 0
    tokens_out: int = 0
    cost: float | None = None
    wall_s: float = 0.0
    failures: Mapping[str, int] = field(default_factory=dict)
    model: str = ""
    held_back: Mapping[str, str] = field(default_factory=dict)
    committed: bool = False
    scopes: int = 0
    scopes_left: int = 0
    stopped_by: Mapping[str, Any] | None = None
    latency_ms: Mapping[str, float] = field(default_factory=dict)
    waited_s: Mapping[str, float] = field(default_factory=dict)
    max_in_flight: int = 0
    stages: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    batch: Mapping[str, int] | None = None
    request: Mapping[str, Any] = field(default_factory=dict)
    budget: Mapping[str, Any] | None = None
    undated: int = 0
    changed: Mapping[str, Sequence[str]] = field(default_factory=dict)

    @property
    def is_plan(self) -> bool:
        """Whether it came to its end and waits to be applied."""
        return self.status == "planned" or (self.status == "stopped" and not self.committed)

    @classmethod
    def from_dict(cls, record: Mapping[str, Any]) -> Self:
        """Read a run's record: what an older version did not write yet has its default.

        Args:
            record: As of `to_dict`; what else it holds is left out.
        """
        known = {each.name for each in fields(cls)}
        return cls(**{name: value for name, value in record.items() if name in known})

    def to_dict(self) -> dict[str, Any]:
        """Give the summary as JSON values."""
        return asdict(self)
