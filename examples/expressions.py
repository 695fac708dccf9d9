"""The three expressions on a plain Ray Dataset: extract, decide, apply.

    python examples/expressions.py

It runs with the rule-based model, without key and network. For a real one give `base_url`,
`model` and `api_key` of any OpenAI-compatible endpoint.
"""

from typing import Any

import ray
from ray.data.expressions import col

from memorypipe import ApplyActions, MemoryBuildAction, MemoryExtract

MODEL: dict[str, Any] = {"base_url": "offline:", "model": "offline-rules"}

ROWS: list[dict[str, Any]] = [
    {
        "messages": "[user]: I live in Oslo now.\n[assistant]: How nice!",
        "context": "User: u1\nDate: 2025-01-01",
        "existing_json": '[{"id": "m_001", "text": "Lives in Rome"}]',
    },
    {
        "messages": "[user]: I bought a Yamaha P-125 digital piano.",
        "context": "User: u2\nDate: 2025-01-01",
        "existing_json": None,
    },
]


def memories(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Run the chain; each stage has one worker that reserves no CPU."""
    ds: Any = ray.data.from_items(rows)
    ds = ds.with_column(
        "facts_json",
        MemoryExtract(**MODEL)
        .options(num_workers={"IO": 1}, batch_size=1)
        .with_column(col("messages"), col("context")),
    )
    ds = ds.with_column(
        "actions_json",
        MemoryBuildAction(**MODEL)
        .options(num_workers={"IO": 1}, batch_size=1)
        .with_column(col("facts_json"), col("existing_json")),
    )
    ds = ds.with_column(
        "memories_json",
        ApplyActions().with_column(col("existing_json"), col("actions_json")),
    )
    rows_out: list[dict[str, Any]] = ds.take_all()
    return rows_out


if __name__ == "__main__":
    for row in memories(ROWS):
        print(row["memories_json"])
