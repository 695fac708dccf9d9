"""How batches are cut and waited for, and with what they cannot go together."""

from dataclasses import dataclass

from memorypipe.errors import InvalidArgumentError
from memorypipe.llm.limits.control import Bounds
from memorypipe.llm.spec import OFFLINE_URL, ModelSpec

__all__ = ["MAX_FILE_BYTES", "MAX_FILE_REQUESTS", "BatchSettings", "check_batches"]

MAX_FILE_REQUESTS = 50_000
MAX_FILE_BYTES = 200_000_000


@dataclass(frozen=True, kw_only=True)
class BatchSettings:
    """How batches are cut and waited for.

    Attributes:
        max_requests: Requests in a file.
        max_bytes: Bytes of a file.
        first_poll_s: Wait before batches are asked after again; it grows.
        longest_poll_s: Up to this.
        max_refusals: How often a batch may find the provider's queue full while nothing of ours
            is in it.

    Raises:
        InvalidArgumentError: Where a value cannot work.
    """

    max_requests: int = MAX_FILE_REQUESTS
    max_bytes: int = MAX_FILE_BYTES
    first_poll_s: float = 5.0
    longest_poll_s: float = 60.0
    max_refusals: int = 30

    def __post_init__(self) -> None:
        for name in ("max_requests", "max_bytes", "first_poll_s", "longest_poll_s"):
            if getattr(self, name) <= 0:
                raise InvalidArgumentError(f"{name} must be above 0, got {getattr(self, name)!r}.")


def check_batches(spec: ModelSpec, bounds: Bounds) -> None:
    """Check that a run may use batches.

    Args:
        spec: Of the extraction.
        bounds: Of the run.

    Raises:
        InvalidArgumentError: For the rule-based model, and for bounds, which batches cannot keep:
            what is sent is sent.
    """
    if spec.base_url == OFFLINE_URL:
        raise InvalidArgumentError(
            "Batches (--batch-api) need an endpoint, given by --model and --base-url; the "
            "rule-based model has none."
        )
    if bounds != Bounds():
        raise InvalidArgumentError(
            "A bound (--max-calls, --max-total-tokens, --max-cost) cannot be kept with batches "
            "(--batch-api), which are sent whole. Leave one of them out, or take less of the log "
            "(--limit)."
        )
