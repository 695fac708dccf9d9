"""What a command line lets a run delete."""

from collections.abc import Sequence
from typing import Any

import orjson

from memorypipe import ids
from memorypipe.cli.guard_options import BackfillOptions, CommitOptions
from memorypipe.cli.request_choice import parse_sample
from memorypipe.cli.values import parse_scope
from memorypipe.errors import InvalidArgumentError

__all__ = ["commit_settings", "guard_settings", "parse_max_retired", "parse_scope_keys"]


def commit_settings(options: CommitOptions) -> dict[str, Any]:
    """Give the keyword arguments of `MemoryPipeline.apply`, guards and all.

    Raises:
        InvalidArgumentError: As `guard_settings`, or for a word that is no share.
    """
    if options.seed is not None and options.sample is None:
        raise InvalidArgumentError("--seed needs --sample, e.g. --sample 5% --seed 1.")
    return {
        **guard_settings(options),
        "sample": parse_sample(options.sample),
        "seed": options.seed or 0,
    }


def guard_settings(options: BackfillOptions | CommitOptions) -> dict[str, Any]:
    """Give the keyword arguments of `MemoryPipeline.apply`.

    Raises:
        InvalidArgumentError: For a word that is no limit, or no scope.
    """
    return {
        "max_retired": parse_max_retired(options.max_retired),
        "accept_guards": parse_scope_keys(options.accept_guard or []),
        "commit_every": options.commit_every,
    }


def parse_max_retired(text: str) -> int | str | None:
    """Read how many memories of a scope may be deleted.

    Raises:
        InvalidArgumentError: For anything but a count, ``none`` and ``auto``.

    Example:
        >>> parse_max_retired("25"), parse_max_retired("none"), parse_max_retired("auto")
        (25, None, 'auto')
    """
    word = text.strip()
    if word.isascii() and word.isdecimal():
        return int(word)
    if word not in {"auto", "none"}:
        raise InvalidArgumentError(
            f"--max-retired must be a count such as 25, 'none' for no limit, or 'auto', got "
            f"{text!r}."
        )
    return None if word == "none" else word


def parse_scope_keys(words: Sequence[str]) -> tuple[str, ...]:
    """Read scopes, one a word: pairs with commas between them, or the key that a report shows.

    Raises:
        InvalidArgumentError: For a word that is neither.

    Example:
        >>> parse_scope_keys(["user_id=u1,agent_id=a", '[["user_id","u,2"]]'])
        ('[["agent_id","a"],["user_id","u1"]]', '[["user_id","u,2"]]')
    """
    return tuple(_scope_key(word.strip()) for word in words)


def _scope_key(word: str) -> str:
    if not word.startswith("["):
        return ids.scope_key(parse_scope(word.split(",")) or {})
    try:
        return ids.scope_key(dict(orjson.loads(word)))
    except (orjson.JSONDecodeError, TypeError, ValueError) as error:
        raise InvalidArgumentError(
            f"--accept-guard must be a scope such as user_id=u1, or its key such as "
            f'[["user_id","u1"]], got {word!r}.'
        ) from error
