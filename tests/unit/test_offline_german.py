"""German memories are decided as English ones are."""

import pytest

from memorypipe.llm.offline_rules.decide import decide
from memorypipe.llm.types import DecideTask, Existing, Fact


def event(existing: str, fact: str) -> str:
    task = DecideTask(facts=[Fact(text=fact)], existing=[Existing(id="m", text=existing)])
    (action,) = decide(task)
    return str(action["event"])


@pytest.mark.parametrize(
    ("existing", "fact", "expected"),
    [
        ("Lebt in Graz", "Ist im Mai nach Linz gezogen", "UPDATE"),
        ("Arbeitet als Lehrerin", "Arbeitet nun als Ärztin", "UPDATE"),
        ("Ist 29 Jahre alt", "Ist inzwischen 30 Jahre alt", "UPDATE"),
        ("Ist ledig", "Ist mit Tim verlobt", "UPDATE"),
        ("Tante Inge wohnt in Ulm", "Tante Inge ist nach Kiel gezogen", "UPDATE"),
        ("Mag keine Pilze", "Mag Pilze", "UPDATE"),
        ("Liebt Regen", "Hasst Regen", "UPDATE"),
        ("Hat ein Klavier", "Hat das Klavier verschenkt", "UPDATE"),
        ("Wohnt in Bern", "Wohnt nicht mehr in Bern", "UPDATE"),
        ("Hat vier Hühner", "Hat 4 Hühner", "NONE"),
        ("Wohnt in Graz", "Lebt in Graz", "NONE"),
        ("Sohn Ben arbeitet bei Audi", "Arbeitet bei Seat", "ADD"),
        ("Hat eine Katze", "Hat ein Boot", "ADD"),
        ("Mag Pilze", "Mag Regen", "ADD"),
    ],
)
def test_what_a_german_fact_does_to_a_memory(existing: str, fact: str, expected: str) -> None:
    assert event(existing, fact) == expected
