"""The closing report shows some of the changes and the commands that make sense next."""

from typing import Any

import pyarrow as pa
import pytest

from memorypipe.cli.run_report import held_message, next_steps, some_changes
from memorypipe.pipeline.runs.summary import RunSummary
from memorypipe.schema import ACTIONS

_SCOPE = [("user_id", "it's me")]


def _row(seq: int, event: str) -> dict[str, Any]:
    return {
        "scope": _SCOPE,
        "scope_key": "k",
        "seq": seq,
        "record_type": "memory",
        "event": event,
        "memory_id": f"mem_{seq}",
        "text": "t",
    }


def _steps(status: str, *, table: str = "./memories", **values: Any) -> list[str]:
    summary = RunSummary(run_id="run_1", status=status, **values)  # type: ignore[arg-type]  # a status
    steps = next_steps(summary, [_row(0, "ADD")], table=table, memory_id="mem_0")
    return [command for command, _ in steps]


def test_after_a_commit_one_looks_at_what_is_remembered() -> None:
    assert _steps("done") == [
        """memorypipe show --scope 'user_id=it'"'"'s me'""",
        "memorypipe history mem_0",
    ]


def test_open_windows_are_named_by_their_own_command() -> None:
    assert _steps("partial", windows_failed=1)[-1] == "memorypipe runs show run_1 --failed"


def test_without_a_table_there_is_nothing_to_look_at() -> None:
    summary = RunSummary(run_id="run_1", status="partial", windows_failed=1)
    steps = next_steps(summary, [], table="t", memory_id=None, has_table=False)
    assert [command for command, _ in steps] == ["memorypipe runs show run_1 --failed --table t"]


def test_after_a_plan_one_applies_it_or_looks_at_it() -> None:
    assert _steps("planned") == ["memorypipe apply run_1", "memorypipe diff run_1"]


def test_a_plan_that_a_bound_stopped_can_be_applied_as_far_as_it_came() -> None:
    assert _steps("stopped")[0] == "memorypipe apply run_1"
    assert _steps("stopped", committed=True)[0].startswith("memorypipe show")


def test_another_table_is_part_of_the_command() -> None:
    assert _steps("planned", table="my table")[0] == "memorypipe apply run_1 --table 'my table'"


def test_after_a_sample_one_commits_the_rest() -> None:
    steps = _steps("partial", committed=True, scopes=4, scopes_left=1)
    assert steps[-1] == "memorypipe apply run_1"


def test_what_is_held_back_is_named_with_its_reason_and_the_way_out() -> None:
    held = {f"s{n}": "m1 has changed" for n in range(5)}
    message = held_message(RunSummary(run_id="run_1", status="held", held_back=held))
    assert "held back 5 scopes" in message
    assert "(s0, s1, s2 and 2 more): m1 has changed." in message
    assert "`memorypipe plan`" in message


@pytest.mark.parametrize("limit", [1, 4, 100])
def test_only_changes_are_shown_in_their_order(limit: int) -> None:
    events = ["NONE", "ADD", "UPDATE", "NONE", "DELETE", "ADD"] * 3
    actions = pa.Table.from_pylist([_row(n, e) for n, e in enumerate(events)], schema=ACTIONS)
    chosen = some_changes(actions, limit)
    places = [row["seq"] for row in chosen]
    assert len(chosen) == min(limit, 12)
    assert places == sorted(places)
    assert "NONE" not in {row["event"] for row in chosen}


def test_no_action_is_no_change() -> None:
    assert some_changes(ACTIONS.empty_table(), 5) == []
