"""A pipeline on a table whose ids have a key: on every worker, in every stage."""

from pathlib import Path

import pytest

from memorypipe import MemoryPipeline, MemoryTable

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("ray_2_cpus")]

LOG = [
    {
        "user_id": "ana",
        "messages": [
            {"role": "user", "content": "I live in Bergen.", "timestamp": "2024-03-01T10:00:00Z"},
            {"role": "user", "content": "I moved to Oslo.", "timestamp": "2024-05-01T10:00:00Z"},
        ],
    }
]


def test_the_same_memories_under_names_that_nobody_can_make(tmp_path: Path) -> None:
    key = tmp_path / "key"
    key.write_text("correct horse battery staple")
    plain = MemoryPipeline.offline(str(tmp_path / "plain"), embedder="none")
    source = f"file:{key}"
    keyed = MemoryPipeline.offline(str(tmp_path / "keyed"), embedder="none", id_key=source)
    assert plain.run(LOG).added == keyed.run(LOG).added >= 1
    rows = [MemoryTable.open(tmp_path / name).to_arrow().to_pylist() for name in ("plain", "keyed")]
    for one, other in zip(*rows, strict=True):
        assert one["text"] == other["text"]
        for name in ("memory_id", "text_hash", "source_ids", "conversation_id"):
            assert one[name] != other[name], name
    again = MemoryPipeline.offline(str(tmp_path / "keyed"), embedder="none", id_key=source).run(LOG)
    assert (again.windows, again.calls) == (0, 0)
