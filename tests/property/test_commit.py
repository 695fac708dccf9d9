"""Any sequence of batches leaves the table where applying the actions one by one would."""

import tempfile
from collections import Counter
from dataclasses import dataclass, field
from itertools import count
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from memorypipe.errors import ConflictError
from memorypipe.table.lance.storage import LanceStorage
from memorypipe.table.records import Head
from memorypipe.table.storage import Storage
from memorypipe.table.table import MemoryTable
from memorypipe.text import normalise
from tests.support.memory_storage import MemoryStorage
from tests.support.table_actions import (
    START,
    SteppingClock,
    action,
    actions,
    add,
    delete,
    minted,
    update,
)

SCOPES: tuple[dict[str, str], ...] = ({"user_id": "u1"}, {"user_id": "u2"}, {})
TEXTS = ("Likes tea", "likes  TEA", "Has a cat", "Runs")


def new_table(storage: Storage, uri: str = "") -> MemoryTable:
    storage.create(Head(number=0, committed_at=START, created_at=START, vector_dim=4))
    return MemoryTable(uri, storage, SteppingClock())


@dataclass
class Scope:
    """One scope as a dict would hold it: id to text, and ids that storage has seen."""

    scope: dict[str, str]
    live: dict[str, str] = field(default_factory=dict)
    stored: set[str] = field(default_factory=set)
    changed: Counter[str] = field(default_factory=Counter)

    def apply(self, batch: list[Any]) -> bool:
        """Take the actions one by one; False, and nothing happens, where a target is missing."""
        live = dict(self.live)
        aliases: dict[str, str] = {}
        deleted: set[str] = set()
        touched: set[str] = set()
        for row in batch:
            name = aliases.get(row["memory_id"], row["memory_id"])
            if row["event"] == "ADD":
                twins = [key for key in live if normalise(live[key]) == normalise(row["text"])]
                final = min(twins) if twins else self._free(row, live, deleted)
                aliases[row["memory_id"]] = final
                if not twins:
                    live[final] = row["text"]
                    touched.add(final)
            elif row["event"] == "DELETE" and name in deleted:
                continue
            elif row["event"] != "NONE" and name not in live:
                return False
            elif row["event"] == "UPDATE":
                live[name] = row["text"]
                touched.add(name)
            elif row["event"] == "DELETE":
                del live[name]
                if name in self.stored:
                    deleted.add(name)
                    touched.add(name)
                else:
                    touched.discard(name)
                    aliases.pop(row["memory_id"], None)
        self.live = live
        self.stored |= touched
        self.changed.update(touched)
        return True

    def _free(self, row: Any, live: dict[str, str], deleted: set[str]) -> str:
        names = (minted(row["text"], self.scope, ordinal) for ordinal in count())
        used = self.stored | live.keys() | deleted
        first = row["memory_id"]
        return first if first not in used else next(name for name in names if name not in used)


@st.composite
def scope_batches(draw: st.DrawFn, scope: dict[str, str]) -> list[Any]:
    """Draw actions of one scope; targets are ids that ADDs of these texts can get."""
    names = [minted(text, scope, ordinal) for text in TEXTS for ordinal in (0, 1)]
    texts, targets = st.sampled_from(TEXTS), st.sampled_from(names)
    one = st.one_of(
        texts.map(lambda text: add(text, scope=scope)),
        texts.map(lambda text: add(text, scope=scope)),
        st.tuples(targets, texts).map(lambda pair: update(*pair, scope=scope)),
        targets.map(lambda name: delete(name, scope=scope)),
        st.just(action("NONE", scope=scope)),
    )
    return draw(st.lists(one, max_size=6))


BATCH = st.tuples(*(scope_batches(scope) for scope in SCOPES))


def numbered(parts: Any) -> pa.Table:
    """Make one table of the scopes' actions, in an order that must not matter."""
    rows = [row | {"seq": number} for part in parts for number, row in enumerate(part)]
    return actions(*rows[::-1])


