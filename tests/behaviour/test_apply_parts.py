"""A plan that is committed in parts ends as one that is committed at once."""

import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from memorypipe import MemoryPipeline, MemoryTable, Plan, RunSummary, ids
from memorypipe.errors import InvalidArgumentError, RunConflictError
from memorypipe.pipeline.planning_config import Progress
from memorypipe.pipeline.runs.folder import RunFolder
from tests.support.plans import facts_of, plan_actions, window, write_plan
from tests.support.table_actions import SteppingClock, actions, add, delete, minted, update

SCOPES = [{"user_id": f"u{number}"} for number in range(12)]


class KilledError(BaseException):
    """Stands for the end of the process."""


@pytest.fixture
def plan(tmp_path: Path) -> Plan:
    """Two memories in each of twelve scopes."""
    texts = ("Likes tea", "Lives in Rome")
    rows = [add(text, scope=scope) for scope in SCOPES for text in texts]
    facts = facts_of(*(window(f"w{n}", *texts, scope=scope) for n, scope in enumerate(SCOPES)))
    return write_plan(
        str(tmp_path / "table"),
        "r1",
        plan_actions(*rows),
        facts=facts,
        manifest={"backend": "parquet"},
    )


def pipeline(uri: str, on_progress: Callable[[Progress], None] | None = None) -> MemoryPipeline:
    more: dict[str, Any] = {} if on_progress is None else {"on_progress": on_progress}
    return MemoryPipeline.offline(uri, clock=SteppingClock(), **more)


def opened(plan: Plan) -> MemoryTable:
    return MemoryTable.open(plan.table_uri, create=False)


def live(plan: Plan) -> list[tuple[str, str]]:
    rows = opened(plan).to_arrow(columns=["scope_key", "memory_id"]).to_pylist()
    return [(row["scope_key"], row["memory_id"]) for row in rows]


def test_several_commits_give_the_same_memories_and_are_undone_together(plan: Plan) -> None:
    summary = pipeline(plan.table_uri).apply(plan, commit_every=5)
    assert (summary.status, summary.added, summary.scopes, summary.scopes_left) == (
        ("done", 24, 12, 0)
    )
    runs = opened(plan).runs()
    assert runs["part"].to_pylist() == [0, 1, 2]
    assert runs["added"].to_pylist() == [10, 10, 4]
    assert live(plan) == sorted(live(plan))
    assert len(set(live(plan))) == 24
    assert len(opened(plan).ledger_keys()) == 12
    assert opened(plan).undo("r1").deleted == 24
    assert opened(plan).count() == 0


@pytest.mark.parametrize("again", [None, 5, 2])
def test_applying_again_does_nothing(plan: Plan, again: int | None) -> None:
    first = pipeline(plan.table_uri).apply(plan, commit_every=5)
    version, second = opened(plan).version, pipeline(plan.table_uri).apply(plan, commit_every=again)
    assert opened(plan).version == version
    assert (second.added, second.status) == (first.added, "done")


@pytest.mark.parametrize(("commits", "again"), [(1, None), (2, 5), (1, 1)])
def test_a_kill_between_two_commits_is_taken_up(
    plan: Plan, commits: int, again: int | None
) -> None:
    def kill(progress: Progress) -> None:
        if progress.done and MemoryTable.exists(plan.table_uri):
            seen.append(progress)
            if len(seen) == commits:
                raise KilledError

    seen: list[Progress] = []
    with pytest.raises(KilledError):
        pipeline(plan.table_uri, kill).apply(plan, commit_every=5)
    assert opened(plan).version == commits
    summary = pipeline(plan.table_uri).apply(plan, commit_every=again)
    assert (summary.status, summary.added) == ("done", 24)
    assert len(set(live(plan))) == 24
    assert sum(opened(plan).runs()["added"].to_pylist()) == 24
    assert opened(plan).undo("r1").deleted == 24


def test_a_sample_takes_whole_scopes_and_the_rest_follows(plan: Plan) -> None:
    small = pipeline(plan.table_uri).apply(plan, sample=0.3, seed=1)
    took = {key for key, _ in live(plan)}
    assert (small.status, small.scopes, small.scopes_left) == ("partial", 12, 12 - len(took))
    assert 0 < len(took) < 12
    assert small.added == 2 * len(took)
    larger = pipeline(plan.table_uri).apply(plan, sample=0.6, seed=1)
    more = {key for key, _ in live(plan)}
    assert took < more
    assert len(more) < 12
    assert larger.added == 2 * len(more)
    elsewhere = pipeline(plan.table_uri).apply(plan, sample=0.6, seed=2, commit_every=1)
    assert elsewhere.scopes_left <= larger.scopes_left
    last = pipeline(plan.table_uri).apply(plan)
    assert (last.status, last.added, last.scopes_left) == ("done", 24, 0)
    assert len(set(live(plan))) == 24
    version = opened(plan).version
    pipeline(plan.table_uri).apply(plan, sample=0.3, seed=1)
    assert opened(plan).version == version
    assert opened(plan).undo("r1").deleted == 24


def test_a_sample_in_which_no_scope_falls_commits_nothing(plan: Plan) -> None:
    summary = pipeline(plan.table_uri).apply(plan, sample=1e-9)
    assert (summary.status, summary.committed, summary.scopes_left) == ("planned", False, 12)
    assert plan.summary().status == "planned"
    assert opened(plan).version == 0
    assert pipeline(plan.table_uri).apply(plan).added == 24


