"""Replies to an extraction request: everything said is kept, nothing is invented."""

# ruff: noqa: RUF001  # marks of other scripts are what some cases are about

import json
import time

import pytest

from memorypipe.llm.replies.reply import read_facts

TEA = '{"memories":[{"text":"Likes tea"}]}'


def texts(reply: str | None, finish_reason: str = "stop") -> list[str]:
    return [item["text"] for item in read_facts(reply, finish_reason=finish_reason).items]


@pytest.mark.parametrize(
    "reply",
    [
        pytest.param(TEA, id="clean"),
        pytest.param(f"```json\n{TEA}\n```", id="fenced"),
        pytest.param(f"```\n{TEA}\n```\nOnly durable facts were kept.", id="fence then prose"),
        pytest.param(f"These are the facts: {TEA} Good luck!", id="prose around"),
        pytest.param(f"As in {{this}} and [1]: {TEA}", id="brackets in prose"),
        pytest.param(f"- [ ] done\n{TEA}", id="check box before"),
        pytest.param(f'["tea"] was said, so: {TEA}', id="a wrapper wins over a bare list"),
        pytest.param(f'<think>{{"memories":[{{"text":"no"}}]}}?</think>{TEA}', id="think"),
        pytest.param(f'<thinking>hm ["no"]</thinking>\n{TEA}', id="thinking"),
        pytest.param(f"[THINK]hm {{no}}[/THINK]{TEA}", id="square think"),
        pytest.param(f"◁think▷hm◁/think▷{TEA}", id="wedge think"),
        pytest.param(
            f'<|channel|>analysis<|message|>["no"]<|end|><|channel|>final<|message|>{TEA}',
            id="channels",
        ),
        pytest.param(
            f'<|begin_of_thought|>["no"]<|end_of_thought|><|begin_of_solution|>{TEA}', id="bars"
        ),
        pytest.param(f'<|START_THINKING|>{{"memories":["no"]}}<|END_THINKING|>{TEA}', id="shouted"),
        pytest.param(f'<|thinking|>{{"memories":["no"]}}<|/thinking|>{TEA}', id="slashed bars"),
        pytest.param(
            f'<｜begin▁of▁thinking｜>["no"]<｜end▁of▁thinking｜>{TEA}',
            id="wide bars",
        ),
        pytest.param(f"that is clear</think>\n{TEA}", id="dangling end"),
        pytest.param(f'maybe {{"memories":["no"]}}</think>{TEA}', id="draft, dangling end"),
        pytest.param(f'maybe {{"memories":["no</think>{TEA}', id="broken draft, dangling end"),
        pytest.param(f'<think>maybe {{"memories":["no"]}} or {TEA}', id="unclosed: the last"),
        pytest.param(f'<think>maybe ["no</think>{TEA[:-2]},]}}', id="think, and a loose answer"),
        pytest.param(
            f'<think>{{"memories":["no"]}}</think>{TEA[:-2]},]}}', id="a draft, and a loose answer"
        ),
        pytest.param(
            f'or {{"memories":["no"]}}</think>\n{TEA[:-2]},]}}', id="dangling, and a loose answer"
        ),
        pytest.param(f"{TEA}</think>", id="closing tag behind the answer"),
        pytest.param(f'{TEA}<think>or {{"memories":["no"]}}', id="open tag behind the answer"),
        pytest.param('{"memories":[{"text":"Likes tea"},]}', id="trailing comma"),
        pytest.param('{"memories":[{"text":"Likes tea",}]}', id="trailing comma in item"),
        pytest.param("{'memories': [{'text': 'Likes tea', 'context': None}]}", id="Python"),
        pytest.param('{memories: [{text: "Likes tea"}]}', id="bare keys"),
        pytest.param('{"memories":[{"text":"Likes tea"} // sure\n]}', id="comment"),
        pytest.param('{"memories":[{"text":"Likes tea","score":NaN}]}', id="NaN"),
        pytest.param('{"memories":[{"text":"Likes tea"}}', id="missing bracket"),
        pytest.param('{"memories":[{"text":"Likes tea"}]}}', id="bracket too many"),
        pytest.param('["Likes tea"]', id="list of strings"),
        pytest.param('{"text":"Likes tea"}', id="bare item"),
        pytest.param('{"memory":"Likes tea"}', id="bare item by another name"),
        pytest.param('{"facts":[{"fact":"Likes tea"}]}', id="fact"),
        pytest.param('{"Facts":[{"Content":"Likes tea"}]}', id="case of keys"),
        pytest.param('{"memories":{"text":"Likes tea"}}', id="object where a list belongs"),
        pytest.param('{"memories":{"1":{"text":"Likes tea"}}}', id="numbered objects"),
        pytest.param('{"extracted":[{"text":"Likes tea"}]}', id="unknown wrapper of objects"),
        pytest.param('{"ok":true,"result":{"memories":["Likes tea"]}}', id="nested wrapper"),
        pytest.param(f"{TEA}\n{TEA}", id="the same twice"),
        pytest.param('{"memories":[{"text":" "},{"text":"Likes tea"}]}', id="blank beside"),
        pytest.param('{"memories":[{"note":"?"},7,{"text":"Likes tea"}]}', id="no item beside"),
        pytest.param('{"memories":[{"text": oops},{"text":"Likes tea"}]}', id="broken beside"),
        pytest.param(f'{{"memories":[]}} Wait, there is one: {TEA}', id="an empty draft before"),
        pytest.param('{"memories":[],"new":[{"text":"Likes tea"}]}', id="beside an empty list"),
        pytest.param('{"memories":["Likes tea"],"memories":null}', id="a key again, and null"),
    ],
)
def test_what_was_said_is_found_wherever_it_stands(reply: str) -> None:
    read = read_facts(reply, finish_reason="stop")
    assert ([item["text"] for item in read.items], read.status) == (["Likes tea"], "ok")


