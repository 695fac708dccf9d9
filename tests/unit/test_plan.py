"""What a plan says is done."""

import pyarrow as pa

from memorypipe.pipeline.plans.ledger import ledger_rows
from memorypipe.schema import FACTS


def test_a_message_is_done_when_all_windows_that_hold_it_are() -> None:
    row = {
        "scope": [("user_id", "u")],
        "scope_key": "s",
        "conversation_id": "c",
        "window_index": 0,
        "status": "ok",
        "attempts": 1,
        "prompt_tokens": 0,
        "completion_tokens": 0,
        "latency_ms": 0.0,
        "cached": False,
        "repaired": 0,
        "dropped_items": 0,
    }
    split = [
        {**row, "window_id": "w1", "message_ids": ["a", "long"], "message_times": [None, None]},
        {**row, "window_id": "w2", "message_ids": ["long"], "message_times": [None]},
    ]
    facts = pa.Table.from_pylist(split, schema=FACTS)
    assert ledger_rows(facts, pa.chunked_array([["w2"]]))["message_id"].to_pylist() == ["a"]
    assert ledger_rows(facts, pa.chunked_array([[]], pa.string()))["message_id"].to_pylist() == [
        "a",
        "long",
    ]
