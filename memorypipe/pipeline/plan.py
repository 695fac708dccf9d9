"""A plan: everything that a run would commit, to be looked at first."""

from typing import Any

import pyarrow as pa

from memorypipe.pipeline.run_folder import OPEN_WINDOWS, RunFolder
from memorypipe.pipeline.summary import RunSummary
from memorypipe.schema import ACTIONS, FACTS, LEDGER, WINDOWS

__all__ = ["Plan", "ledger_rows"]


class Plan:
    """What a run decided, stored beside the table it was decided against.

    Args:
        table_uri: The table.
        run_id: The run.

    Raises:
        PlanError: If there is no such run, or it was never planned to its end.
    """

    def __init__(self, table_uri: str, run_id: str) -> None:
        self.table_uri = table_uri
        self.run_id = run_id
        self._folder = RunFolder.of(table_uri, run_id)
        self.manifest = self._folder.read_json("manifest")
        self._summary = self._folder.read_json("run")

    def __repr__(self) -> str:
        return f"Plan({self.run_id!r}, {self._summary['status']}, table={self.table_uri!r})"

    @property
    def base_version(self) -> int:
        """The version of the table that the plan was decided against; 0 where there was none."""
        return int(self.manifest["base_version"])

    def summary(self) -> RunSummary:
        """Give the numbers of the run."""
        return RunSummary.from_dict(self._summary)

    def actions(self) -> pa.Table:
        """Give all actions, NONE included: schema `memorypipe.schema.ACTIONS`, by scope, seq."""
        return self._folder.read_table("actions", ACTIONS)

    def windows(self) -> pa.Table:
        """Give the windows that the run took up: schema `memorypipe.schema.WINDOWS`."""
        return self._folder.read_parts("windows", WINDOWS)

    def facts(self) -> pa.Table:
        """Give what was extracted, a row per window: schema `memorypipe.schema.FACTS`."""
        return self._folder.read_parts("facts", FACTS)

    def open_windows(self) -> pa.Table:
        """Give the windows that the next run takes up again: schema `OPEN_WINDOWS`."""
        return self._folder.read_table("open", OPEN_WINDOWS)

    def ledger(self) -> pa.Table:
        """Give the messages that the run has dealt with: schema `memorypipe.schema.LEDGER`."""
        return ledger_rows(self.facts(), set(self.open_windows()["window_id"].to_pylist()))


def ledger_rows(facts: pa.Table, open_windows: set[str]) -> pa.Table:
    """List the messages all of whose windows are done.

    A message too long for one window stands in several: while one of them is open, it is open.

    Args:
        facts: Schema `memorypipe.schema.FACTS`.
        open_windows: Ids of the windows that stay open.

    Returns:
        Schema `memorypipe.schema.LEDGER`.
    """
    names = ["scope_key", "conversation_id", "window_id", "message_ids"]
    rows = facts.select(names).to_pylist()
    waiting = {
        _message_key(row, message_id)
        for row in rows
        if row["window_id"] in open_windows
        for message_id in row["message_ids"]
    }
    done = {
        _message_key(row, message_id): row["window_id"]
        for row in rows
        for message_id in row["message_ids"]
        if _message_key(row, message_id) not in waiting
    }
    listed = [
        {
            "scope_key": scope_key,
            "conversation_id": conversation_id,
            "message_id": message_id,
            "window_id": window_id,
        }
        for (scope_key, conversation_id, message_id), window_id in sorted(done.items())
    ]
    return pa.Table.from_pylist(listed, schema=LEDGER)


def _message_key(row: dict[str, Any], message_id: str) -> tuple[str, str, str]:
    return (row["scope_key"], row["conversation_id"], message_id)
