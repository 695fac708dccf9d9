"""What shapes a run's result, apart from model and table."""

from dataclasses import asdict, dataclass, field
from typing import Any

from memorypipe.errors import InvalidArgumentError
from memorypipe.rank.lookup import Lookup

__all__ = ["ConsolidationSettings"]


@dataclass(frozen=True, kw_only=True)
class ConsolidationSettings:
    """How windows are cut and facts are decided.

    Attributes:
        window_tokens: Budget of one window, in estimated tokens.
        overlap_messages: Messages before a window that are shown with it as background.
        facts_per_call: Facts that one decision call takes at most.
        lookup: Which existing memories a decision sees.
        commit_fallback: True lets a fact without a valid decision become the fallback action of
            `decide`; False leaves its window open for the next run.

    Raises:
        InvalidArgumentError: Where a value cannot work.
    """

    window_tokens: int = 2000
    overlap_messages: int = 2
    facts_per_call: int = 20
    lookup: Lookup = field(default_factory=Lookup)
    commit_fallback: bool = False

    def __post_init__(self) -> None:
        _at_least("window_tokens", self.window_tokens, 1)
        _at_least("overlap_messages", self.overlap_messages, 0)
        _at_least("facts_per_call", self.facts_per_call, 1)

    def to_dict(self) -> dict[str, Any]:
        """Give the settings as JSON values, for the run id and the manifest."""
        return asdict(self)


def _at_least(name: str, value: object, least: int) -> None:
    if not isinstance(value, int) or isinstance(value, bool) or value < least:
        raise InvalidArgumentError(f"{name} must be an integer of at least {least}, got {value!r}.")
