"""Facts that a message has told before: where messages are taken again, nothing doubles. Pure.

A fact that the table has had from the same message, live, superseded or deleted, was decided then,
and what came after it has changed it for a reason. It is not decided again.
"""

from collections.abc import Mapping
from typing import Any

import orjson
import pyarrow as pa

from memorypipe.id_key import NO_ID_KEY
from memorypipe.ids import text_hash

__all__ = ["RETOLD", "mark_retold"]

RETOLD = "retold"
"""The flag of such a fact."""


def mark_retold(facts: pa.Table, said: pa.Table, key: bytes = NO_ID_KEY) -> pa.Table:
    """Flag the facts that the table has had from one of their messages.

    Args:
        facts: Schema `memorypipe.schema.FACTS`.
        said: `scope_key`, `text_hash` and `source_ids` of all revisions of the scopes, as from
            `MemoryTable.read_said`.
        key: What the table's hashes are made with.

    Returns:
        The facts with their `flags` completed.
    """
    known = {
        (row["scope_key"], row["text_hash"], source)
        for row in said.to_pylist()
        for source in row["source_ids"] or ()
    }
    flags = [
        [*(row["flags"] or ()), *_flags(row, known, key)]
        for row in facts.select(["scope_key", "facts_json", "flags"]).to_pylist()
    ]
    place = facts.schema.get_field_index("flags")
    field = facts.schema.field(place)
    return facts.set_column(place, field, pa.array(flags, field.type))


def _flags(
    row: Mapping[str, Any], known: set[tuple[str, str, str]], key: bytes
) -> list[dict[str, Any]]:
    memories = orjson.loads(row["facts_json"])["memories"] if row["facts_json"] else []
    return [
        {"fact": number, "flag": RETOLD}
        for number, item in enumerate(memories)
        if any(
            (row["scope_key"], text_hash(item["text"], key=key), source) in known
            for source in item.get("sources", ())
        )
    ]
