"""What makes two runs the same run: equal inputs, settings and base version."""

from collections.abc import Mapping
from typing import Any

import pyarrow as pa

from memorypipe import ids
from memorypipe.expressions.llm_base import LLMExpression

__all__ = ["WindowDigest", "asked_of", "changes", "describe_stage", "make_run_id"]

_MODULUS = 1 << 128


class WindowDigest:
    """Hash of a set of windows, whatever their order and blocks."""

    def __init__(self) -> None:
        self._sum = 0
        self._count = 0

    def add(self, window_ids: pa.ChunkedArray) -> None:
        """Take the windows of a block in."""
        for window_id in window_ids.to_pylist():
            self._sum = (self._sum + int.from_bytes(ids.digest(window_id))) % _MODULUS
        self._count += len(window_ids)

    def value(self) -> str:
        """Give the hash of all windows so far."""
        return f"{self._count}-{self._sum:032x}"


def describe_stage(expression: LLMExpression[Any, Any]) -> dict[str, Any]:
    """Describe how a stage asks: what can change a reply, and nothing secret.

    Limits, journal and time-outs are left out: they change no reply. Of fields that may hold a
    secret a hash stands for the value.
    """
    spec = expression.spec
    params = {k: v for k, v in spec.params.items() if k not in {"timeout", "extra_headers"}}
    for name in {"extra_query", "extra_body"} & set(params):
        params[name] = ids.digest(params[name]).hex()
    return {
        "endpoint": spec.endpoint,
        "model": spec.model,
        "params": params,
        "repeat_key": spec.repeat_key,
        "prompt_hash": expression.prompt_hash,
    }


def make_run_id(
    *, windows: str, stages: Mapping[str, Any], settings: Mapping[str, Any], base_version: int
) -> str:
    """Derive the id of a run, so that a run that was killed is taken up under its own name."""
    return "run_" + ids.digest(windows, stages, settings, base_version, size=12).hex()


def asked_of(manifest: Mapping[str, Any]) -> dict[str, str]:
    """Say who was asked, and how: what a later run is compared with.

    Args:
        manifest: With `stages`, each as of `describe_stage`, and `versions`.

    Returns:
        `extract_model`, `extract_prompt` (a hash), `decide_model`, `decide_prompt`, `library`.
    """
    told = {
        f"{stage}_{name}": str(manifest["stages"][stage][field])
        for stage in ("extract", "decide")
        for name, field in (("model", "model"), ("prompt", "prompt_hash"))
    }
    return {**told, "library": str(manifest["versions"]["memorypipe"])}


def changes(before: Mapping[str, str] | None, now: Mapping[str, str]) -> dict[str, list[str]]:
    """Say what has changed since the last run, which messages that it dealt with do not see.

    Args:
        before: `asked_of` the last run; None where there is none.
        now: Of this one.

    Returns:
        What has changed, by its name: how it was, and how it is.

    Example:
        >>> changes({"extract_model": "a", "library": "1"}, {"extract_model": "b", "library": "1"})
        {'extract_model': ['a', 'b']}
    """
    return {
        name: [before[name], value]
        for name, value in now.items()
        if before and before.get(name, value) != value
    }
