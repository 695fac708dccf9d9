"""The evaluation's own cases: valid, unique, enough of each kind, and unknown to the rules."""

import ast
import doctest
import importlib
import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from benchmarks.eval.cases import (
    CASE_FOLDER,
    KINDS,
    CaseError,
    DecideCase,
    ExtractCase,
    chosen,
    load_cases,
)
from memorypipe.llm import offline_rules

CASES = load_cases()
DECIDE: dict[str, Any] = {
    "id": "c1",
    "stage": "decide",
    "kind": "update",
    "language": "en",
    "input": {"existing": [{"id": "m1", "text": "Lives in Rome"}], "facts": [{"text": "Moved"}]},
    "gold": {"actions": [{"event": "UPDATE", "target": "m1", "text": {"all": [["moved"]]}}]},
}
EXTRACT: dict[str, Any] = {
    "id": "c2",
    "stage": "extract",
    "kind": "statement",
    "language": "en",
    "input": {"turns": [{"id": "t1", "role": "user", "content": "Hello"}]},
    "gold": {"facts": []},
}


def _stage(case: ExtractCase | DecideCase) -> str:
    return "extract" if isinstance(case, ExtractCase) else "decide"


def _load(folder: Path, *cases: dict[str, Any]) -> list[ExtractCase | DecideCase]:
    path = folder / "cases.jsonl"
    path.write_text("\n".join(map(json.dumps, cases)), "utf-8")
    return load_cases([path])


def test_there_are_at_least_two_hundred_cases_and_ten_of_each_kind() -> None:
    counts = Counter((_stage(case), case.kind) for case in CASES)
    assert len(CASES) >= 200
    assert set(counts) == {(stage, kind) for stage in KINDS for kind in KINDS[stage]}
    assert min(counts.values()) >= 10


def test_every_kind_is_asked_in_both_languages() -> None:
    counts = Counter((_stage(case), case.kind, case.language) for case in CASES)
    assert len(counts) == 2 * sum(map(len, KINDS.values()))
    assert min(counts.values()) >= 2


def test_a_gold_fact_never_asks_for_what_its_own_case_does_not_say() -> None:
    """A gold fact of which no keyword group occurs in the transcript could not be found."""
    for case in CASES:
        if isinstance(case, ExtractCase):
            said = " ".join(turn.content for turn in case.task.turns if turn.role == "user")
            for fact in case.facts:
                assert any(type(fact)(every=(group,)).fits(said) for group in fact.every), case.id


def test_the_gold_of_an_update_is_not_met_by_leaving_the_memory_as_it_is() -> None:
    for case in CASES:
        if isinstance(case, DecideCase):
            texts = {memory["id"]: memory["text"] for memory in case.existing}
            for action in (one for gold in case.gold for one in gold):
                if action.event == "UPDATE" and action.text is not None:
                    assert not action.text.fits(texts[action.target]), case.id


def test_the_rules_know_no_case() -> None:
    """No text of a case of three words or more stands in the code of the rules."""
    known = "\n".join(_strings()).casefold()
    texts = {
        text
        for case in CASES
        if isinstance(case, DecideCase)
        for text in (*(fact.text for fact in case.facts), *(m["text"] for m in case.existing))
    }
    assert "before:" in known
    assert not [text for text in texts if len(text.split()) > 2 and text.casefold() in known]


def _strings() -> Iterator[str]:
    """Give the strings in the code of the rules, word lists and patterns, not the docstrings."""
    for path in Path(offline_rules.__path__[0]).glob("*.py"):
        tree = ast.parse(path.read_text("utf-8"))
        told = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
        for node in ast.walk(tree):
            if isinstance(node, ast.Constant) and id(node) not in told:
                yield str(node.value)


def test_a_valid_case_is_read_whole(tmp_path: Path) -> None:
    decide, extract = _load(tmp_path, DECIDE, EXTRACT)
    assert isinstance(decide, DecideCase)
    assert isinstance(extract, ExtractCase)
    assert (decide.gold[0][0].target, decide.facts[0].text) == ("m1", "Moved")
    assert extract.task.turns[0].content == "Hello"


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"kind": "advice"}, "kind must be one of"),
        ({"language": "xx"}, "language must be one of"),
        ({"stage": "guess"}, "stage must be one of"),
        ({"more": 1}, "a case is an object with the keys"),
        ({"input": {"existing": []}}, "'facts' is missing"),
        ({"gold": {"actions": []}}, "one gold action per fact"),
        ({"gold": {"actions": [{"event": "UPDATE", "target": "m9"}]}}, "target must be one of"),
        ({"gold": {"actions": [{"event": "DELETE"}]}}, "have a target"),
        ({"gold": {"actions": [{"event": "ADD", "target": "m1"}]}}, "have a target"),
        ({"gold": {"actions": [{"event": "UPDATE", "target": "m1"}]}}, "needs the pattern"),
        ({"gold": {"actions": [{"event": "ADD", "text": {"all": []}}]}}, "list of groups"),
        ({"gold": {"actions": [{"event": "ADD", "text": {"all": [[" "]]}}]}}, "not blank"),
    ],
)
def test_an_invalid_case_is_refused_with_its_line(
    tmp_path: Path, change: dict[str, Any], told: str
) -> None:
    with pytest.raises(CaseError, match=rf"cases.jsonl, line 2: .*{told}"):
        _load(tmp_path, EXTRACT, DECIDE | change)


def test_an_id_that_stands_twice_is_refused(tmp_path: Path) -> None:
    with pytest.raises(CaseError, match="'c1' stands twice"):
        _load(tmp_path, DECIDE, DECIDE)


def test_the_limit_counts_each_kind_and_language() -> None:
    few = list(chosen(CASES, kinds=["negation"], languages=["en", "de"], limit=2))
    assert Counter((_stage(case), case.language) for case in few) == {
        (stage, language): 2 for stage in KINDS for language in ("en", "de")
    }


@pytest.mark.parametrize("name", ["locomo", "matching", "metrics", "scoring", "tables"])
def test_the_examples_in_the_docstrings_hold(name: str) -> None:
    found = doctest.testmod(importlib.import_module(f"benchmarks.eval.{name}"))
    assert found.attempted > 0
    assert found.failed == 0


def test_the_files_of_the_package_are_what_is_loaded() -> None:
    lines = sum(len(path.read_text("utf-8").splitlines()) for path in CASE_FOLDER.iterdir())
    assert lines == len(CASES)
