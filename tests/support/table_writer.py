"""A writer process for the tests of concurrent and killed commits.

Commits batches one after another; prints one JSON line per commit, once it is reported as landed.
Each batch adds a text that all writers share and one of its own, and updates the shared counter
memory, read fresh each time.
"""

import argparse
import json
import sys

from memorypipe.errors import ConflictError
from memorypipe.table.table import MemoryTable
from tests.support.table_actions import action, actions, add, ledger, update

COUNTER_SCOPE = {"user_id": "counter"}
COUNTER_ID = "counter"


def first_batch() -> object:
    """Give the batch that makes the counter."""
    return actions(action("ADD", "0", scope=COUNTER_SCOPE, memory_id=COUNTER_ID))


def write(uri: str, name: str, commits: int, backend: str) -> None:
    table = MemoryTable.open(uri, backend=backend, embedder="none")
    print("ready", flush=True)  # noqa: T201  # the test reads it
    sys.stdin.readline()
    conflicts = 0
    for number in range(commits):
        run_id = f"{name}-{number}"
        while True:
            base = table.version
            counter = table.at(base).get(COUNTER_ID)
            assert counter is not None
            batch = actions(
                add(f"shared {number}"),
                add(f"only {run_id}"),
                update(COUNTER_ID, str(int(counter["text"]) + 1), scope=COUNTER_SCOPE),
            )
            try:
                result = table.commit(
                    batch, run_id=run_id, base_version=base, ledger=ledger(run_id)
                )
            except ConflictError as error:
                conflicts += error.memory_ids == (COUNTER_ID,)
                continue
            break
        report = json.dumps({"run_id": run_id, "version": result.version, "conflicts": conflicts})
        print(report, flush=True)  # noqa: T201  # the test reads it


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("uri")
    parser.add_argument("name")
    parser.add_argument("commits", type=int)
    parser.add_argument("backend")
    options = parser.parse_args()
    write(options.uri, options.name, options.commits, options.backend)
