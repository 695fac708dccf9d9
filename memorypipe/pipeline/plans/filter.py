"""A part of a plan as a plan of its own."""

import shutil
from collections import Counter
from collections.abc import Callable, Mapping
from datetime import datetime
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from memorypipe import ids
from memorypipe.errors import InvalidArgumentError, PlanError
from memorypipe.pipeline.plans.conditions import actions_where
from memorypipe.pipeline.plans.dependence import built_on
from memorypipe.pipeline.runs.folder import OPEN_WINDOWS, RunFolder
from memorypipe.pipeline.runs.record import write_record

if TYPE_CHECKING:
    from memorypipe.pipeline.plans.plan import Plan

__all__ = ["filter_plan"]

_SHARED = ("windows", "facts", "scopes.parquet", "rejects.jsonl")
_REASON = "left open: a filter of the plan took an action of it out"


def filter_plan(
    plan: "Plan",
    condition: pc.Expression | str,
    *,
    leave_open: bool,
    clock: Callable[[], datetime],
) -> str:
    """Write the part of a plan for which a condition holds; as `Plan.filter`.

    Returns:
        The id of its run.
    """
    actions = plan.actions()
    kept = actions_where(actions, condition)
    lost = built_on(actions, ~kept)
    stays = kept & ~lost
    _check_leave_open(plan, actions, leave_open=leave_open)
    opened = _opened(plan, actions.filter(pa.array(~stays))) if leave_open else plan.open_windows()
    filtered = {
        "parent": plan.run_id,
        "root": plan.manifest.get("filtered", {}).get("root", plan.run_id),
        "where": str(condition),
        "leave_open": leave_open,
        "kept": int(stays.sum()),
        "dropped": _by_event(actions, ~kept),
        "dropped_with": _by_event(actions, lost),
        "windows_opened": opened.num_rows - plan.open_windows().num_rows,
    }
    run_id = _run_id(filtered)
    at = clock()
    with RunFolder.scratch(plan.table_uri) as scratch:
        parent = RunFolder.of(plan.table_uri, plan.run_id)
        scratch.share(_SHARED, parent)
        scratch.write_table("actions", actions.filter(pa.array(stays)))
        scratch.write_table("open", opened)
        manifest = {**plan.manifest, "run_id": run_id, "planned_at": at.isoformat()}
        scratch.write_json("manifest", {**manifest, "filtered": filtered})
        write_record(scratch, _record(plan, actions.filter(pa.array(stays)), run_id, at))
        _take_place(scratch, RunFolder.of(plan.table_uri, run_id), at)
    return run_id


def _take_place(scratch: RunFolder, folder: RunFolder, now: datetime) -> None:
    """Become the run; the same filter of the same plan, applied or not, stays as it is."""
    if (folder.path / "run.json").exists():
        folder.check_idle(now)
        if folder.read_json("run").get("committed"):
            return
        shutil.rmtree(folder.path)
    try:
        scratch.path.rename(folder.path)
    except OSError as error:
        raise PlanError(
            f"Run {folder.path.name!r} was made by another process at the same moment; look at it "
            "with `memorypipe diff`."
        ) from error


def _run_id(filtered: Mapping[str, Any]) -> str:
    told = [filtered[name] for name in ("parent", "where", "leave_open")]
    return f"{filtered['root']}-{ids.digest(*told, size=4).hex()}"


def _check_leave_open(plan: "Plan", actions: pa.Table, *, leave_open: bool) -> None:
    if leave_open and actions["window_id"].null_count == actions.num_rows > 0:
        raise InvalidArgumentError(
            f"Run {plan.run_id!r} was not made from a log, so it has no windows to leave open; "
            "leave leave_open (--leave-open) out."
        )


def _opened(plan: "Plan", dropped: pa.Table) -> pa.Table:
    """Add the windows of dropped actions to the open ones."""
    before = plan.open_windows()
    names = ["scope_key", "conversation_id", "window_id"]
    windows = dropped.select(names).drop_null()
    windows = windows.group_by(names, use_threads=False).aggregate([])
    known = pc.is_in(windows["window_id"], before["window_id"].combine_chunks())
    new = windows.filter(pc.invert(known))
    reasons = pa.array([_REASON], pa.string()).take(pa.array(np.zeros(new.num_rows, np.int64)))
    rows = new.append_column("reason", reasons).select(OPEN_WINDOWS.names).cast(OPEN_WINDOWS)
    order = [(name, "ascending") for name in names]
    return pa.concat_tables([before, rows]).sort_by(order)


def _by_event(actions: pa.Table, mask: Any) -> dict[str, int]:
    counts = pc.value_counts(actions["event"].filter(pa.array(mask)))
    found = {each["values"].as_py(): each["counts"].as_py() for each in counts}
    return {event: found[event] for event in ("ADD", "UPDATE", "DELETE", "NONE") if event in found}


def _record(plan: "Plan", actions: pa.Table, run_id: str, at: datetime) -> dict[str, Any]:
    """Make the record: what was asked, paid and failed is that of the plan it is a part of."""
    events = Counter(_by_event(actions, np.ones(actions.num_rows, bool)))
    parent = plan.summary()
    return {
        **parent.to_dict(),
        "run_id": run_id,
        "status": "stopped" if parent.stopped_by else "planned",
        "committed": False,
        "held_back": {},
        "scopes": 0,
        "scopes_left": 0,
        "added": events["ADD"],
        "updated": events["UPDATE"],
        "deleted": events["DELETE"],
        "none": events["NONE"],
        "started_at": at.isoformat(),
        "heartbeat_at": at.isoformat(),
    }
