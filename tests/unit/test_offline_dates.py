"""When something happened, by the words of a statement."""

from datetime import date

import pytest

from memorypipe.llm.offline_rules.dates import event_date
from memorypipe.llm.offline_rules.extract import extract_facts
from memorypipe.llm.types import ExtractTask, Turn

WEDNESDAY = date(2023, 3, 15)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Signed the lease on 2022-11-30", "2022-11-30"),
        ("Retires on 1st of July 2031", "2031-07-01"),
        ("Has an appointment on March 20th", "2023-03-20"),
        ("Was in Lima on 30 December", "2022-12-30"),
        ("Graduated in June 2009", "2009-06"),
        ("Born on 31 February 2020", "2020-02"),
        ("Has lived in Ghent since 1998", "1998"),
        ("Sold the boat the day before yesterday", "2023-03-13"),
        ("Saw an opera last night", "2023-03-14"),
        ("Returns in three days", "2023-03-18"),
        ("Quit smoking 2 weeks ago", "2023-03-01"),
        ("Adopted a dog five months ago", "2022-10"),
        ("Learnt to swim ten years ago", "2013"),
        ("Goes to Bali next month", "2023-04"),
        ("Broke a rib last week", "2023-03-08"),
        ("Met Ana last Friday", "2023-03-10"),
        ("Has a race next Wednesday", "2023-03-22"),
        ("Ist am 7. Februar 2001 nach Graz gezogen", "2001-02-07"),
        ("Hat am 3.10.2020 geheiratet", "2020-10-03"),
        ("War vor zwei Tagen beim Arzt", "2023-03-13"),
        ("Fliegt übermorgen nach Wien", "2023-03-17"),
        ("Zieht nächsten Monat um", "2023-04"),
        ("Wohnt seit 2015 in Köln", "2015"),
    ],
)
def test_a_date_is_as_exact_as_the_words(text: str, expected: str) -> None:
    assert event_date(text, WEDNESDAY) == expected


@pytest.mark.parametrize(
    "text",
    ["Likes tea", "Joggt jeden Morgen", "Has 2 cats", "Room 2019"],
)
def test_what_names_no_date_has_none(text: str) -> None:
    assert event_date(text, WEDNESDAY) is None


@pytest.mark.parametrize(
    "text", ["Moved yesterday", "Flies next week", "Left 3 May", "War gestern da"]
)
def test_nothing_is_counted_from_a_day_that_nobody_knows(text: str) -> None:
    assert event_date(text, None) is None


def test_a_fact_is_of_the_day_that_it_names_and_keeps_its_words() -> None:
    turns = [Turn(role="user", content="I moved to Ghent two weeks ago. I love tea.")]
    facts = extract_facts(ExtractTask(turns=turns, context="Date: 2023-03-15"))
    assert [(fact["text"], fact["event_time"]) for fact in facts] == [
        ("Moved to Ghent two weeks ago", "2023-03-01"),
        ("Loves tea", "2023-03-15"),
    ]
