"""What is asked of one run, from its options. Pure."""

from collections.abc import Sequence
from datetime import datetime
from typing import Any, Protocol

from memorypipe.cli.exit_codes import Threshold
from memorypipe.cli.values import parse_labels, parse_time, parse_where
from memorypipe.errors import InvalidArgumentError
from memorypipe.pipeline.runs.selection import Selection
from memorypipe.table.reprocess import Reprocess

__all__ = ["RequestOptions", "parse_sample", "request_arguments"]

# What `--where` may name beside pairs of the scope.
_PARTS = {"conversation": "conversation_id", "run": "run_id", "model": "model", "prompt": "prompt"}
_SCOPE_PREFIX = "scope."


class RequestOptions(Protocol):
    """The options that say what is asked of a run."""

    @property
    def since(self) -> str | None:
        """As the user wrote it, and so are all others."""
        ...

    @property
    def until(self) -> str | None: ...  # noqa: D102  # as above

    @property
    def sample(self) -> str | None: ...  # noqa: D102  # as above

    @property
    def seed(self) -> int | None: ...  # noqa: D102  # as above

    @property
    def reprocess(self) -> bool: ...  # noqa: D102  # as above

    @property
    def where(self) -> list[str] | None: ...  # noqa: D102  # as above

    @property
    def label(self) -> list[str] | None: ...  # noqa: D102  # as above


def request_arguments(options: RequestOptions) -> dict[str, Any]:
    """Give the arguments of `MemoryPipeline.plan` beside source and run id.

    Raises:
        InvalidArgumentError: For what cannot work.
    """
    return {
        "selection": _selection(options),
        "labels": parse_labels(options.label or []),
        "reprocess": _reprocess(options),
    }


def _selection(options: RequestOptions) -> Selection:
    if options.seed is not None and options.sample is None:
        raise InvalidArgumentError("--seed needs --sample, e.g. --sample 5% --seed 1.")
    return Selection(
        since=_time("--since", options.since),
        until=_time("--until", options.until),
        sample=parse_sample(options.sample),
        seed=options.seed or 0,
    )


def _time(option: str, text: str | None) -> datetime | None:
    if text is None:
        return None
    return parse_time(option, text)


def parse_sample(text: str | None) -> float | None:
    """Read a share of the scopes; None for none.

    Raises:
        InvalidArgumentError: For a word that is no share.

    Example:
        >>> parse_sample("0.5%")
        0.005
    """
    if text is None:
        return None
    share = Threshold.parse("--sample", text).share
    if share is None:
        raise InvalidArgumentError(
            f"--sample must be a share of the scopes, such as 0.5% or 0.005, got {text!r}; "
            "--limit takes a number of conversations."
        )
    return share


def _reprocess(options: RequestOptions) -> Reprocess | None:
    if options.reprocess:
        return _where(options.where or [])
    if options.where:
        raise InvalidArgumentError(
            "--where says what --reprocess takes again; give --reprocess too, or leave it out."
        )
    return None


def _where(pairs: Sequence[str]) -> Reprocess:
    chosen = parse_where(pairs)
    parts = {_PARTS[name]: value for name, value in chosen.items() if name in _PARTS}
    scope = {
        name.removeprefix(_SCOPE_PREFIX): value
        for name, value in chosen.items()
        if name not in _PARTS
    }
    return Reprocess(scope=scope, **parts)
