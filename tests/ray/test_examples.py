"""The examples run as they stand."""

import json
import runpy
import shutil
from pathlib import Path
from typing import Any

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
def test_the_stream_notebook_prints_what_it_shows(capsys: pytest.CaptureFixture[str]) -> None:
    notebook = json.loads((EXAMPLES / "streams.ipynb").read_text())
    values: dict[str, Any] = {}
    for cell in notebook["cells"]:
        if cell["cell_type"] == "code":
            exec("".join(cell["source"]), values)  # noqa: S102  # our own notebook
            shown = "".join(line for each in cell["outputs"] for line in each["text"])
            assert capsys.readouterr().out == shown
    shutil.rmtree(values["table"])
