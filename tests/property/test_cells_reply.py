"""Whatever a model says: reading it never fails, and nothing comes out that was not said."""

import json
from itertools import accumulate

from hypothesis import given
from hypothesis import strategies as st

from memorypipe.cells.actions import resolve_actions
from memorypipe.llm.replies.reply import read_actions, read_facts, read_json
from memorypipe.llm.types import Fact
from memorypipe.text import clean

WORDS = st.sampled_from(
    ["tea", "cat", "<think>", "</think>", "{", "}", "[", "]", '"', "'", ",", ":", "\\", "\n", " ",
     "```json", "null", "1", "text", "memories", '{"memories":[', '{"text":"', '"}', "]}", "//",
     "é", '{"actions":[{"fact":0,"event":"', "DELETE", '"target_id":"0"']
)  # fmt: skip
NOISE = st.lists(WORDS, max_size=40).map("".join)
# A small alphabet that holds what hurts; building the whole of Unicode takes seconds.
CHARACTERS = "aZ 0\"'\\/{}[]<>:,.`\n\t\u00e9\u2028\u559d\u2615\U0001f600\ud800\udc00\x00\x1f"
ANYTHING = st.text(alphabet=CHARACTERS, max_size=40)
# Dots and brackets alone stand for what a model left out, and are no text.
TEXTS = st.text(alphabet=CHARACTERS, min_size=1, max_size=30).filter(
    lambda text: text.strip(".()[]{} \n\t\u2028\x1f")
)
FINISH = st.sampled_from(["stop", "length", None])


@given(reply=NOISE | ANYTHING, finish_reason=FINISH)
def test_reading_never_fails_and_every_text_stands_in_the_reply(
    reply: str, finish_reason: str | None
) -> None:
    read = read_facts(reply, finish_reason=finish_reason)
    assert (read.status == "ok") <= bool(read.items)
    source = clean(reply)[0]
    for item in read.items:
        assert item["text"].strip()
        if "\\" not in reply:
            assert item["text"] in source


@given(texts=st.lists(TEXTS, min_size=1, max_size=5), ascii_only=st.booleans())
def test_a_well_formed_reply_is_read_whole_wherever_it_stands(
    texts: list[str], *, ascii_only: bool
) -> None:
    body = json.dumps({"memories": [{"text": text} for text in texts]}, ensure_ascii=ascii_only)
    # Two halves of a character, escaped one after the other, are that character.
    said = json.loads(body)["memories"]
    expected = [clean(item["text"])[0] for item in said]
    for reply in (
        body,
        f"```json\n{body}\n```",
        f"Well: {body} Done.",
        f"<think>a {{</think>{body}",
    ):
        read = read_facts(reply, finish_reason="stop")
        assert [item["text"] for item in read.items] == expected
        assert read.status == "ok"


@given(texts=st.lists(TEXTS, min_size=1, max_size=5), data=st.data())
def test_of_a_cut_reply_exactly_the_whole_items_are_kept(
    texts: list[str], data: st.DataObject
) -> None:
    items = [json.dumps({"text": text}) for text in texts]
    ends = list(accumulate((len(item) + 2 for item in items), initial=len('{"memories": [') - 2))
    body = f'{{"memories": [{", ".join(items)}]}}'
    cut = data.draw(st.integers(0, len(body) - 1))
    read = read_facts(body[:cut], finish_reason="length")
    whole = sum(end <= cut for end in ends[1:])
    expected = [clean(json.loads(item)["text"])[0] for item in items[:whole]]
    assert [item["text"] for item in read.items] == expected
    assert read.status == "truncated"


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats()
    | st.text(alphabet=CHARACTERS, max_size=5)
    | st.sampled_from(["ADD", "UPDATE", "DELETE", "NONE", "0", "1", "m0"]),
    lambda inner: st.lists(inner, max_size=4)
    | st.dictionaries(
        st.sampled_from(["actions", "fact", "event", "target_id", "text", "id", "x"]), inner
    ),
    max_leaves=25,
)  # fmt: skip
ITEMS = st.lists(
    st.fixed_dictionaries(
        {},
        optional={
            "fact": st.integers(-1, 4) | st.none(),
            "event": st.sampled_from(["ADD", "UPDATE", "DELETE", "NONE", "MERGE"]),
            "target_id": st.sampled_from(["0", "1", "m0", "9", None]),
            "text": st.sampled_from(["a", "b", "c", "", None]),
        },
    ),
    max_size=6,
)


