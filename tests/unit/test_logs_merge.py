from datetime import UTC, datetime
from itertools import permutations
from typing import Any

import pyarrow as pa

from memorypipe.logs.conversations import Draft, build_row
from memorypipe.logs.merge import merge_conversations
from memorypipe.schema import CONVERSATIONS

SCHEMA = CONVERSATIONS.append(pa.field("tag", pa.string()))


def row(*contents: str, name: str | None = "c1", first_hour: int | None = None, **more: Any) -> Any:
    messages = [
        {
            "role": "user",
            "content": content,
            "timestamp": None
            if first_hour is None
            else datetime(2025, 1, 1, first_hour + place, tzinfo=UTC),
        }
        for place, content in enumerate(contents)
    ]
    draft = Draft(
        messages=messages,
        default_scope={"user_id": more.pop("user_id", "u1")},
        conversation_id=name,
        fields=more,
    )
    return build_row(draft, scope_columns=None, keep=["tag"]).value


def merge(*rows: Any) -> list[dict[str, Any]]:
    """Merge in every order of the rows, which must not matter."""
    results = [
        merge_conversations(pa.Table.from_pylist(list(order), schema=SCHEMA))
        for order in permutations(rows)
    ]
    assert all(result.equals(results[0]) for result in results)
    assert results[0].schema.equals(SCHEMA)
    return list(results[0].to_pylist())


def said(merged: dict[str, Any]) -> list[str]:
    return [message["content"] for message in merged["messages"]]


def test_a_conversation_at_several_stages_is_one_at_its_last() -> None:
    (merged,) = merge(row("a"), row("a", "b", tag="new"), row("a", "b"))
    assert said(merged) == ["a", "b"]


def test_pages_of_a_dated_conversation_are_put_in_order_of_time() -> None:
    (merged,) = merge(row("a", "b", first_hour=1), row("b", "c", "d", first_hour=2))
    assert said(merged) == ["a", "b", "c", "d"]
    assert merged["event_time"] == datetime(2025, 1, 1, 4, tzinfo=UTC)


def test_pages_of_an_undated_conversation_follow_the_longest() -> None:
    (merged,) = merge(row("a", "b"), row("b", "c", "d"))
    assert said(merged) == ["b", "c", "d", "a"]


def test_other_scopes_and_conversations_stay_apart() -> None:
    merged = merge(row("a"), row("a", name="c2"), row("a", user_id="u2"))
    assert [(one["scope_key"], one["conversation_id"]) for one in merged] == [
        ('[["user_id","u1"]]', "c1"),
        ('[["user_id","u1"]]', "c2"),
        ('[["user_id","u2"]]', "c1"),
    ]


def test_unnamed_conversations_that_only_begin_alike_are_kept_apart() -> None:
    merged = merge(
        row("hi", "cat", name=None),
        row("hi", name=None),
        row("hi", "dog", "yes", name=None),
        row("hi", "dog", name=None),
    )
    assert sorted(map(said, merged)) == [["hi", "cat"], ["hi", "dog", "yes"]]
    assert len({one["conversation_id"] for one in merged}) == 1
