"""What an undo has made of a run: nothing of it is in the table, and its messages count as read."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from memorypipe.pipeline.runs.summary import RunSummary
from memorypipe.table.table import MemoryTable
from memorypipe.table.undone import UNDO_KIND

__all__ = ["as_it_stands", "closed_runs", "runs_of", "undo_of"]


def runs_of(table: str) -> list[dict[str, Any]]:
    """Give the rows of `MemoryTable.runs`; none where there is no table."""
    if not MemoryTable.exists(table):
        return []
    rows: list[dict[str, Any]] = MemoryTable.open(table, create=False).runs().to_pylist()
    return rows


def as_it_stands(summary: RunSummary, table: str) -> RunSummary:
    """Give the summary of a run with the status ``"undone"`` where an undo took it back."""
    if not summary.committed or undo_of(runs_of(table), summary.run_id) is None:
        return summary
    return replace(summary, status="undone")


def undo_of(runs: Sequence[Mapping[str, Any]], run_id: str) -> str | None:
    """Name the newest undo that took a run back; None where any part of the run counts.

    Args:
        runs: Rows of `MemoryTable.runs`.
        run_id: The run.
    """
    if not all(run["undone"] for run in runs if run["run_id"] == run_id):
        return None
    undos = [run["run_id"] for run in _standing_undos(runs) if run_id in _told(run, "undoes")]
    return undos[-1] if undos else None


def closed_runs(runs: Sequence[Mapping[str, Any]]) -> list[str]:
    """Name the undone runs whose messages count as read all the same, oldest first.

    Args:
        runs: Rows of `MemoryTable.runs`.
    """
    opened = {name for run in _standing_undos(runs) for name in _told(run, "reopens")}
    counted = {run["run_id"] for run in runs if not run["undone"]}
    read = [run["run_id"] for run in runs if json.loads(run["info"]).get("windows")]
    return [name for name in dict.fromkeys(read) if name not in opened | counted]


def _standing_undos(runs: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    return [run for run in runs if run["kind"] == UNDO_KIND and not run["undone"]]


def _told(run: Mapping[str, Any], name: str) -> list[str]:
    names: list[str] = json.loads(run["info"]).get(name, [])
    return names
