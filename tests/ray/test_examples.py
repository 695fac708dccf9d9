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
