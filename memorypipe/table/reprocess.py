"""Which messages that committed runs have dealt with are taken again."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import orjson
import pyarrow as pa
import pyarrow.compute as pc

from memorypipe.errors import InvalidArgumentError
from memorypipe.table.ledger import LEDGER_KEY, read_ledger
from memorypipe.table.records import RunRecord
from memorypipe.table.undone import reopened_numbers

__all__ = ["MIN_PROMPT_DIGITS", "Reprocess", "keys_left"]

MIN_PROMPT_DIGITS = 6
"""Of a prompt's hash so many digits must be given, so that it means one prompt."""

_KEY_TYPE = "V16"


@dataclass(frozen=True, kw_only=True)
class Reprocess:
    """What is taken again; all that is given must hold, and nothing given means everything.

    A message that several runs have dealt with counts as that of the last one.

    Attributes:
        scope: Pairs that its scope has; there may be others.
        conversation_id: Of its conversation.
        run_id: Of the run.
        model: That the run has asked in either stage.
        prompt: Hash of a prompt of the run, or the beginning of one.

    Raises:
        InvalidArgumentError: For a blank value, or too short a beginning.
    """

    scope: Mapping[str, str] = field(default_factory=dict)
    conversation_id: str | None = None
    run_id: str | None = None
    model: str | None = None
    prompt: str | None = None

    def __post_init__(self) -> None:
        named = {name: getattr(self, name) for name in ("conversation_id", "run_id", "model")}
        for name, value in {**self.scope, **named}.items():
            if value is not None and not value.strip():
                raise InvalidArgumentError(f"{name} of what is taken again must not be blank.")
        if self.prompt is not None and len(self.prompt) < MIN_PROMPT_DIGITS:
            raise InvalidArgumentError(
                f"prompt must be at least {MIN_PROMPT_DIGITS} digits of the hash that "
                f"`memorypipe runs show RUN --json` has, got {self.prompt!r}."
            )

    def to_dict(self) -> dict[str, Any]:
        """Give what was chosen as JSON values."""
        names = ("conversation_id", "run_id", "model", "prompt")
        chosen = {name: value for name in names if (value := getattr(self, name)) is not None}
        return {**chosen, "scope": dict(self.scope)} if self.scope else chosen

    def takes_run(self, run_id: str, parts: Sequence[RunRecord]) -> bool:
        """Whether what a run has dealt with is taken again, as far as the run decides.

        Args:
            run_id: The run.
            parts: Its commits; the first one tells of all.
        """
        models, prompts = _asked(parts)
        return (
            self.run_id in {None, run_id}
            and (self.model is None or self.model in models)
            and (self.prompt is None or any(each.startswith(self.prompt) for each in prompts))
        )

    def takes_scope(self, scope_key: str) -> bool:
        """Whether messages of a scope are taken again, as far as the scope decides."""
        return self.scope.items() <= dict(orjson.loads(scope_key)).items()


def _asked(parts: Sequence[RunRecord]) -> tuple[set[str], set[str]]:
    """Give the models that a run has asked, and the hashes of its prompts."""
    models: set[str] = set()
    prompts: set[str] = set()
    for run in parts:
        told: Mapping[str, str] = run.info.get("asked", {})
        models |= {*str(run.info.get("model", "")).split(" + "), run.model or ""}
        models |= {value for name, value in told.items() if name.endswith("_model")}
        prompts |= {value for name, value in told.items() if name.endswith("_prompt")}
        prompts.add(run.prompt_hash or "")
    return models - {""}, prompts - {""}


def keys_left(uri: str, runs: Sequence[RunRecord], reprocess: Reprocess) -> pa.Array:
    """Read the ledger keys of the messages that are not taken again.

    Args:
        uri: Of the table.
        runs: All of the table's, oldest first.
        reprocess: What is taken again.

    Returns:
        `fixed_size_binary(16)`, sorted, each key once.
    """
    reopened = reopened_numbers(runs)
    parts: dict[str, list[RunRecord]] = {}
    for run in runs:
        parts.setdefault(run.run_id, []).append(run)
    wanted = {run_id for run_id, own in parts.items() if reprocess.takes_run(run_id, own)}
    left: list[Any] = []
    seen = np.empty(0, _KEY_TYPE)
    # The newest first: what an older one says of the same message does not count.
    for run in reversed(runs):
        if run.ledger is None or run.number in reopened:
            continue
        rows = read_ledger(uri, run.ledger)
        keys = np.frombuffer(b"".join(rows["key"].to_pylist()), _KEY_TYPE)
        is_new = ~np.isin(keys, seen)
        seen = np.union1d(seen, keys)
        if run.run_id in wanted:
            is_new &= ~_taken(rows, reprocess)
        left.append(keys[is_new])
    found = sorted({key.tobytes() for keys in left for key in keys})
    return pa.array(found, LEDGER_KEY)


def _taken(rows: pa.Table, reprocess: Reprocess) -> Any:
    """Say for each row of a ledger whether scope and conversation are taken again (numpy)."""
    scopes = [key for key in pc.unique(rows["scope_key"]).to_pylist() if reprocess.takes_scope(key)]
    taken = pc.is_in(rows["scope_key"], pa.array(scopes, pa.string()))
    if reprocess.conversation_id is not None:
        is_of = pc.equal(rows["conversation_id"], reprocess.conversation_id)
        taken = pc.and_(taken, is_of)
    return taken.to_numpy()
