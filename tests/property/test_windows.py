from hypothesis import given
from hypothesis import strategies as st

from memorypipe.llm.tokens import estimate_tokens
from memorypipe.logs.messages import Message, normalise_messages
from memorypipe.logs.tokens import split_text
from memorypipe.logs.windows import TURN_TOKENS, conversation_windows

TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=400)
ROLES = st.sampled_from(["user", "assistant", "tool"])
TURNS = st.lists(st.tuples(ROLES, TEXTS), max_size=15)
BUDGETS = st.integers(64, 300)
OVERLAPS = st.integers(0, 4)


def read(turns: list[tuple[str, str]]) -> list[Message]:
    raw = [{"role": role, "content": text} for role, text in turns]
    return list(normalise_messages(raw).messages)


@given(TEXTS, st.integers(2, 60))
def test_pieces_join_to_the_text_and_each_fits(text: str, max_tokens: int) -> None:
    pieces = split_text(text, max_tokens=max_tokens)
    assert "".join(pieces) == text
    assert all(0 < estimate_tokens(piece) <= max_tokens for piece in pieces)


@given(TURNS, BUDGETS, OVERLAPS, st.data())
def test_each_new_message_is_in_the_windows_once_and_whole(
    turns: list[tuple[str, str]], budget: int, overlap: int, data: st.DataObject
) -> None:
    messages = read(turns)
    known = {m["id"] for m in messages if data.draw(st.booleans())}
    windows = conversation_windows(
        messages, window_tokens=budget, overlap_messages=overlap, known=known
    )
    content: dict[str, str] = {}
    for window in windows:
        for message in window.messages:
            if not message["background"]:
                content[message["id"]] = content.get(message["id"], "") + message["content"]
    expected = {m["id"]: m["content"] for m in messages if m["id"] not in known}
    assert content == expected
    assert list(content) == list(expected)


@given(TURNS, BUDGETS, OVERLAPS)
def test_no_window_exceeds_its_budget_or_lacks_a_new_message(
    turns: list[tuple[str, str]], budget: int, overlap: int
) -> None:
    for window in conversation_windows(read(turns), window_tokens=budget, overlap_messages=overlap):
        flags = [message["background"] for message in window.messages]
        assert flags == sorted(flags, reverse=True)
        assert not flags[-1]
        assert sum(flags) <= overlap
        spent = sum(TURN_TOKENS + estimate_tokens(m["content"]) for m in window.messages)
        assert spent <= budget


@given(TURNS, TURNS, BUDGETS)
def test_a_grown_conversation_sends_only_its_new_turns(
    before: list[tuple[str, str]], after: list[tuple[str, str]], budget: int
) -> None:
    first, grown = read(before), read([*before, *after])
    assert grown[: len(first)] == first
    known = {message["id"] for message in first}
    sent = [
        message["id"]
        for window in conversation_windows(grown, window_tokens=budget, known=known)
        for message in window.messages
        if not message["background"]
    ]
    assert list(dict.fromkeys(sent)) == [m["id"] for m in grown[len(first) :]]


@given(TURNS, BUDGETS, OVERLAPS)
def test_windows_of_one_conversation_have_different_keys(
    turns: list[tuple[str, str]], budget: int, overlap: int
) -> None:
    windows = conversation_windows(read(turns), window_tokens=budget, overlap_messages=overlap)
    assert len({window.content_key for window in windows}) == len(windows)
