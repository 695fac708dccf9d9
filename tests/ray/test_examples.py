"""The examples run as they stand."""

import json
import runpy
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parents[2] / "examples"


@pytest.mark.usefixtures("ray_2_cpus")
def test_the_expression_example_updates_one_memory_and_adds_one() -> None:
    example = runpy.run_path(str(EXAMPLES / "expressions.py"))
    rows = example["memories"](example["ROWS"])
    cells = sorted((json.loads(row["memories_json"]) for row in rows), key=str)
    assert [[memory["text"] for memory in cell] for cell in cells] == [
        ["Lives in Oslo (before: Rome)"],
        ["Bought a Yamaha P-125 digital piano"],
    ]


@pytest.mark.usefixtures("ray_2_cpus")
def test_the_stream_example_makes_memories_when_its_stream_is_idle(tmp_path: Path) -> None:
    example = runpy.run_path(str(EXAMPLES / "streams.py"))
    assert example["demonstrate"](str(tmp_path)) == ["Favorite color is blue", "Lives in Berlin"]
