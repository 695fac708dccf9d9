"""Short names are found where a rejected line gives them as a value, and nowhere else."""

import json

import pytest

from memorypipe.table.erasing.short_names import ShortNames


def _reject(excerpt: str) -> bytes:
    reject = {"source": "log", "line": 42, "reason": "no JSON", "excerpt": excerpt}
    return json.dumps(reject, ensure_ascii=False).encode()


@pytest.mark.parametrize("name", ["u1", "42", "é 1", 'a"b'])
def test_a_name_is_found_as_a_value_however_json_writes_it(name: str) -> None:
    names = ShortNames([name, "a long name of somebody"])
    for is_ascii in (True, False):
        once = json.dumps({"user_id": name}, ensure_ascii=is_ascii)
        twice = json.dumps({"raw": once}, ensure_ascii=is_ascii)
        for excerpt in (once, twice, once[:-2], f"user={name} x", f"user: {name}", name):
            assert names.given_in(_reject(excerpt)), excerpt
    assert names.given_in(f"broken {{'user': '{name}'".encode())


@pytest.mark.parametrize(
    "excerpt",
    ['{"user_id":"u12"}', '{"user_id":"u1-b"}', '{"u":"u1@b"}', '{"u":"u1.b"}', '{"u":"xu1"}', ""],
)
def test_another_name_is_not_taken_for_it(excerpt: str) -> None:
    assert not ShortNames(["u1"]).given_in(_reject(excerpt))


def test_the_number_of_a_line_is_nobodys_name() -> None:
    assert not ShortNames(["42"]).given_in(_reject("{"))
    assert not ShortNames([]).given_in(_reject("{"))


def test_a_path_names_somebody_by_a_word() -> None:
    names = ShortNames(["u1"])
    assert [names.named_in(path) for path in ("/out/u1.jsonl", "/out/u12.jsonl")] == [True, False]
    assert not ShortNames([]).named_in("/out/.jsonl")
