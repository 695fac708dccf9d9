"""Where memories say they come from, and whether the table knows of it."""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from memorypipe.table.auditing.report import Check
from memorypipe.table.auditing.word_sums import mixed, string_numbers
from memorypipe.table.records import RunRecord

__all__ = ["CONSOLIDATION_KIND", "Origins", "read_origins"]

CONSOLIDATION_KIND = "consolidation"
"""`kind` in the info of a run that decided again over what is in a table."""

_Numbers = NDArray[np.uint64]
_PART = np.uint64(0x9E3779B97F4A7C15)


@dataclass(frozen=True, kw_only=True)
class Origins:
    """What the table knows of runs, conversations and messages.

    Attributes:
        runs: Names of all runs.
        logged: Of these, the ones that dealt with messages: what they wrote can be looked up.
        conversations: A number per scope and conversation, sorted.
        messages: A number per scope and message, sorted.
    """

    runs: Collection[str]
    logged: Collection[str]
    conversations: _Numbers
    messages: _Numbers

    def check(self, rows: pa.Table) -> Mapping[Check, NDArray[np.bool_]]:
        """Look for origins that are not known.

        Args:
            rows: `scope_key`, `run_id`, `conversation_id` and `source_ids`.
        """
        scopes = string_numbers(rows["scope_key"].combine_chunks())
        logged = _mask(pc.is_in(rows["run_id"], pa.array(self.logged, pa.string())))
        named = _mask(pc.is_valid(rows["conversation_id"]))
        conversations = _pair(scopes, rows["conversation_id"].combine_chunks())
        return {
            "unknown_run": ~_mask(pc.is_in(rows["run_id"], pa.array(self.runs, pa.string()))),
            "unknown_conversation": logged & named & ~_has(self.conversations, conversations),
            "unknown_source": logged & self._unknown_source(scopes, rows["source_ids"]),
            "no_source": _mask(pc.equal(_lengths(rows["source_ids"]), 0)),
        }

    def _unknown_source(self, scopes: _Numbers, lists: pa.ChunkedArray) -> NDArray[np.bool_]:
        """Tell which rows name any message that is not known."""
        array = lists.combine_chunks()
        parents = np.asarray(pc.list_parent_indices(array)).astype(np.int64)
        numbers = _pair(scopes[parents], pc.list_flatten(array))
        unknown = np.zeros(len(array), np.bool_)
        unknown[parents[~_has(self.messages, numbers)]] = True
        return unknown


def read_origins(runs: Iterable[RunRecord], ledgers: Iterable[pa.Table]) -> Origins:
    """Read what the table knows.

    Args:
        runs: All of them.
        ledgers: Their ledgers, `scope_key`, `conversation_id` and `message_id`, piece by piece.
    """
    records = list(runs)
    conversations, messages = _none(), _none()
    for rows in ledgers:
        scopes = string_numbers(rows["scope_key"].combine_chunks())
        found = _pair(scopes, rows["conversation_id"].combine_chunks())
        conversations = np.union1d(conversations, found)
        found = _pair(scopes, rows["message_id"].combine_chunks())
        messages = np.union1d(messages, found)
    return Origins(
        runs={run.run_id for run in records},
        logged={
            run.run_id
            for run in records
            if run.ledger is not None and run.info.get("kind") != CONSOLIDATION_KIND
        },
        conversations=conversations,
        messages=messages,
    )


def _none() -> _Numbers:
    return np.empty(0, np.uint64)


def _pair(scopes: _Numbers, strings: pa.Array) -> _Numbers:
    return mixed(scopes * _PART + string_numbers(strings))


def _has(known: _Numbers, numbers: _Numbers) -> NDArray[np.bool_]:
    if not len(known):
        return np.zeros(len(numbers), np.bool_)
    slots = np.minimum(np.searchsorted(known, numbers), len(known) - 1)
    return np.asarray(known[slots] == numbers)


def _lengths(lists: pa.ChunkedArray) -> Any:
    return pc.fill_null(pc.list_value_length(lists), 0)


def _mask(values: Any) -> NDArray[np.bool_]:
    return np.asarray(values, np.bool_)
