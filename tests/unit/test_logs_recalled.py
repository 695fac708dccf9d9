import time

import pytest

from memorypipe.logs.recalled import drop_recalled


@pytest.mark.parametrize(
    "tag",
    [
        "memories",
        "memory",
        "user_memories",
        "recalled_memories",
        "relevant-memories",
        "retrieved_memory",
        "Long-Term-Memory",
        "memory_context",
        "memory-context",
        "hindsight_memories",
        "claude-mem-context",
        "supermemory-context",
        "episodic_memory",
        "past_memories",
        "user_long_term_memories",
        "MEMORY_BLOCK",
    ],
)
def test_a_block_of_recalled_memories_is_dropped(tag: str) -> None:
    for opened, closed in ((f"<{tag} n='2'>", f"</{tag}>"), (f"[{tag}]", f"[/{tag}]")):
        text = f"Hello.\n{opened}\nLikes tea.\nOwns a dog.\n{closed}\nWhat now?"
        assert drop_recalled(text) == "Hello.\n\nWhat now?"


def test_nested_blocks_go_whole() -> None:
    text = "a<memories><memory>x</memory> y <memory>z</memory></memories>b<memory>c</memory>d"
    assert drop_recalled(text) == "abd"


@pytest.mark.parametrize(
    "text",
    [
        " I lost my <memory> card ",
        "closing </memories> only",
        "<memorial>kept</memorial>",
        "a < b and memory > c",
        "see [memory] and [memories] in the list",
        "<memory> opened, [/memory] closed otherwise",
        "<shared_memory>a segment of an operating system</shared_memory>",
        "<context>what I am working on</context>",
        "",
    ],
)
def test_other_text_stays_as_it_is(text: str) -> None:
    assert drop_recalled(text) == text


def test_an_open_tag_inside_a_block_goes_with_it() -> None:
    assert drop_recalled("a<memories> x <memory> y </memories>b") == "ab"


def test_a_stray_tag_does_not_hide_a_complete_block() -> None:
    assert drop_recalled("<memory> <memories>x</memories> rest") == "<memory>  rest"


def test_many_open_tags_take_linear_time() -> None:
    start = time.perf_counter()
    drop_recalled("<memories>" * 50_000 + "</memory>" * 50_000)
    assert time.perf_counter() - start < 2
