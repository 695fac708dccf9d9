"""The one estimate of tokens: what it weighs, and that it is cheap and stable."""

import json
import sys

import pytest

from memorypipe.llm.tokens import (
    MESSAGE_TOKENS,
    UNITS_PER_TOKEN,
    char_units,
    estimate_request_tokens,
    estimate_tokens,
    known_tokenizer,
    tokenizer_of,
)

# Sentences and what the vocabulary o200k_base makes of them.
COUNTED = {
    "en": ("My sister has promised to visit us next month, together with her children.", 15),
    "zh": ("昨天我终于搬进了公司附近的新公寓，再也不用每天花两个小时上下班了。", 22),  # noqa: RUF001  # Chinese as it is written
    "ru": ("Моя сестра обещала приехать в гости в следующем месяце вместе со своими детьми.", 20),  # noqa: RUF001  # Russian, as above
}


@pytest.mark.parametrize("language", COUNTED)
def test_the_estimate_is_near_what_a_real_tokenizer_counts(language: str) -> None:
    text, count = COUNTED[language]
    assert estimate_tokens(text * 10) == pytest.approx(10 * count, rel=0.15)


@pytest.mark.parametrize("text", ["", "a", "tea", "字", "😀", "é", "\n", "\ud83d", "\x00", "𠀀"])
def test_the_estimate_is_the_sum_of_the_weights_rounded_up(text: str) -> None:
    units = char_units(text)
    assert len(units) == len(text)
    assert estimate_tokens(text) == -(-int(units.sum()) // UNITS_PER_TOKEN)


def test_nothing_but_the_empty_text_is_free() -> None:
    assert estimate_tokens("") == 0
    assert {estimate_tokens(chr(code)) for code in range(0x250)} == {1}


@pytest.mark.parametrize(("text", "least", "most"), [("😀" * 8, 8, 16), ("字" * 8, 5, 8)])
def test_scripts_weigh_what_they_cost(text: str, least: int, most: int) -> None:
    assert least <= estimate_tokens(text) <= most


def test_code_weighs_more_per_character_than_prose() -> None:
    code = json.dumps({"fact": 0, "event": "ADD", "target_id": None})
    prose = "I have a dog and it likes to run in the park with me"
    assert estimate_tokens(code) / len(code) > 1.2 * estimate_tokens(prose) / len(prose)


def test_a_request_costs_its_texts_and_the_marks_around_them() -> None:
    system, user = "Keep facts. " * 50, "I own a piano."
    messages = [{"role": "system", "content": system}, {"role": "user", "content": user}]
    assert estimate_request_tokens(messages) == 2 * MESSAGE_TOKENS + estimate_tokens(system + user)


def test_what_is_no_text_counts_as_empty() -> None:
    assert estimate_request_tokens([{"role": "user", "content": None}, {"role": "user"}]) == (
        2 * MESSAGE_TOKENS
    )


@pytest.mark.parametrize(
    ("model", "tokenizer"),
    [
        ("gpt-4o-mini", "o200k_base"),
        ("openai/gpt-4.1", "o200k_base"),
        ("GPT-5-nano", "o200k_base"),
        ("o3-mini", "o200k_base"),
        ("gpt-oss-20b", "o200k_base"),
        ("gpt-4-turbo", "cl100k_base"),
        ("gpt-3.5-turbo", "cl100k_base"),
        ("gpt-40", None),
        ("o33", None),
        ("my-gpt-4o", None),
        ("llama-3", None),
    ],
)
def test_a_tokenizer_is_taken_only_for_models_that_are_known_to_have_it(
    model: str, tokenizer: str | None
) -> None:
    assert known_tokenizer(model) == tokenizer


def test_without_the_extra_a_known_model_is_estimated(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "bpe_openai", None)
    assert tokenizer_of("gpt-4o") == ("estimate", estimate_tokens)


def test_with_the_extra_a_known_model_is_counted_by_its_own_tokenizer() -> None:
    pytest.importorskip("bpe_openai", reason="the extra 'tokenizers'")
    name, count = tokenizer_of("gpt-4o")
    assert (name, count(COUNTED["en"][0]), count("<|endoftext|>") > 1) == ("o200k_base", 15, True)
