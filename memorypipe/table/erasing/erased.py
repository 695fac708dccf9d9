"""Erased scopes stay blocked: what their names look like, and what a commit holds back.

The table knows an erased scope by a hash of its key alone.
"""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace

import pyarrow as pa
import pyarrow.compute as pc

from memorypipe import ids
from memorypipe.table.actions import Batch
from memorypipe.table.records import Settings

__all__ = [
    "erased_name",
    "erased_reasons",
    "erased_run_name",
    "named_again",
    "without_erased",
    "without_scope_keys",
    "without_scopes",
]

_PREFIX = "erased:"

_REASON = (
    "erased: this scope was erased and takes nothing in until it is unblocked "
    "(memorypipe unblock, or MemoryTable.unblock)"
)


def erased_name(scope_key: str) -> str:
    """Name an erased scope without saying whose it is.

    Args:
        scope_key: As from `memorypipe.ids.scope_key`.

    Example:
        >>> erased_name('[["user_id","u1"]]')
        'erased:77d35b194e9bfcb5a1d320c73d745592'
    """
    return _PREFIX + ids.digest("erased", scope_key).hex()


def erased_run_name(run_id: str) -> str:
    """Name a run anew whose own name tells what was erased; a repeated commit still finds it.

    Args:
        run_id: As its caller gave it.

    Example:
        >>> erased_run_name("about-alice")
        'erased-run-517c3a151ea2567bf9cdf90773c74a23'
    """
    return "erased-run-" + ids.digest("erased run", run_id).hex()


def erased_reasons(settings: Settings, scope_keys: Iterable[str]) -> dict[str, str]:
    """Find the erased ones among scopes.

    Args:
        settings: Of the table.
        scope_keys: As from `memorypipe.ids.scope_key`.

    Returns:
        Scope key to the reason why nothing of it can be committed.
    """
    if not settings.erased:
        return {}
    blocked = frozenset(settings.erased)
    return {key: _REASON for key in scope_keys if erased_name(key) in blocked}


def without_scope_keys(held_back: Mapping[str, str], settings: Settings) -> dict[str, str]:
    """Write erased scopes by their names, so that no run row says whose they are.

    Args:
        held_back: Scope key to reason.
        settings: Of the table.
    """
    erased = erased_reasons(settings, held_back)
    return {erased_name(key) if key in erased else key: held_back[key] for key in held_back}


def named_again(held_back: Mapping[str, str], scope_keys: Iterable[str]) -> dict[str, str]:
    """Undo `without_scope_keys` for somebody who knows the scopes.

    Args:
        held_back: As a run row has it.
        scope_keys: Those that may be meant.
    """
    if not any(name.startswith(_PREFIX) for name in held_back):
        return dict(held_back)
    known = {erased_name(key): key for key in scope_keys}
    return {known.get(name, name): reason for name, reason in held_back.items()}


def without_scopes(batch: Batch, scope_keys: Collection[str]) -> Batch:
    """Take the actions of some scopes out of a batch."""
    if not scope_keys:
        return batch
    left_out = pc.is_in(batch.actions["scope_key"], pa.array(list(scope_keys), pa.string()))
    stays = pc.invert(left_out)
    return replace(
        batch,
        actions=batch.actions.filter(stays),
        text_hash=batch.text_hash.filter(stays.combine_chunks()),
        scopes={key: scope for key, scope in batch.scopes.items() if key not in scope_keys},
    )


def without_erased(rows: pa.Table, erased: Collection[str]) -> pa.Table:
    """Leave the rows of erased scopes out.

    Args:
        rows: With `scope_key`.
        erased: Their names, as the table's settings have them.
    """
    scope_keys = pc.unique(rows["scope_key"]).to_pylist()
    gone = [key for key in scope_keys if erased_name(key) in erased]
    if not gone:
        return rows
    return rows.filter(pc.invert(pc.is_in(rows["scope_key"], pa.array(gone, pa.string()))))