@given(
    reply=NOISE | JSON.map(json.dumps) | ITEMS.map(lambda items: json.dumps({"actions": items})),
    facts=st.lists(st.sampled_from(["a", "b", "c", " "]), max_size=4),
    existing=st.lists(st.sampled_from(["a", "b", "d"]), max_size=3),
    finish_reason=FINISH,
)
def test_every_fact_gets_exactly_one_action_that_holds(
    reply: str, facts: list[str], existing: list[str], finish_reason: str | None
) -> None:
    memories = [{"id": f"m{place}", "text": text} for place, text in enumerate(existing)]
    old = {memory["id"]: memory["text"] for memory in memories}
    read = read_actions(reply, finish_reason=finish_reason)
    resolved = resolve_actions(
        [Fact(text=text) for text in facts], memories, read, fallback_action="ADD"
    )
    assert len(resolved.actions) == len(facts)
    changed = [action.target_id for action in resolved.actions if action.target_id]
    assert len(changed) == len(set(changed))
    for action, fact in zip(resolved.actions, facts, strict=True):
        assert isinstance(action.rationale, str)
        if action.event in {"UPDATE", "DELETE"}:
            assert action.target_id is not None
            assert action.old_memory == old[action.target_id]
        else:
            assert (action.target_id, action.old_memory) == (None, None)
        assert action.event in {"ADD", "UPDATE"} or action.text == fact
        assert action.event != "DELETE" or read.complete


VALUES = (
    st.none()
    | st.integers(-1, 3)
    | st.sampled_from([10**30, 1e999, 2.0, "1", "ADD", "</think>[1]"])
    | st.floats()
    | st.text(alphabet=CHARACTERS, max_size=8)
    | NOISE
)
KEYS = ["text", "Text", "context", "sources", "fact", "event", "target_id", "role", "x"]
OBJECTS = st.dictionaries(st.sampled_from(KEYS), VALUES | st.lists(VALUES, max_size=2), max_size=4)
SECOND = ' {"memories": [{"text": "b"}], "actions": [{"fact": 1}]}'
WRAPPERS = ["memories", "actions", "Facts ", "other"]


@st.composite
def whole_replies(draw: st.DrawFn) -> str:
    """Replies of one JSON value or almost; names may come twice in an object."""
    ascii_only = draw(st.booleans())
    pairs = [
        f'"{draw(st.sampled_from(WRAPPERS))}": {json.dumps(items, ensure_ascii=ascii_only)}'
        for items in draw(st.lists(st.lists(OBJECTS | VALUES, max_size=3), max_size=2))
    ]
    wrapped = "{" + ", ".join(pairs) + "}"
    bare = json.dumps(draw(OBJECTS | st.lists(OBJECTS, max_size=2)), ensure_ascii=ascii_only)
    before = draw(st.sampled_from(["", "", " \n", "\ufeff", "\u00a0", "\x1c", "<think>"]))
    behind = draw(st.sampled_from(["", "", "\n ", " Done.", "}", "</think>", " []", SECOND]))
    return before + draw(st.sampled_from([wrapped, bare])) + behind


@given(reply=whole_replies(), finish_reason=FINISH)
def test_a_reply_without_anything_around_it_is_read_as_one_with_a_word_before_it(
    reply: str, finish_reason: str | None
) -> None:
    """What is taken as it stands and what is searched for come out equal, to the last count."""
    for read in (read_facts, read_actions, read_json):
        alone = read(reply, finish_reason=finish_reason)
        # As text, for NaN is unequal to itself.
        assert repr(alone) == repr(read(f"So:\n{reply}", finish_reason=finish_reason))


@given(st.text(alphabet="a\u00e9\u559d\x00\ud800\udfff\ue000", max_size=6))
def test_cleaning_replaces_nul_and_halves_of_characters_and_nothing_else(text: str) -> None:
    def stored(char: str) -> str:
        return "\ufffd" if char == "\x00" or "\ud800" <= char <= "\udfff" else char

    repaired = sum(stored(char) != char for char in text)
    assert clean(text) == ("".join(map(stored, text)), repaired)