def state(table: MemoryTable) -> dict[str, str]:
    rows = table.to_arrow(columns=["memory_id", "text"])
    return dict(zip(*rows.to_pydict().values(), strict=True))


def check_against_model(table: MemoryTable, batches: list[Any]) -> None:
    model = [Scope(scope) for scope in SCOPES]
    written = 0
    for number, parts in enumerate(batches):
        result = table.commit(numbered(parts), run_id=f"r{number}", on_conflict="skip")
        held = [each for each, part in zip(model, parts, strict=True) if not each.apply(part)]
        assert len(result.held_back) == len(held)
        written += result.added + result.updated + result.deleted
        if result.outcome == "landed":
            again = table.commit(numbered(parts), run_id=f"r{number}", on_conflict="skip")
            assert (again.outcome, again.version) == ("already_landed", result.version)
    assert state(table) == {name: text for each in model for name, text in each.live.items()}
    rows = table.to_arrow(include=["live", "deleted", "history"])
    assert rows.num_rows == written
    changed = Counter(rows["memory_id"].to_pylist())
    assert changed == sum((each.changed for each in model), Counter[str]())
    check_revisions(rows)


def check_revisions(rows: pa.Table) -> None:
    """Check that each memory's revisions count up and its times join without a gap."""
    for name in pc.unique(rows["memory_id"]).to_pylist():
        own = rows.filter(pc.equal(rows["memory_id"], name)).sort_by("revision").to_pylist()
        assert [row["revision"] for row in own] == list(range(1, len(own) + 1))
        assert [row["is_current"] for row in own] == [False] * (len(own) - 1) + [True]
        assert [row["valid_to"] for row in own] == [row["valid_from"] for row in own[1:]] + [None]
        assert len({row["created_at"] for row in own}) == 1
        assert all((row["search_text"] is not None) == row["is_live"] for row in own)


@given(st.lists(BATCH, max_size=5))
@settings(max_examples=80, deadline=None)
def test_batches_act_as_their_actions_one_by_one(batches: list[Any]) -> None:
    check_against_model(new_table(MemoryStorage()), batches)


@given(st.lists(BATCH, min_size=2, max_size=3))
@settings(max_examples=8, deadline=None)
def test_the_lance_back_end_does_the_same(batches: list[Any]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        check_against_model(new_table(LanceStorage(folder), folder), batches)


@given(BATCH, st.permutations(range(len(SCOPES))))
@settings(max_examples=30, deadline=None)
def test_batches_of_different_scopes_can_come_in_any_order(parts: Any, order: list[int]) -> None:
    together, apart = new_table(MemoryStorage()), new_table(MemoryStorage())
    together.commit(numbered(parts), run_id="r", on_conflict="skip")
    for number in order:
        apart.commit(numbered([parts[number]]), run_id=f"r{number}", on_conflict="skip")
    assert state(together) == state(apart)


@given(st.lists(BATCH, min_size=1, max_size=4))
@settings(max_examples=20, deadline=None)
def test_every_version_can_be_read_later_as_it_was(batches: list[Any]) -> None:
    table = new_table(MemoryStorage())
    seen = {0: table.to_arrow()}
    for number, parts in enumerate(batches):
        table.commit(numbered(parts), run_id=f"r{number}", on_conflict="skip")
        seen[table.version] = table.to_arrow()
    assert all(table.at(version).to_arrow().equals(rows) for version, rows in seen.items())


@given(BATCH)
@settings(max_examples=30, deadline=None)
def test_a_conflict_that_is_raised_changes_nothing(parts: Any) -> None:
    table, skipping = new_table(MemoryStorage()), new_table(MemoryStorage())
    for each in (table, skipping):
        each.commit(actions(add("Likes tea")), run_id="first")
    assume(skipping.commit(numbered(parts), run_id="r", on_conflict="skip").held_back)
    before = table.to_arrow()
    with pytest.raises(ConflictError) as caught:
        table.commit(numbered(parts), run_id="r")
    assert caught.value.memory_ids
    assert (table.version, table.to_arrow().equals(before)) == (1, True)
