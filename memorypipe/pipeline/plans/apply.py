"""The commit of a plan to its table, and what its record says afterwards."""

import time
from collections.abc import Collection, Mapping
from dataclasses import replace
from typing import Any

from memorypipe.errors import InvalidArgumentError
from memorypipe.pipeline.committing import CommitScope, Committed, commit_plan
from memorypipe.pipeline.embedders import embedder_to_apply
from memorypipe.pipeline.id_keys import id_key_to_apply
from memorypipe.pipeline.imports.importing import apply_import, is_import
from memorypipe.pipeline.planning_config import PlanConfig, Progress
from memorypipe.pipeline.plans.plan import Plan
from memorypipe.pipeline.runs.folder import RunFolder
from memorypipe.pipeline.runs.identity import asked_of
from memorypipe.pipeline.runs.record import write_record
from memorypipe.pipeline.runs.summary import RunStatus, RunSummary
from memorypipe.table.guards import MaxRetired
from memorypipe.table.table import MemoryTable

__all__ = ["apply_plan"]


def apply_plan(
    plan: Plan,
    config: PlanConfig,
    *,
    scope: CommitScope,
    max_retired: MaxRetired = "auto",
    accept_guards: Collection[str] = (),
) -> RunSummary:
    """Commit a plan; as `memorypipe.pipeline.pipeline.MemoryPipeline.apply`.

    Args:
        plan: What to commit.
        config: The table, and how it is opened.
        scope: How much of the plan, and how much at a time.
        max_retired: As there.
        accept_guards: As there.

    Raises:
        InvalidArgumentError: For part of an import.
    """
    if is_import(plan):
        _check_whole(plan, scope)
        return apply_import(
            plan,
            embedder=config.embedder,
            backend=config.backend,
            mirror=config.mirror,
            id_key=config.id_key,
            clock=config.clock,
        )
    started = time.monotonic()
    folder = RunFolder.of(plan.table_uri, plan.run_id)
    summary = plan.summary()
    config.on_progress(Progress(stage="commit", done=0, total=summary.windows))
    with folder.applying():
        done = _commit(plan, config, scope, max_retired, accept_guards)
        if done is not None and done.of and not done.scopes:
            # No scope falls into the sample: nothing is committed, and the plan waits as before.
            return replace(summary, scopes=done.of, scopes_left=done.of)
        summary = _with_commit(summary, done)
        summary = replace(
            summary,
            status=_status(summary),
            committed=True,
            wall_s=round(summary.wall_s + time.monotonic() - started, 3),
        )
        write_record(folder, {**folder.read_json("run"), **summary.to_dict()})
    config.on_progress(Progress(stage="commit", done=summary.windows, total=summary.windows))
    return summary


def _check_whole(plan: Plan, scope: CommitScope) -> None:
    """Check that no part of an import is asked for: its memories belong together."""
    if scope != CommitScope():
        raise InvalidArgumentError(
            f"Run {plan.run_id!r} is an import, which is committed whole and at once; leave "
            "sample, seed and commit_every out, or filter it first."
        )


def _commit(
    plan: Plan,
    config: PlanConfig,
    scope: CommitScope,
    max_retired: MaxRetired,
    accept_guards: Collection[str],
) -> Committed | None:
    """Commit; None where the plan has nothing to commit."""
    actions, ledger = plan.actions(), plan.ledger()
    if not (actions.num_rows or ledger.num_rows):
        return None
    summary = plan.summary()

    def tell(done: int, total: int) -> None:
        windows = summary.windows * done // max(total, 1)
        config.on_progress(Progress(stage="commit", done=windows, total=summary.windows))

    table = MemoryTable.open(
        plan.table_uri,
        backend=config.backend or plan.manifest.get("backend"),
        embedder=embedder_to_apply(config.embedder, plan.manifest.get("embedder"), plan.table_uri),
        mirror=config.mirror,
        id_key=id_key_to_apply(config.id_key, plan.manifest.get("id_key")),
        clock=config.clock,
    )
    return commit_plan(
        table,
        actions,
        ledger,
        run_id=plan.run_id,
        base_version=plan.base_version,
        info=_run_info(summary, plan.manifest),
        labels=plan.manifest.get("request", {}).get("labels"),
        max_retired=max_retired,
        accept_guards=accept_guards,
        has_revisions=plan.manifest.get("request", {}).get("has_revisions", True),
        scope=scope,
        on_part=tell,
    )


def _with_commit(summary: RunSummary, done: Committed | None) -> RunSummary:
    """Put what was committed in the place of what was planned."""
    if done is None:
        return summary
    result = done.result
    return replace(
        summary,
        added=result.added,
        updated=result.updated,
        deleted=result.deleted,
        none=result.none,
        held_back=dict(result.held_back),
        scopes=done.of,
        scopes_left=done.of - done.scopes,
    )


def _status(summary: RunSummary) -> RunStatus:
    """Give the status of a run whose actions are committed, the gravest that applies."""
    if summary.held_back:
        return "held"
    if summary.stopped_by:
        return "stopped"
    is_partial = summary.windows_failed or summary.rejected_lines or summary.scopes_left
    return "partial" if is_partial else "done"


def _run_info(summary: RunSummary, manifest: Mapping[str, Any]) -> Mapping[str, Any]:
    """What the table keeps of a run for good; not every plan has asked a model in both stages."""
    kept = ("windows", "windows_failed", "calls", "attempts", "tokens_in", "tokens_out", "cost")
    values = summary.to_dict()
    told = {**{name: values[name] for name in kept}, "model": summary.model}
    if "kind" in manifest:
        told["kind"] = manifest["kind"]
    return {**told, "asked": asked_of(manifest)} if "stages" in manifest else told
