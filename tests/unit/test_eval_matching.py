"""When a text counts as saying what a case looks for."""

import pytest

from benchmarks.eval.matching import Pattern


def _fits(text: str, *groups: str, none: str = "") -> bool:
    every = tuple(tuple(group.split("|")) for group in groups)
    return Pattern(every=every, none=tuple(filter(None, none.split("|")))).fits(text)


@pytest.mark.parametrize(
    ("text", "group", "found"),
    [
        ("Is allergic to nuts", "allerg", True),
        ("Has an ALLERGY", "allerg", True),
        ("Likes teams", "tea", False),
        ("Has cats", "cat", True),
        ("Is a caterer", "cat", False),
        ("Runs a café", "cafe\u0301", True),
        ("Has seven cats", "7", True),
        ("Hat zwei Katzen", "2", True),
        ("Is 17", "7", False),
        ("Budget is 8,000 euros", "8", False),
        ("Leaves at 19:15", "9:15", False),
        ("Leaves at 9:15.", "9:15", True),
        ("Doesn't eat meat", "not", True),
        ("Can't swim", "not", True),
        ("Cannot swim", "not", True),
        ("Ist verheiratet", "heirat", False),
        ("Ist verheiratet", "*heirat", True),
        ("Is a vegetarian", "vegan|vegetar", True),
    ],
)
def test_a_keyword_is_found_where_it_is_meant(text: str, group: str, *, found: bool) -> None:
    assert _fits(text, group) is found


def test_every_group_is_needed_and_nothing_forbidden_may_be_there() -> None:
    assert _fits("Brother Jack lives in York", "jack|brother", "york")
    assert not _fits("Lives in York", "jack|brother", "york")
    assert not _fits("Doesn't like York", "york", none="not|never")


def test_a_date_counts_as_the_time_of_the_fact_or_in_its_text() -> None:
    pattern = Pattern(every=(("oslo",),), when=("2024-05-2",))
    assert pattern.is_dated("Flies to Oslo", "2024-05-21T00:00:00Z")
    assert pattern.is_dated("Flies to Oslo on 2024-05-21", None)
    assert not pattern.is_dated("Flies to Oslo", "2024-05-19")
    assert not pattern.is_dated("Flies to Oslo", None)


@pytest.mark.parametrize("value", [None, [], {}, {"all": "tea"}, {"all": ["tea"]}, {"any": []}])
def test_what_is_no_pattern_is_refused(value: object) -> None:
    with pytest.raises(ValueError, match=r"pattern|keywords"):
        Pattern.read(value)
