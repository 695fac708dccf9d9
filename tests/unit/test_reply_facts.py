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
    "text",
    [
        *(
            "None",
            "N/A",
            "n/a.",
            "null",
            "nothing",
            "(none)",
            "No durable facts.",
            "No new memories",
        ),
        "No facts found in the transcript",
        "There are no durable facts in this conversation.",
        "No relevant information about the user was found.",
        *("Keine", "Keine Fakten gefunden", "Aucun fait durable", "Ninguno", "Nenhum fato", "Нет"),
        *("无", "没有持久的事实", "特になし", "없음"),
    ],
)
def test_an_item_that_says_that_there_is_none_is_no_fact(text: str) -> None:
    for reply in ([text], [{"text": text}], {"memories": [{"text": text, "sources": []}]}):
        read = read_facts(json.dumps(reply), finish_reason="stop")
        assert (read.items, read.status, read.dropped_items) == ((), "empty", 0)
    beside = {"memories": [{"text": text}, {"text": "Likes tea"}]}
    assert texts(json.dumps(beside)) == ["Likes tea"]


@pytest.mark.parametrize(
    "text",
    [
        *("No peanuts", "None of her children smoke", "No memory of the accident"),
        *("Has no information about it", "No data plan on the phone", "Nothing tastes like home"),
        *("Keine Geschwister", "没有兄弟姐妹", "Нет аллергии"),
    ],
)
def test_a_fact_that_denies_is_a_fact(text: str) -> None:
    assert texts(json.dumps([text])) == [text]


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
