"""A model that goes wrong in every way known to us: nothing is lost, nothing is invented.

Each case is a seed: a log, a table with memories, and faults in a share of all replies. After the
run under chaos, and again after one with a healthy model over the same log, an oracle that knows
what was really said judges extraction, decisions, table, ledger and requests.
"""

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from tests.support.chaos_faults import ALTERED
from tests.support.chaos_forms import CUT
from tests.support.chaos_log import NAMES
from tests.support.chaos_model import FAULTS
from tests.support.chaos_oracle import final_violations, violations
from tests.support.chaos_scenario import RunRecord, Scenario

RATES = (0.9, 0.6, 0.3, 0.05)
SEEDS = 500
CHUNK = 25

# Seeds that once broke a rule, by the rule.
KEPT = {
    "a fact is not covered by a memory about something else": (5, 0.3),
    "nothing is deleted on the word of reasoning that never ended": (29, 0.9),
    "nothing is deleted on the word of a half that was cut": (19, 0.9),
    "a window whose reply was cut is not open for ever": (3, 0.9),
}


# Replies that are empty, or whole, to a hasty reader only.
HOLLOW = (
    "echo of the prompt alone",
    "nothing, beside a failure",
    "nothing at first",
    "beside an empty list",
)


def judged(scenario: Scenario) -> list[str]:
    """Run under chaos, then with a healthy model, and list every rule that was broken."""
    wrong = [f"under chaos: {each}" for each in violations(scenario, scenario.run())]
    scenario.heal()
    wrong += [f"healed: {each}" for each in violations(scenario, scenario.run())]
    return wrong + [f"in the end: {each}" for each in final_violations(scenario)]


@pytest.fixture(scope="module")
def small() -> Iterator[list[Scenario]]:
    """A dozen seeds, each with its own rate; every other one has a journal."""
    with TemporaryDirectory() as folder:
        yield [
            Scenario.make(seed, RATES[seed // 2 % len(RATES)], Path(folder) / str(seed))
            for seed in range(12)
        ]


@pytest.mark.parametrize("place", range(12))
def test_under_chaos_every_fact_is_kept_decided_or_listed_as_failed(
    small: list[Scenario], place: int
) -> None:
    assert judged(small[place]) == []


def test_the_dozen_seeds_put_the_rules_to_the_test(small: list[Scenario]) -> None:
    """What the cases above show would be nothing, had hardly anything gone wrong in them."""
    runs: list[RunRecord] = [run for scenario in small for run in scenario.runs]
    if len(runs) < 2 * len(small):
        pytest.skip("it looks back at the cases above")
    entries = [entry for scenario in small for entry in scenario.model.ledger]
    met = Counter(fault for entry in entries for fault in entry.faults)
    assert len(met) > 0.8 * len(FAULTS)
    assert sum(len(run.open_windows) for run in runs if run.number == 0) > 20
    events = Counter(
        decided.event for run in runs for r in run.results.values() for decided in r.actions
    )
    assert set(events) == {"ADD", "UPDATE", "DELETE", "NONE"}


@pytest.mark.parametrize(("seed", "rate"), KEPT.values(), ids=KEPT.keys())
def test_what_once_went_wrong(seed: int, rate: float, tmp_path: Path) -> None:
    assert judged(Scenario.make(seed, rate, tmp_path)) == []


@pytest.mark.parametrize("fault", [*ALTERED, *CUT, *HOLLOW])
def test_a_model_that_is_wrong_in_one_way_most_of_the_time(fault: str, tmp_path: Path) -> None:
    scenario = Scenario.make(1, 0.8, tmp_path, faults=[fault], names=NAMES[:1])
    assert judged(scenario) == []


@pytest.mark.slow
@pytest.mark.parametrize("fault", FAULTS)
def test_a_model_that_is_wrong_in_one_way_most_of_the_time_further_seeds(
    fault: str, tmp_path: Path
) -> None:
    for seed in range(4):
        scenario = Scenario.make(seed, 0.8, tmp_path / str(seed), faults=[fault])
        assert judged(scenario) == [], (seed, fault)


@pytest.mark.slow
@pytest.mark.parametrize("start", range(0, SEEDS, CHUNK))
@pytest.mark.parametrize("rate", RATES)
def test_further_seeds(start: int, rate: float, tmp_path: Path) -> None:
    wrong = {}
    for seed in range(start, start + CHUNK):
        if found := judged(Scenario.make(seed, rate, tmp_path / str(seed))):
            wrong[seed] = found
    assert wrong == {}
