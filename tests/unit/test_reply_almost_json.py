"""Replies that are not quite JSON: read as they were meant, with nothing lost in silence."""

# ruff: noqa: RUF001  # marks of other scripts are what some cases are about

import pytest

from memorypipe.llm.replies.reply import read_facts


def texts(reply: str, finish_reason: str = "stop") -> list[str]:
    return [item["text"] for item in read_facts(reply, finish_reason=finish_reason).items]


@pytest.mark.parametrize(
    ("reply", "expected"),
    [
        (r'{"memories":[{"text":"Path is C:\data"}]}', [r"Path is C:\data"]),
        (r'["A path C:\data with <think>x</think>"]', [r"A path C:\data with <think>x</think>"]),
        (r'["bad \u12 escape", "caf\u00e9",]', [r"bad \u12 escape", "café"]),
        (r'["an \ud83d\ude00 emoji",]', ["an 😀 emoji"]),
        (
            '["Said "hi" to Bob, then left", "Owns a cat"]',
            ['Said "hi" to Bob, then left', "Owns a cat"],
        ),
        ("['User's cat', 'b']", ["User's cat", "b"]),
        (r"['It\'s late']", ["It's late"]),
        ('["a" "b"]', ["a", "b"]),
        ('["a"\n"b"]', ["a", "b"]),
        ('[{"text":"a"} {"text":"b"}]', ["a", "b"]),
        ('[{"text":"a" "context":"c"}]', ["a"]),
        ('["line one\nline two"]', ["line one\nline two"]),
        ('[{"text":"""say "a"\nand "b""""}]', ['say "a"\nand "b"']),
        ("[{'text': '''it's'''}, 'b']", ["it's", "b"]),
    ],
)
def test_almost_json_is_read_as_it_was_meant(reply: str, expected: list[str]) -> None:
    assert texts(reply) == expected


@pytest.mark.parametrize(
    ("reply", "expected"),
    [
        ('["喜欢茶"，"有一只猫"]', ["喜欢茶", "有一只猫"]),
        ('[{"text":"喜欢茶"}，{"text":"有一只猫"}]', ["喜欢茶", "有一只猫"]),
        ('{"memories"：[{"text"："喜欢茶"，"context"："早上"}]}', ["喜欢茶"]),
        ('["お茶が好き"、"猫がいる"]', ["お茶が好き", "猫がいる"]),
        ('["يحب الشاي"، "لديه قطة"]', ["يحب الشاي", "لديه قطة"]),
        ("{“memories”:[“喜欢茶”,“有一只猫”]}", ["喜欢茶", "有一只猫"]),
        ("{“memories”：[{“text”：“喜欢“绿”茶”}]}", ["喜欢“绿”茶"]),
        ('["喜欢“茶”，有猫", "b",]', ["喜欢“茶”，有猫", "b"]),
        ('[{"text":"喜欢"红楼梦"，"西游记"等书"}]', ['喜欢"红楼梦"，"西游记"等书']),
    ],
)
def test_marks_of_other_scripts_part_values_and_stay_within_texts(
    reply: str, expected: list[str]
) -> None:
    """Where they did not, two facts would become one, and nobody would be told."""
    read = read_facts(reply, finish_reason="stop")
    assert ([item["text"] for item in read.items], read.status) == (expected, "ok")


def test_of_a_cut_reply_with_marks_of_other_scripts_whole_items_are_kept() -> None:
    for reply in ('["喜欢茶"，"有一只', '[{"text":"喜欢茶"}，{"text"：“有一只'):
        assert texts(reply, "length") == ["喜欢茶"]


@pytest.mark.parametrize(
    ("reply", "expected"),
    [
        ('{"text":"a","text":"b"}', ["a", "b"]),
        ('{"memories":[{"text":"a","sources":[1],"text":"b"},{"text":"c"}]}', ["a", "b", "c"]),
        ('{"memories":{"text":"a","text":"b"}}', ["a", "b"]),
        ('{"memories":{"text":"a"},"memories":{"text":"b"}}', ["a", "b"]),
        ('{"facts":[{"fact":"a","context":"x","fact":"b","context":"y"}]}', ["a", "b"]),
        ('{"state":"ok","memories":["a"],"state":"fine"}', ["a"]),
        ('{"memories":[{"text":"a","text":"a"}]}', ["a"]),
    ],
)
def test_objects_that_were_written_as_one_are_all_kept(reply: str, expected: list[str]) -> None:
    """A key that comes again with something else to say is of another item."""
    assert texts(reply) == expected


def test_details_stay_with_their_own_of_two_objects_in_one() -> None:
    reply = '[{"text":"a","sources":[1],"topics":["x"],"text":"b","sources":[2]}]'
    assert read_facts(reply, finish_reason="stop").items == (
        {"text": "a", "sources": ["1"], "topics": ["x"]},
        {"text": "b", "sources": ["2"]},
    )


@pytest.mark.parametrize(
    ("reply", "expected"),
    [
        ('{"memories":["a"]}\n{"memories":["b"]}', ["a", "b"]),
        ('{"text":"a"}\n{"text":"b"}', ["a", "b"]),
        ('```json\n["a"]\n```\n```json\n["b"]\n```', ["a", "b"]),
        ('{"memories":["a"],"memories":["b"]}', ["a", "b"]),
        ('{"memories":[{"text":"a"}},{"text":"b"}]}', ["a", "b"]),
        ('[{"memories":["a"]},{"memories":["b"]}]', ["a", "b"]),
        ('{"result":[{"facts":["a"]},{"facts":[{"fact":"b"}]}]}', ["a", "b"]),
        ('{"user":{"memories":["a"]},"rest":{"memories":["b"]}}', ["a", "b"]),
        ('{"memories":["a"],"memories":{"text":"b"}}', ["a", "b"]),
        ('{"memories":["a"]} or, as an example, {"memories":["b"]}', ["a"]),
    ],
)
def test_values_that_follow_each_other_directly_are_all_kept(
    reply: str, expected: list[str]
) -> None:
    assert texts(reply) == expected
