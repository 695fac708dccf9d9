"""What an audit found: counts, the scopes that have most of it, and examples."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Literal, get_args

__all__ = [
    "CHECKS",
    "JUNK_CHECKS",
    "ORPHAN_CHECKS",
    "AuditReport",
    "Check",
    "Example",
    "Finding",
]

Check = Literal[
    "duplicates",
    "near_duplicates",
    "contradictions",
    "unknown_run",
    "unknown_conversation",
    "unknown_source",
    "no_source",
    "no_time",
    "no_vector",
    "empty",
    "one_word",
    "question",
    "chatter",
    "transcript",
    "instruction",
    "forgotten",
    "large_scope",
]

CHECKS: tuple[Check, ...] = get_args(Check)
ORPHAN_CHECKS = frozenset({"unknown_run", "unknown_conversation", "unknown_source"})
JUNK_CHECKS = frozenset({"empty", "one_word", "question", "chatter", "transcript", "instruction"})


@dataclass(frozen=True, kw_only=True)
class Example:
    """One memory that a check is about.

    Attributes:
        scope_key: Its scope.
        memory_id: Its id.
        text: What it says, cut.
        other_id: The memory that it is compared with; None for checks of one memory.
        other_text: What that one says, cut.
    """

    scope_key: str
    memory_id: str
    text: str
    other_id: str | None = None
    other_text: str | None = None


@dataclass(frozen=True, kw_only=True)
class Finding:
    """What one check found.

    Attributes:
        check: Which one.
        count: Live memories concerned; of several that say the same, all but the first.
        share: Of all live memories, from 0 to 1.
        scopes: Scopes concerned.
        by_scope: Scope key to count, of the scopes with the highest counts.
        examples: Some of the memories.
    """

    check: Check
    count: int
    share: float
    scopes: int
    by_scope: Mapping[str, int]
    examples: tuple[Example, ...]


@dataclass(frozen=True, kw_only=True)
class AuditReport:
    """What an audit found in a table.

    Attributes:
        version: Of the table.
        memories: Live rows that were looked at.
        scopes: Scopes that have any.
        tombstones: Forgotten memories whose texts and sources are blocked.
        erased_scopes: Scopes that were erased and stay blocked.
        orphans: Memories that at least one of `ORPHAN_CHECKS` found.
        junk: Memories that at least one of `JUNK_CHECKS` found.
        findings: Check to what it found, all checks.
        unchecked: Check to why it was not made.
    """

    version: int
    memories: int
    scopes: int
    tombstones: int
    erased_scopes: int
    orphans: int
    junk: int
    findings: Mapping[Check, Finding]
    unchecked: Mapping[str, str] = field(default_factory=dict)

    @property
    def is_clean(self) -> bool:
        """Whether no check found anything."""
        return not any(finding.count for finding in self.findings.values())

    def to_dict(self) -> dict[str, Any]:
        """Give the report as JSON values."""
        return asdict(self)