@pytest.mark.parametrize(
    "tag",
    [
        *("think", "thinking", "thought", "thoughts", "reasoning", "reflection", "analysis"),
        *("scratchpad", "antThinking", "THINK", "seed:think", "ns:reasoning"),
    ],
)
def test_a_draft_in_reasoning_is_no_answer_whatever_the_tag(tag: str) -> None:
    draft = '{"memories":["no"]}'
    assert texts(f"<{tag}>perhaps {draft}?</{tag}>\n{TEA}") == ["Likes tea"]
    assert texts(f"perhaps {draft}?</{tag}>\n{TEA}") == ["Likes tea"]


@pytest.mark.parametrize(
    "wrapper", ["facts", "memory", "fact", "items", "results", "data", "Facts"]
)
def test_a_list_of_strings_is_known_by_the_usual_names(wrapper: str) -> None:
    assert texts(json.dumps({wrapper: ["Likes tea", "Owns a cat"]})) == ["Likes tea", "Owns a cat"]


def test_brackets_that_lead_to_nothing_hide_no_answer() -> None:
    """The first value that can be decoded counts, not the first that looks like one."""
    prose = "{note: see} below, {also: there}, [1 of 2], {memories: oops}, ['so it goes"
    assert texts(f"{prose}\n{TEA}") == ["Likes tea"]
    assert texts(f"{'{note: see} ' * 60}{TEA}") == ["Likes tea"]


@pytest.mark.parametrize(
    "text",
    [
        "Asked why the page prints <think>plan</think>",
        "Prints </think> and then nothing",
        "Writes ```json\n[]\n``` and {braces} in prose",
        "Trinkt gerne Kaffee ☕ in São Paulo, 東京",
        'Says "hi" and C:\\temp\\new',
        "| a | b |\n|---|---|\n| 1 | 2 |",
    ],
)
def test_texts_keep_their_characters(text: str) -> None:
    assert texts(json.dumps({"memories": [{"text": text}]})) == [text]


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


@pytest.mark.parametrize(
    ("reply", "expected"),
    [
        ('{"memories":[{"text":"a"},{"text":"b', ["a"]),
        ('{"memories":[{"text":"a"},{"text":"b","context":"c', ["a"]),
        ('{"memories":[{"text":"a"},{"text":"b"', ["a"]),
        ('{"memories":["a","b', ["a"]),
        ('[{"text":"a"},{"te', ["a"]),
        ('{"text":"a"}\n{"text":"b', ["a"]),
        ('[{"memories":["a"]},{"memories":["b', ["a"]),
        ('{"result":{"memories":["a"]},"more":{"memories":["b', ["a"]),
        ('{"memories":{"text":"a","context":"c', []),
        ('{"memories":[{"te', []),
    ],
)
def test_of_a_cut_reply_only_whole_items_are_kept(reply: str, expected: list[str]) -> None:
    for finish_reason in ("length", "stop"):
        read = read_facts(reply, finish_reason=finish_reason)
        assert [item["text"] for item in read.items] == expected
        assert read.status == "truncated"
        assert read.dropped_items == 0


def test_a_reply_that_used_up_its_tokens_counts_as_cut() -> None:
    assert read_facts(TEA, finish_reason="length").status == "truncated"
    assert read_facts(None, finish_reason="length").status == "truncated"


@pytest.mark.parametrize(
    "reply",
    [
        '{"memories":["Likes tea", ...]}',
        '{"memories":["Likes tea", "..."]}',
        '{"memories":["Likes tea", {"text": "…"}]}',
        '{"memories":[{"text":"Likes tea"}, {...}]}',
        '{"memories":["Likes tea"], "has_more": true}',
    ],
)
def test_a_reply_that_says_it_left_something_out_is_not_whole(reply: str) -> None:
    read = read_facts(reply, finish_reason="stop")
    assert ([item["text"] for item in read.items], read.status) == (["Likes tea"], "truncated")
    assert read.dropped_items == 0