def test_conflicts_and_guards_hold_their_scopes_back_and_the_rest_lands(tmp_path: Path) -> None:
    uri = str(tmp_path / "table")
    table = MemoryTable.open(uri, backend="parquet", embedder="none", clock=SteppingClock())
    full, changed, others = SCOPES[0], SCOPES[1], SCOPES[2:]
    texts = [f"text {number}" for number in range(12)]
    table.commit(
        actions(*(add(text, scope=full) for text in texts), add("Likes tea", scope=changed)),
        run_id="r0",
    )
    rows = [delete(minted(text, full), scope=full, old_memory=text) for text in texts]
    tea = minted("Likes tea", changed)
    rows.append(update(tea, "Likes coffee", scope=changed, old_memory="Likes tea"))
    rows += [add("Lives in Rome", scope=scope) for scope in others]
    plan = write_plan(uri, "r1", plan_actions(*rows), base_version=1)
    table.commit(actions(update(tea, "Likes mate", scope=changed)), run_id="between")
    held = pipeline(uri).apply(plan, commit_every=4)
    kinds = {key: reason.split(":")[0] for key, reason in held.held_back.items()}
    assert kinds == {ids.scope_key(full): "guard", ids.scope_key(changed): "conflict"}
    assert (held.status, held.added, held.deleted) == ("held", 10, 0)
    version = table.version
    assert pipeline(uri).apply(plan).held_back == held.held_back
    assert table.version == version
    through = pipeline(uri).apply(plan, accept_guards=[ids.scope_key(full)])
    assert (through.added, through.deleted) == (10, 12)
    assert list(through.held_back) == [ids.scope_key(changed)]
    again = pipeline(uri).apply(plan, commit_every=3)
    assert (again.added, again.deleted, table.version) == (10, 12, version + 1)


def test_a_guard_that_opens_after_a_sample_lets_its_scope_in_before_the_rest(
    tmp_path: Path,
) -> None:
    uri = str(tmp_path / "table")
    table = MemoryTable.open(uri, backend="parquet", embedder="none", clock=SteppingClock())
    texts = [f"text {number}" for number in range(12)]
    table.commit(actions(*(add(text, scope=s) for s in SCOPES for text in texts)), run_id="r0")
    rows = [
        delete(minted(text, scope), scope=scope, old_memory=text)
        for scope in SCOPES
        for text in texts
    ]
    keys = [ids.scope_key(scope) for scope in SCOPES]
    facts = facts_of(*(window(f"w{n}", scope=scope) for n, scope in enumerate(SCOPES)))
    plan = write_plan(uri, "r1", plan_actions(*rows), facts=facts, base_version=1)
    # With the ledger rows of another scope, so that the part lands.
    accepted = keys[1:]
    first = pipeline(uri).apply(plan, sample=0.5, accept_guards=accepted)
    assert 0 < first.scopes_left < 12
    rest = pipeline(uri).apply(plan, max_retired=None)
    assert (rest.deleted, rest.scopes_left, rest.status) == (144, 0, "done")
    assert table.count() == 0
    version = table.version
    assert pipeline(uri).apply(plan).deleted == 144
    assert table.version == version


def test_another_plan_under_the_same_name_is_refused(plan: Plan) -> None:
    pipeline(plan.table_uri).apply(plan, sample=0.5)
    folder = RunFolder.of(plan.table_uri, "r1")
    folder.write_table("actions", plan.actions().filter(pa.array([True, False] * 12)))
    with pytest.raises(RunConflictError, match="with other actions"):
        pipeline(plan.table_uri).apply(plan)


@pytest.mark.parametrize("every", [0, -1, True])
def test_commits_of_no_scope_are_refused(plan: Plan, every: int) -> None:
    with pytest.raises(InvalidArgumentError, match="commit_every must be 1 or more"):
        pipeline(plan.table_uri).apply(plan, commit_every=every)


def test_an_import_is_committed_whole(tmp_path: Path) -> None:
    uri = str(tmp_path / "table")
    plan = write_plan(uri, "i1", plan_actions(add("Likes tea")), manifest={"kind": "import"})
    with pytest.raises(InvalidArgumentError, match="'i1' is an import"):
        pipeline(uri).apply(plan, sample=0.5)


def test_whoever_applies_the_same_plan_meanwhile_waits_and_finds_it_done(
    plan: Plan, caplog: pytest.LogCaptureFixture
) -> None:
    arrived = threading.Event()
    summaries: list[RunSummary] = []
    other = pipeline(plan.table_uri, lambda _progress: arrived.set())
    second = threading.Thread(target=lambda: summaries.append(other.apply(plan, commit_every=5)))

    def after_first_part(_progress: Progress) -> None:
        if not arrived.is_set() and MemoryTable.exists(plan.table_uri):
            second.start()
            assert arrived.wait(60)
            second.join(1.0)
            assert opened(plan).runs()["part"].to_pylist() == [0]

    first = pipeline(plan.table_uri, after_first_part).apply(plan, commit_every=5)
    second.join(60)
    assert "Somebody else is applying the plan of run 'r1'" in caplog.text
    (found,) = summaries
    assert (first.status, found.status, first.added, found.added) == ("done", "done", 24, 24)
    assert opened(plan).runs()["part"].to_pylist() == [0, 1, 2]
