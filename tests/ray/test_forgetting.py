"""What was forgotten stays so when the same log comes again, until somebody says it anew."""

from pathlib import Path
from typing import Any

import pytest

from memorypipe import MemoryPipeline, MemoryTable

pytestmark = pytest.mark.usefixtures("ray_2_cpus")


def conversation(name: str, year: int) -> dict[str, Any]:
    message = {
        "id": f"m{year}",
        "role": "user",
        "content": "I own a piano.",
        "timestamp": f"{year}-01-01T10:00:00Z",
    }
    return {"user_id": "ana", "conversation_id": name, "messages": [message]}


def test_a_forgotten_memory_stays_forgotten_until_it_is_said_again(tmp_path: Path) -> None:
    pipeline = MemoryPipeline.offline(str(tmp_path))
    assert pipeline.run([conversation("first", 2025)]).added == 1
    table = MemoryTable.open(tmp_path, create=False)
    (memory_id,) = table.to_arrow(columns=["memory_id"])["memory_id"].to_pylist()
    table.forget(memory_id)
    # A copy of the conversation under another name: no ledger knows its message.
    again = pipeline.run([conversation("copy", 2025), conversation("later", 2125)])
    assert (again.windows, again.added, again.none) == (2, 1, 1)
    assert table.runs()["blocked"].to_pylist() == [0, 0, 1]
    (memory,) = table.to_arrow(columns=["source_ids", "revision"]).to_pylist()
    assert memory == {"source_ids": ["m2125"], "revision": 1}
