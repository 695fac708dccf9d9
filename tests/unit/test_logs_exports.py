"""The exports of chat products, in records made for these tests."""

from datetime import UTC, datetime
from typing import Any

import pytest

from memorypipe.errors import LogFormatError
from memorypipe.logs.conversations import build_row
from memorypipe.logs.formats.registry import FormatName, classify, drafts

AT = 1_735_725_600.0  # 2025-01-01T10:00Z


def rows(value: Any, format_name: FormatName) -> list[dict[str, Any]]:
    scope = {"user_id": "=u1"}
    built = [
        build_row(d, scope_columns=scope).value for d in drafts(value, format_name=format_name)
    ]
    return [row for row in built if row is not None]


def said(value: Any, format_name: FormatName) -> list[tuple[str, str]]:
    return [(m["role"], m["content"]) for m in rows(value, format_name)[0]["messages"]]


def node(
    name: str,
    parent: str | None,
    role: str | None = None,
    content: Any = "",
    *,
    children: tuple[str, ...] = (),
    **message: Any,
) -> dict[str, Any]:
    body = None
    if role is not None:
        parts = {"content_type": "text", "parts": [content]}
        body = {
            "id": f"m-{name}",
            "author": {"role": role, "name": None, "metadata": {}},
            "create_time": AT,
            "content": parts if isinstance(content, str) else content,
            "metadata": {},
            "recipient": "all",
            **message,
        }
    return {"id": name, "parent": parent, "children": list(children), "message": body}


def chat(*nodes: dict[str, Any], current: str | None = "last") -> dict[str, Any]:
    return {
        "title": "Tea",
        "create_time": AT,
        "update_time": AT + 5,
        "mapping": {each["id"]: each for each in nodes},
        "conversation_id": "chat-1",
        "current_node": current,
    }


ROOT = node("root", None, children=("ask",))
ASK = node("ask", "root", "user", "I drink tea.", children=("old", "last"))
OLD = node("old", "ask", "assistant", "Coffee, then.", create_time=AT + 1)
LAST = node("last", "ask", "assistant", "Green tea?", create_time=AT + 9)


def test_chatgpt_gives_the_active_branch_from_its_root_on() -> None:
    value = chat(LAST, OLD, ASK, ROOT)
    assert classify(value) == "chatgpt"
    row = rows(value, "chatgpt")[0]
    assert row["conversation_id"] == "chat-1"
    assert [(m["id"], m["content"]) for m in row["messages"]] == [
        ("m-ask", "I drink tea."),
        ("m-last", "Green tea?"),
    ]
    assert row["messages"][0]["timestamp"] == datetime(2025, 1, 1, 10, tzinfo=UTC)


def test_chatgpt_branch_is_the_one_of_the_current_node_even_if_another_is_newer() -> None:
    assert said(chat(ROOT, ASK, OLD, LAST, current="old"), "chatgpt")[-1][1] == "Coffee, then."


@pytest.mark.parametrize("current", [None, "gone"])
def test_chatgpt_without_a_current_node_takes_the_newest_leaf(current: str | None) -> None:
    assert said(chat(ROOT, ASK, OLD, LAST, current=current), "chatgpt")[-1][1] == "Green tea?"


@pytest.mark.parametrize(
    "hidden",
    [
        node("x", "root", "user", "h", metadata={"is_visually_hidden_from_conversation": True}),
        node("x", "root", "system", "You are helpful."),
        node("x", "root", "user", {"content_type": "user_editable_context", "text": "About me"}),
        node("x", "root", "tool", {"content_type": "model_editable_context", "text": "Old"}),
        node("x", "root", "assistant", {"content_type": "thoughts", "thoughts": []}),
        node("x", "root", "assistant", {"content_type": "reasoning_recap", "content": "4 s"}),
        node("x", "root"),
    ],
)
def test_chatgpt_leaves_out_what_nobody_said(hidden: dict[str, Any]) -> None:
    assert said(chat(ROOT, hidden, node("last", "x", "user", "Hi")), "chatgpt") == [("user", "Hi")]


def test_chatgpt_calls_and_answers_of_tools_are_tool_turns() -> None:
    call = node("call", "root", "assistant", {"content_type": "code", "text": "1+1"})
    call["message"]["recipient"] = "python"
    output = {"content_type": "execution_output", "text": "2"}
    found = said(chat(ROOT, call, node("last", "call", "tool", output)), "chatgpt")
    assert found == [("tool", "1+1"), ("tool", "2")]


def test_chatgpt_parts_that_are_no_text_are_told_in_a_word() -> None:
    parts = [
        {"content_type": "image_asset_pointer", "asset_pointer": "file-service://x"},
        {"content_type": "audio_transcription", "text": "Spoken words"},
        {"content_type": "audio_asset_pointer"},
        {"content_type": "something_new"},
        None,
        "Look.",
    ]
    content = {"content_type": "multimodal_text", "parts": parts}
    found = said(chat(ROOT, node("last", "root", "user", content)), "chatgpt")
    assert found == [("user", "[image]\nSpoken words\n[audio]\n[attachment]\nLook.")]


