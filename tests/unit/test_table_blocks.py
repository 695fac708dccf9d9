"""What a tombstone blocks, and until when."""

from datetime import timedelta

import pyarrow as pa

from memorypipe import ids
from memorypipe.table.actions import check_actions
from memorypipe.table.blocks import (
    BLOCK_COLUMNS,
    Blocks,
    blocks_of,
    forgotten_payload,
    said_hashes,
    without_blocked,
)
from tests.support.table_actions import START, USER, actions, add, update

KEY = ids.scope_key(USER)
LATER = START + timedelta(days=1)


def test_the_latest_forgetting_counts_for_text_and_source_alike() -> None:
    rows = [
        (KEY, "FORGET", START, "t1", ["m1"], forgotten_payload(["t2"])),
        (KEY, "FORGET", LATER, "t1", None, None),
    ]
    table = pa.Table.from_pylist([dict(zip(BLOCK_COLUMNS, row, strict=True)) for row in rows])
    blocks = blocks_of(table)
    assert blocks.texts == {(KEY, "t1"): LATER, (KEY, "t2"): START}
    assert blocks.sources == {(KEY, "m1"): START}
    assert blocks.stop(KEY, "t1", (), LATER)
    assert not blocks.stop(KEY, "t1", (), LATER + timedelta(microseconds=1))
    assert blocks.stop(KEY, "t9", ("m9", "m1"), None)
    assert not blocks.stop(KEY, "t9", ("m9",), None)
    assert not blocks.stop("[]", "t1", ("m1",), None)


def test_the_payload_of_a_memory_is_no_list_of_hashes() -> None:
    row = {"event": "UPDATE", "text_hash": "t1", "payload": forgotten_payload(["t2"])}
    assert list(said_hashes(row)) == ["t1"]
    assert list(said_hashes(row | {"event": "FORGET", "text_hash": None})) == ["t2"]


def test_a_batch_that_nothing_blocks_stays_the_same() -> None:
    batch = check_actions(actions(add("Likes tea"), update("m", "x")))
    for blocks in (Blocks(), Blocks(scope_keys=frozenset([KEY]), texts={(KEY, "t"): START})):
        left, blocked = without_blocked(batch, blocks)
        assert left is batch
        assert not blocked
