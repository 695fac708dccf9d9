"""Whatever is committed, undone, forgotten and restored: no revision is lost, the past stays."""

import tempfile
from collections import Counter, defaultdict
from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from memorypipe import ids
from memorypipe.errors import TableError
from memorypipe.table.backends import BACKENDS
from memorypipe.table.revisions import BOOKKEEPING
from memorypipe.table.table import MemoryTable
from memorypipe.text import normalise
from tests.support.memory_table import memory_table
from tests.support.table_actions import (
    SteppingClock,
    actions,
    add,
    delete,
    minted,
    update,
)

SCOPES: tuple[dict[str, str], ...] = ({"user_id": "u1"}, {"user_id": "u2"})
TEXTS = ("Likes tea", "likes  TEA", "Has a cat", "Runs")
STATES = ("live", "deleted", "invalid", "expired", "history")

# What a revision never changes once it is written.
CLOSING = ("is_current", "is_live", "valid_to", "revision_expires_at", "search_text", "vector")


EXAMPLES = pytest.mark.parametrize("examples", [8, pytest.param(200, marks=pytest.mark.slow)])


def holds(check: Callable[..., None], *drawn: st.SearchStrategy[Any], examples: int) -> None:
    """Check a rule on examples."""

    @given(st.tuples(*drawn))
    @settings(max_examples=examples)
    def run(values: tuple[Any, ...]) -> None:
        check(*values)

    run()


@st.composite
def batches(draw: st.DrawFn, scope: dict[str, str]) -> list[Any]:
    """Draw actions of one scope; a target that is not there holds the scope back."""
    names = [minted(text, scope, ordinal) for text in TEXTS for ordinal in (0, 1)]
    texts, targets = st.sampled_from(TEXTS), st.sampled_from(names)
    sources = st.sampled_from([None, ["m1"], ["m2", "m3"]])
    one = st.one_of(
        st.tuples(texts, sources).map(lambda it: add(it[0], scope=scope, source_ids=it[1])),
        st.tuples(targets, texts).map(lambda it: update(*it, scope=scope, context="later")),
        targets.map(lambda name: delete(name, scope=scope)),
    )
    return draw(st.lists(one, min_size=1, max_size=4))


NAMES = st.sampled_from([minted(text, scope) for text in TEXTS for scope in SCOPES])
COMMIT = st.sampled_from(SCOPES).flatmap(batches)
STEP = st.one_of(
    COMMIT.map(lambda batch: ("commit", batch)),
    COMMIT.map(lambda batch: ("commit", batch)),
    st.integers(0, 9).map(lambda number: ("undo", number)),
    NAMES.map(lambda name: ("forget", name)),
    st.sampled_from(SCOPES).map(lambda scope: ("forget_scope", scope)),
    NAMES.map(lambda name: ("restore", name)),
)


def numbered(batch: list[Any]) -> pa.Table:
    return actions(*(row | {"seq": number} for number, row in enumerate(batch)))


def take(table: MemoryTable, step: tuple[str, Any]) -> None:
    """Take one step; one that cannot be taken says so and changes nothing."""
    kind, value = step
    version = table.version
    try:
        if kind == "commit":
            table.commit(numbered(value), run_id=f"r{version}", on_conflict="skip")
        elif kind == "undo":
            runs = table.runs()["run_id"].to_pylist() or ["none"]
            table.undo(runs[value % len(runs)], cascade=value % 2 == 0)
        elif kind == "forget":
            table.forget(value)
        elif kind == "forget_scope":
            table.forget(scope=value)
        else:
            table.restore(value)
    except TableError:
        assert table.version == version


def memories(table: MemoryTable) -> list[Any]:
    """Give the live memories without what tells of a revision."""
    rows = table.to_arrow().drop_columns(list(BOOKKEEPING))
    return rows.to_pylist()  # type: ignore[no-any-return]  # Arrow has no types


def texts(table: MemoryTable) -> Counter[tuple[str, str]]:
    rows = table.to_arrow(columns=["scope_key", "text"]).to_pylist()
    return Counter((row["scope_key"], row["text"]) for row in rows)


def revisions(table: MemoryTable) -> dict[tuple[str, int], Any]:
    rows = table.to_arrow(include=STATES).to_pylist()
    return {(row["memory_id"], row["revision"]): row for row in rows}


def check_conserved(seen: dict[tuple[str, int], Any], now: dict[tuple[str, int], Any]) -> None:
    """Check that what was ever written stands as it was, and each memory has one present."""
    for key, row in seen.items():
        assert {**row, **dict.fromkeys(CLOSING)} == {**now[key], **dict.fromkeys(CLOSING)}
    own: defaultdict[str, list[Any]] = defaultdict(list)
    for (name, _), row in sorted(now.items()):
        own[name].append(row)
    for rows in own.values():
        assert [row["revision"] for row in rows] == list(range(1, len(rows) + 1))
        assert [row["is_current"] for row in rows] == [False] * (len(rows) - 1) + [True]
        assert [row["valid_to"] for row in rows] == [
            *(row["valid_from"] for row in rows[1:]),
            None,
        ]
        assert all(row["search_text"] is None for row in rows if not row["is_live"])


def check_walk(table: MemoryTable, steps: list[tuple[str, Any]]) -> None:
    seen: dict[tuple[str, int], Any] = {}
    past: dict[int, tuple[Any, pa.Table]] = {}
    for step in steps:
        take(table, step)
        now = revisions(table)
        check_conserved(seen, now)
        seen = now
        past.setdefault(table.version, (table.commit_time, table.to_arrow()))
    for version, (moment, rows) in past.items():
        assert table.as_of(version).to_arrow().equals(rows)
        assert table.as_of(moment).to_arrow().equals(rows)