@pytest.mark.parametrize(
    "reply",
    [
        '{"error":"the context is too long","memories":[]}',
        '{"status":"failed","facts":[]}',
        '{"$schema":"https://json-schema.org","memories":[]}',
        '{"type":"object","memories":[]}',
        '{"memories":[...]}',
        '{"memories":["..."]}',
        "I looked at the list [] and at the rest.",
        "It reads: def f(x=[]): pass",
    ],
)
def test_an_empty_list_beside_a_failure_is_not_no_facts(reply: str) -> None:
    read = read_facts(reply, finish_reason="stop")
    assert (read.items, read.status) == ((), "parse_error")
    assert read.error


@pytest.mark.parametrize(
    "words",
    [
        "I can't help with that.",
        "I'm sorry, but I am unable to process this conversation.",
        "This is against my guidelines.",
        "Dabei kann ich leider nicht helfen.",
    ],
)
def test_a_refusal_beside_an_empty_list_is_a_refusal(words: str) -> None:
    for reply in (f'{words} {{"memories":[]}}', f"[]\n{words}"):
        assert read_facts(reply, finish_reason="stop").status == "refused"
    assert read_facts(f"{words} {TEA}", finish_reason="stop").status == "ok"
    thought = f"<think>{words}</think>[]"
    assert read_facts(thought, finish_reason="stop").status == "empty"


def test_a_draft_in_reasoning_that_was_cut_is_no_answer() -> None:
    read = read_facts(f"<think>perhaps {TEA}", finish_reason="length")
    assert (read.items, read.status) == ((), "truncated")


@pytest.mark.parametrize(
    "reply",
    ["[]", '{"memories":[]}', "```json\n[]\n```", "<think>none</think>[]", "Nothing durable: []",
     'I could not find any facts: {"memories":[]}', "**[]**", "=> []"],
)  # fmt: skip
def test_a_valid_empty_list_is_empty(reply: str) -> None:
    read = read_facts(reply, finish_reason="stop")
    assert (read.items, read.status, read.error) == ((), "empty", None)


@pytest.mark.parametrize(
    "reply",
    [
        None,
        "",
        "I am sorry, I can't help with that.",
        "It uses an int[] and { braces }.",
        "{}",
        '{"User likes coffee": ""}',
        '{"memories":{"User likes coffee": ""}}',
        '{"likes":["tea"]}',
        '{"memories":"none were found"}',
        '{"memories":null}',
        '{"memories":[{"text":" "},{"note":"x"},7,null]}',
        '[{"role":"user","content":"I like tea"}]',
        '<think>{"memories":["a draft"]}</think>I would rather not.',
        "{" * 5000,
        "[" * 5000,
        "[" * 980 + "]" * 980,
        '{"a":' * 980 + "1" + "}" * 980,
    ],
)
def test_no_readable_item_is_an_error_and_not_no_facts(reply: str | None) -> None:
    read = read_facts(reply, finish_reason="stop")
    assert (read.items, read.status) == ((), "parse_error")
    assert read.error


def test_refusals_are_told_by_the_endpoint() -> None:
    assert read_facts(None, finish_reason="stop", refusal="I can't.").status == "refused"
    assert read_facts(TEA, finish_reason="content_filter").status == "refused"
    assert read_facts(TEA, finish_reason="stop", refusal="").status == "ok"


def test_items_that_cannot_be_read_are_counted() -> None:
    read = read_facts('{"memories":["a",{"note":1},{"text":""},[],oops]}', finish_reason="stop")
    assert (len(read.items), read.dropped_items) == (1, 4)


def test_what_no_store_can_hold_is_replaced_and_counted() -> None:
    reply = r'{"memories":[{"text":"a\ud800b\u0000","context":"\udc00"}]}'
    read = read_facts(reply, finish_reason="stop")
    assert read.items == ({"text": "a\ufffdb\ufffd", "context": "\ufffd"},)
    assert read.repaired == 3


def test_details_are_kept_in_one_shape_and_unknown_keys_are_not() -> None:
    item = {"text": "a", "context": "", "sources": [1, "m2"], "event_time": "2024", "topics": "x"}
    kept = {"text": "a", "sources": ["1", "m2"], "event_time": "2024", "topics": ["x"]}
    for given in (item, {key.upper(): value for key, value in item.items()}):
        read = read_facts(json.dumps([given | {"confidence": 1}]), finish_reason="stop")
        assert read.items == (kept,)


@pytest.mark.parametrize(
    "unit",
    ["[", '{"a" ', '["a ', '["a",', "'a ", "<think>", "</think>", "[1] ", '{"x":1} ', '{"a":{',
     '{"memories":["a"], ', '"\n', "\\", '[{"text": x}, '],
)  # fmt: skip
def test_a_reply_in_circles_is_given_up_in_time(unit: str) -> None:
    begin = time.process_time()
    read_facts(unit * 20_000, finish_reason="length")
    assert time.process_time() - begin < 4