def test_chatgpt_keeps_the_order_of_the_branch_whatever_the_clocks_say() -> None:
    late = node("ask", "root", "user", "Why?", create_time=AT + 60)
    assert [role for role, _ in said(chat(ROOT, late, LAST), "chatgpt")] == ["user", "assistant"]


def test_chatgpt_time_of_zero_is_none() -> None:
    value = chat(ROOT, node("last", "root", "user", "Hi", create_time=0))
    assert rows(value, "chatgpt")[0]["event_time"] == datetime(2025, 1, 1, 10, tzinfo=UTC)


def test_chatgpt_nodes_in_a_circle_are_an_error() -> None:
    with pytest.raises(LogFormatError, match="own parents"):
        rows(chat(node("a", "last", "user", "x"), node("last", "a", "user", "y")), "chatgpt")


def claude(*messages: Any) -> dict[str, Any]:
    return {
        "uuid": "c-1",
        "name": "Tea",
        "created_at": "2025-01-01T09:00:00Z",
        "account": {"uuid": "acc"},
        "chat_messages": list(messages),
    }


def message(number: int, sender: str, text: str, **more: Any) -> dict[str, Any]:
    at = f"2025-01-01T10:00:0{number}.5Z"
    return {"uuid": f"m{number}", "sender": sender, "text": text, "created_at": at, **more}


def test_claude_messages_are_read_with_ids_and_times() -> None:
    value = claude(message(1, "human", "I drink tea."), message(2, "assistant", "Nice."))
    assert classify(value) == "claude"
    row = rows(value, "claude")[0]
    assert row["conversation_id"] == "c-1"
    assert [(m["id"], m["role"], m["content"]) for m in row["messages"]] == [
        ("m1", "user", "I drink tea."),
        ("m2", "assistant", "Nice."),
    ]
    assert row["event_time"] == datetime(2025, 1, 1, 10, 0, 2, 500_000, tzinfo=UTC)


def test_claude_text_blocks_count_and_tool_results_are_turns_before_them() -> None:
    content = [
        {"type": "thinking", "thinking": "Hm."},
        {"type": "text", "text": "Let me look."},
        {"type": "tool_use", "name": "web", "input": {}},
        {"type": "tool_result", "name": "web", "content": [{"type": "text", "text": "Found."}]},
        {"type": "tool_result", "content": "Plain."},
        {"type": "text", "text": "Here it is."},
    ]
    value = claude(message(1, "assistant", "unsupported block", content=content))
    assert said(value, "claude") == [
        ("tool", "Found."),
        ("tool", "Plain."),
        ("assistant", "Let me look.\nHere it is."),
    ]


def test_claude_files_are_told_by_their_names() -> None:
    value = claude(
        message(
            1,
            "human",
            "See:",
            content=[],
            attachments=[{"file_name": "a.txt", "extracted_content": "long"}],
            files=[{"file_name": ""}],
        )
    )
    assert said(value, "claude") == [("user", "See:\n[file: a.txt]\n[file]")]


def test_claude_scope_may_be_the_account() -> None:
    draft = next(drafts(claude(message(1, "human", "Hi")), format_name="claude"))
    row = build_row(draft, scope_columns={"user_id": "account.uuid"}).value
    assert row is not None
    assert row["scope"] == [("user_id", "acc")]
    assert draft.default_scope is None


def test_claude_message_that_is_no_object_is_an_error() -> None:
    with pytest.raises(LogFormatError, match="Message 2"):
        rows(claude(message(1, "human", "Hi"), 3), "claude")


TURNS = [
    {"from": "system", "value": "Be kind."},
    {"from": "human", "value": "I drink tea."},
    {"from": "gpt", "value": "Nice."},
    {"from": "function_call", "value": "{}"},
    {"from": "observation", "value": "{}"},
]


@pytest.mark.parametrize(
    "value",
    [
        {"id": "s", "conversations": TURNS},
        {"id": "s", "items": TURNS},
        {"id": "s", "conversations": [{"role": t["from"], "content": t["value"]} for t in TURNS]},
        TURNS,
    ],
)
def test_sharegpt_turns_are_read_under_each_of_their_names(value: Any) -> None:
    assert classify(value) == "sharegpt"
    assert said(value, "sharegpt") == [
        ("user", "I drink tea."),
        ("assistant", "Nice."),
        ("tool", "{}"),
        ("tool", "{}"),
    ]


def test_sharegpt_is_named_and_owned_by_its_record() -> None:
    value = {"id": 7, "user": "u", "date": "2025-01-01T10:00Z", "conversations": TURNS}
    draft = next(drafts(value, format_name="sharegpt"))
    row = build_row(draft, scope_columns=None).value
    assert row is not None
    assert (row["conversation_id"], row["scope"]) == ("7", [("user_id", "u")])
    assert row["event_time"] == datetime(2025, 1, 1, 10, tzinfo=UTC)