@EXAMPLES
def test_no_revision_is_lost_and_the_past_reads_as_it_was(examples: int) -> None:
    def check(steps: list[Any]) -> None:
        check_walk(memory_table(), steps)

    holds(check, st.lists(STEP, min_size=2, max_size=8), examples=examples)


def check_undo(table: MemoryTable, steps: list[Any], batch: list[Any]) -> None:
    for step in steps:
        take(table, step)
    before = memories(table)
    result = table.commit(numbered(batch), run_id="last", on_conflict="skip")
    after = memories(table)
    if result.outcome != "landed":
        return
    for undone, state in (
        ("last", before),
        ("undo-last", after),
        ("undo-undo-last", before),
        ("undo-last", after),
        ("last", before),
    ):
        assert table.undo(undone).outcome == "landed"
        assert memories(table) == state


@EXAMPLES
def test_undo_and_its_undo_restore_bit_for_bit(examples: int) -> None:
    def check(steps: list[Any], batch: list[Any]) -> None:
        check_undo(memory_table(), steps, batch)

    holds(check, st.lists(STEP, max_size=5), COMMIT, examples=examples)


def check_cascade(runs: list[list[Any]], number: int) -> None:
    together, apart = memory_table(), memory_table()
    for table in (together, apart):
        for place, batch in enumerate(runs):
            table.commit(numbered(batch), run_id=f"r{place}", on_conflict="skip")
    landed = set(together.runs()["run_id"].to_pylist())
    if (chosen := f"r{number}") not in landed:
        return
    after = memories(together)
    together.undo(chosen, cascade=True)
    undone = str(together.runs()["info"].to_pylist()[-1])
    for place in reversed(range(len(runs))):
        if f'"r{place}"' in undone:
            apart.undo(f"r{place}")
    assert memories(together) == memories(apart)
    together.undo(f"undo-{chosen}")
    assert memories(together) == after


@EXAMPLES
def test_a_cascade_is_the_undoing_of_each_run_from_the_newest_on(examples: int) -> None:
    runs = st.lists(COMMIT, min_size=1, max_size=5)
    holds(check_cascade, runs, st.integers(0, 4), examples=examples)


def check_twice(steps: list[Any]) -> None:
    table = memory_table()
    kept = {}
    for step in steps:
        kept[f"r{table.version}"] = step
        take(table, step)
    rows, runs = table.to_arrow(include=STATES), table.runs()["run_id"].to_pylist()
    for run_id, (kind, batch) in kept.items():
        if kind == "commit" and run_id in runs:
            again = table.commit(numbered(batch), run_id=run_id, on_conflict="skip")
            assert again.outcome == "already_landed"
    assert table.to_arrow(include=STATES).equals(rows)


OF_SCOPE = [st.lists(st.one_of(batches(scope), st.just("forget")), max_size=4) for scope in SCOPES]


def check_order(parts: tuple[list[Any], ...], random: Any) -> None:
    one, other = memory_table(), memory_table()
    order = [number for number, part in enumerate(parts) for _ in part]
    for table in (one, other):
        left = [list(part) for part in parts]
        for number in order:
            batch = left[number].pop(0)
            step = ("forget_scope", SCOPES[number]) if batch == "forget" else ("commit", batch)
            take(table, step)
        random.shuffle(order)
    assert texts(one) == texts(other)


@EXAMPLES
def test_what_happens_in_different_scopes_can_come_in_any_order(examples: int) -> None:
    random = st.randoms(use_true_random=False)
    holds(check_order, st.tuples(*OF_SCOPE), random, examples=examples)


def check_forgotten(runs: list[list[Any]], scope: dict[str, str]) -> None:
    table = memory_table()
    for number, batch in enumerate(runs):
        table.commit(numbered(batch), run_id=f"r{number}", on_conflict="skip")
    key = ids.scope_key(scope)
    own = table.to_arrow(include=STATES).filter(pc.field("scope_key") == key)
    said = {normalise(text) for text in own["text"].to_pylist()} - {""}
    elsewhere = {pair: count for pair, count in texts(table).items() if pair[0] != key}
    table.forget(scope=scope)
    for number, batch in enumerate(runs):
        here = [row for row in batch if row["scope_key"] == key]
        table.commit(numbered(here), run_id=f"again{number}", on_conflict="skip")
    assert not {normalise(text) for scope_key, text in texts(table) if scope_key == key} & said
    assert elsewhere == {pair: count for pair, count in texts(table).items() if pair[0] != key}


@EXAMPLES
def test_no_old_batch_brings_back_what_was_forgotten(examples: int) -> None:
    runs = st.lists(COMMIT, min_size=1, max_size=5)
    holds(check_forgotten, runs, st.sampled_from(SCOPES), examples=examples)


@pytest.mark.parametrize("examples", [3, pytest.param(40, marks=pytest.mark.slow)])
@pytest.mark.parametrize("backend", BACKENDS)
def test_the_back_ends_keep_history_alike(backend: str, examples: int) -> None:
    def check(steps: list[Any], batch: list[Any]) -> None:
        with tempfile.TemporaryDirectory() as folder:
            place = f"{folder}/table"
            table = MemoryTable.open(place, backend=backend, vector_dim=4, clock=SteppingClock())
            check_walk(table, steps)
            check_undo(table, [], batch)

    holds(check, st.lists(STEP, min_size=4, max_size=7), COMMIT, examples=examples)
