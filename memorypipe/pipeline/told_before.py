"""What messages have told in earlier runs, out of the table and of the folders of its runs."""

from collections.abc import Iterator
from typing import Any, Self

import orjson
import pyarrow as pa
import pyarrow.compute as pc

from memorypipe.errors import PlanError
from memorypipe.id_key import NO_ID_KEY
from memorypipe.ids import ledger_key, text_hash
from memorypipe.pipeline.plans.plan import Plan
from memorypipe.pipeline.scopes.retold import mark_retold
from memorypipe.table.table import MemoryTable, TableView

__all__ = ["SAID", "ToldBefore", "told_facts"]

SAID = pa.schema(
    [
        ("scope_key", pa.string()),
        ("text_hash", pa.string()),
        ("source_ids", pa.list_(pa.string())),
    ]
)


class ToldBefore:
    """Knows what messages that are taken again have told before.

    What one run both added and took away again has left nothing in the table: the facts of runs
    whose folders are kept count too.

    Args:
        view: The table, at the version that is planned against.
        told: Schema `SAID`: facts of earlier runs.
        key: What the table's hashes are made with.
    """

    def __init__(self, view: TableView, told: pa.Table, key: bytes = NO_ID_KEY) -> None:
        self._key = key
        self._view = view
        self._told = told

    @classmethod
    def read(cls, uri: str, version: int, key: bytes = NO_ID_KEY) -> Self:
        """Read it from a table and its runs."""
        table = MemoryTable.open(uri, create=False)
        dealt_with = set(table.ledger_keys().to_pylist())
        runs = table.runs().select(["run_id", "undone"]).to_pylist()
        rows = [
            row
            for run_id in dict.fromkeys(run["run_id"] for run in runs if not run["undone"])
            for row in _facts_of(uri, run_id, dealt_with, key)
        ]
        return cls(table.at(version), pa.Table.from_pylist(rows, schema=SAID), key)

    def mark(self, facts: pa.Table) -> pa.Table:
        """Flag the facts that were told before; as `mark_retold`."""
        keys = pc.unique(facts["scope_key"])
        told = self._told.filter(pc.is_in(self._told["scope_key"], keys))
        said = self._view.read_said(keys.to_pylist()).select(SAID.names).cast(SAID)
        return mark_retold(facts, pa.concat_tables([said, told]), self._key)


def _facts_of(
    uri: str, run_id: str, dealt_with: set[bytes], key: bytes
) -> Iterator[dict[str, Any]]:
    try:
        facts = Plan(uri, run_id).facts()
    except PlanError:  # it was no planned run, or its folder is not kept any more
        return
    yield from told_facts(facts, dealt_with, key)


def told_facts(
    facts: pa.Table, dealt_with: set[bytes], key: bytes = NO_ID_KEY
) -> Iterator[dict[str, Any]]:
    """List what messages have told in a run.

    Args:
        facts: Of the run: schema `memorypipe.schema.FACTS`.
        dealt_with: Ledger keys of the messages that count; what others told was not decided.
        key: As for `ToldBefore`.

    Yields:
        Rows of `SAID`.
    """
    for row in facts.select(["scope_key", "conversation_id", "facts_json"]).to_pylist():
        place = (row["scope_key"], row["conversation_id"])
        for item in orjson.loads(row["facts_json"])["memories"] if row["facts_json"] else ():
            sources = [
                each for each in item.get("sources", ()) if ledger_key(*place, each) in dealt_with
            ]
            if sources:
                yield {
                    "scope_key": row["scope_key"],
                    "text_hash": text_hash(item["text"], key=key),
                    "source_ids": sources,
                }
