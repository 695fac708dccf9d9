"""Chaos through a real socket and the real client: judged as chaos without one is."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from tests.support.chaos_log import NAMES
from tests.support.chaos_oracle import final_violations, violations
from tests.support.chaos_scenario import Scenario
from tests.support.chaos_wire import WIRE_FAULTS, WireChaosModel, served


def judged(scenario: Scenario) -> list[str]:
    """Run under chaos, then with a healthy model, and list every rule that was broken."""
    assert isinstance(scenario.model, WireChaosModel)
    with served(scenario.model) as wire:
        wired = replace(scenario, wire=wire)
        wrong = [f"under chaos: {each}" for each in violations(wired, wired.run())]
        wired.heal()
        wrong += [f"healed: {each}" for each in violations(wired, wired.run())]
        return wrong + [f"in the end: {each}" for each in final_violations(wired)]


def make(
    seed: int, rate: float, folder: Path, *, faults: Sequence[str] = WIRE_FAULTS, people: int = 3
) -> Scenario:
    return Scenario.make(
        seed, rate, folder, faults=faults, names=NAMES[:people], chaos=WireChaosModel
    )


ON_THE_WIRE = tuple(name for name in WIRE_FAULTS if WireChaosModel.is_on_the_wire(name))


@pytest.mark.parametrize("seed", range(2))
def test_over_http_every_fact_is_kept_decided_or_listed_as_failed(
    seed: int, tmp_path: Path
) -> None:
    """Half of all requests meet a fault of the transport, or one of what is said."""
    scenario = make(seed, 0.5, tmp_path, faults=[*ON_THE_WIRE, *WIRE_FAULTS])
    assert judged(scenario) == []
    met = Counter(fault for entry in scenario.model.ledger for fault in entry.faults)
    assert sum(met[name] for name in ON_THE_WIRE) > 5


@pytest.mark.slow
@pytest.mark.parametrize("fault", ON_THE_WIRE)
def test_a_transport_that_fails_in_one_way_most_of_the_time(fault: str, tmp_path: Path) -> None:
    for seed in range(2):
        scenario = make(seed, 0.7, tmp_path / str(seed), faults=[fault], people=1)
        assert judged(scenario) == [], seed


@pytest.mark.slow
@pytest.mark.parametrize("rate", [0.9, 0.6, 0.3, 0.05])
def test_further_seeds_over_http(rate: float, tmp_path: Path) -> None:
    wrong = {}
    for seed in range(20):
        if found := judged(make(seed, rate, tmp_path / str(seed))):
            wrong[seed] = found
    assert wrong == {}
