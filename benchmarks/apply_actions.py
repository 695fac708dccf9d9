"""How many rows a second does `ApplyActions` carry out, beside a bare loop over the same cells?

The bare loop decodes both cells with orjson, changes a dict and encodes it again: no validation,
no look for duplicates, random-free but unsafe ids. Both read the same 8 memories and 3 actions
(one ADD, one UPDATE, one DELETE) a row, in the same process, in alternating rounds; the best
round of each counts. The answers are checked: both must leave the same texts.

Run: ``python benchmarks/apply_actions.py --rows 20000 --out apply_actions.json``
"""

import argparse
import json
import platform
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import orjson

from memorypipe.cells.apply import apply_cell

MEMORIES_PER_ROW = 8


def make_row(number: int) -> tuple[str, str]:
    """Make the two cells of one row; no two rows share a text."""
    memories = [
        {"id": f"m{number}_{place}", "text": f"User {number} keeps note {place} about the garden"}
        for place in range(MEMORIES_PER_ROW)
    ]
    actions = [
        {
            "event": "ADD",
            "target_id": None,
            "text": f"User {number} bought a digital piano in March",
            "old_memory": None,
            "rationale": "new",
        },
        {
            "event": "UPDATE",
            "target_id": f"m{number}_3",
            "text": f"User {number} keeps note 3 about the balcony",
            "old_memory": f"User {number} keeps note 3 about the garden",
            "rationale": "changed",
        },
        {
            "event": "DELETE",
            "target_id": f"m{number}_5",
            "text": f"User {number} keeps no note 5",
            "old_memory": f"User {number} keeps note 5 about the garden",
            "rationale": "retracted",
        },
    ]
    return orjson.dumps(memories).decode(), orjson.dumps({"actions": actions}).decode()


def bare(existing: str, actions: str) -> str:
    """Do the least that gives the same memories."""
    memories = {memory["id"]: memory for memory in orjson.loads(existing)}
    for action in orjson.loads(actions)["actions"]:
        if action["event"] == "UPDATE":
            memories[action["target_id"]]["text"] = action["text"]
        elif action["event"] == "DELETE":
            del memories[action["target_id"]]
        elif action["event"] == "ADD":
            new_id = f"new_{len(memories)}"
            memories[new_id] = {"id": new_id, "text": action["text"]}
    return orjson.dumps(list(memories.values())).decode()


def ours(existing: str, actions: str) -> str:
    """Carry out one row as the expression does."""
    return apply_cell(existing, actions) or ""


def rows_per_s(run: Callable[[str, str], str], rows: list[tuple[str, str]]) -> float:
    """Time one round."""
    begin = time.process_time()
    for existing, actions in rows:
        run(existing, actions)
    return len(rows) / (time.process_time() - begin)


def texts(cell: str) -> list[str]:
    """Give the texts of a cell, which are what both ways must agree on."""
    return [memory["text"] for memory in orjson.loads(cell)]


def measure(rows: list[tuple[str, str]], rounds: int) -> dict[str, Any]:
    """Check the answers, then time both ways in turn."""
    for existing, actions in rows[:200]:
        assert texts(ours(existing, actions)) == texts(bare(existing, actions))
    best = {"ours": 0.0, "bare": 0.0}
    for _ in range(rounds):
        best["bare"] = max(best["bare"], rows_per_s(bare, rows))
        best["ours"] = max(best["ours"], rows_per_s(ours, rows))
    return {
        "rows": len(rows),
        "rounds": rounds,
        "ours_rows_per_s": round(best["ours"]),
        "bare_rows_per_s": round(best["bare"]),
        "ratio": round(best["ours"] / best["bare"], 3),
        "python": platform.python_version(),
        "orjson": orjson.__version__,
        "machine": platform.machine(),
    }


def main() -> None:
    """Run the benchmark and write its result as JSON."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=20_000)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--out", type=Path, help="a file for the JSON; default standard output")
    options = parser.parse_args()
    result = measure([make_row(number) for number in range(options.rows)], options.rounds)
    text = json.dumps(result, indent=2)
    if options.out:
        options.out.write_text(text + "\n", encoding="utf-8")
    sys.stdout.write(text + "\n")


if __name__ == "__main__":
    main()
