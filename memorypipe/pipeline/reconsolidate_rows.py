"""What came of the memories of a scope, as the files of a plan store it. Pure."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import orjson
import pyarrow as pa

from memorypipe.pipeline.scope_results import SCOPE_RESULTS, call_record
from memorypipe.pipeline.scopes.reconsolidate import Member, ScopeWork, mark_of
from memorypipe.schema import FACTS, RECORD_TYPE_MEMORY
from memorypipe.table.auditing.origins import CONSOLIDATION_KIND

__all__ = ["COMPARED", "compared_rows", "is_consolidation", "result_rows"]

COMPARED = "memorypipe:compared"
"""In the place of a conversation id, for what is recorded of memories that were compared."""


def is_consolidation(manifest: Mapping[str, Any]) -> bool:
    """Tell by its manifest whether a plan decides again over what is in its table."""
    return bool(manifest.get("kind") == CONSOLIDATION_KIND)


def result_rows(works: Iterable[ScopeWork], *, model: str, prompt_hash: str) -> pa.Table:
    """Lay scopes out as rows of `memorypipe.pipeline.scope_results.SCOPE_RESULTS`.

    Args:
        works: Scopes that were decided.
        model: What decided them.
        prompt_hash: Of the decisions.
    """
    asked = {"model": model, "prompt_hash": prompt_hash}
    return pa.Table.from_pylist([_result(work, asked) for work in works], schema=SCOPE_RESULTS)


def _result(work: ScopeWork, asked: dict[str, str]) -> dict[str, Any]:
    return {
        "scope": work.scope,
        "scope_key": work.scope_key,
        "windows": len(work.compared),
        "actions": [
            {"seq": seq, **action, **asked} for seq, action in enumerate(_actions(work.members))
        ],
        "open_windows": [
            {"conversation_id": COMPARED, "window_id": memory_id, "reason": why}
            for memory_id, why in work.open.items()
        ],
        "calls": [orjson.dumps(call_record(outcome)).decode() for outcome in work.outcomes],
        "fallback": 0,
        "flags": [member.flag for member in work.facts if member.flag],
    }


def _actions(members: Iterable[Member]) -> Iterator[dict[str, Any]]:
    """Give at most one action per memory; what goes makes room for what comes to say the same."""
    changed = [member for member in members if member.is_changed]
    for member in sorted(changed, key=lambda each: not each.gone):
        yield {
            "record_type": RECORD_TYPE_MEMORY,
            "event": "DELETE" if member.gone else "UPDATE",
            "memory_id": member.memory_id,
            "text": member.before if member.gone else member.text,
            "old_memory": member.before,
            "context": member.context,
            "topics": list(member.topics) or None,
            "event_time": member.event_time,
            "conversation_id": member.conversation_id,
            "window_id": member.decided_by,
            "source_ids": list(member.source_ids) or None,
            "rationale": member.rationale,
            "rests_on": member.rests_on,
        }


def compared_rows(work: ScopeWork) -> pa.Table:
    """Record what was compared as rows of `memorypipe.schema.FACTS`.

    Each memory stands for a window of its own. Its one message is the memory as it becomes, so
    that the ledger knows it, and the next run need not compare it again; one that is deleted has
    none.
    """
    return pa.Table.from_pylist(
        [_compared(work, place, member) for place, member in enumerate(work.compared)],
        schema=FACTS,
    )


def _compared(work: ScopeWork, place: int, member: Member) -> dict[str, Any]:
    fact = {"text": member.before, "sources": list(member.source_ids)}
    return {
        "scope": work.scope,
        "scope_key": work.scope_key,
        "conversation_id": COMPARED,
        "window_id": member.memory_id,
        "window_index": place,
        "event_time": member.event_time,
        "message_ids": [] if member.gone else [mark_of(member)],
        "message_times": [] if member.gone else [member.event_time],
        "facts_json": orjson.dumps({"memories": [fact]}).decode(),
        "flags": None,
        "status": "ok",
        "attempts": 0,
        "prompt_tokens": 0,
        "completion_tokens": 0,
        "latency_ms": 0.0,
        "cached": False,
        "repaired": 0,
        "dropped_items": 0,
    }
