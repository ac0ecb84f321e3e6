"""The budget: shares add up, and a fleet keeps it by simulation."""

import numpy as np
import pytest

from monitor.errors import SettingsError
from monitor.sequential.budget import share_budget
from monitor.sequential.detector import Bets
from monitor.sequential.evidence import YEAR_MS, Evidence
from monitor.sequential.naming import name_series


def test_shares_are_in_proportion_to_the_weights_and_add_up_to_the_budget() -> None:
    shares = share_budget(2.0, {("a", "1"): 1.0, ("b", "7"): 3.0}, {"calibration": 2.0, "change": 1.0, "off": 0.0})
    assert sum(shares.values()) == pytest.approx(2.0)
    assert shares[("b", "7"), "calibration"] == pytest.approx(6 * shares[("a", "1"), "change"])
    assert {detector for _, detector in shares} == {"calibration", "change"}


@pytest.mark.parametrize(
    ("per_year", "units", "detectors", "message"),
    [
        (0.0, {"a": 1.0}, {"d": 1.0}, "a budget of false alarms must be above 0 a year, got 0.0"),
        (1.0, {"a": 0.0}, {"d": 1.0}, "the weight of a must be above 0, got 0.0"),
        (1.0, {"a": 1.0}, {"d": -1.0}, "the weight of detector d must be at least 0, got -1.0"),
    ],
)
def test_what_is_out_of_range_is_refused(
    per_year: float, units: dict[str, float], detectors: dict[str, float], message: str
) -> None:
    with pytest.raises(SettingsError, match=message):
        share_budget(per_year, units, detectors)


def test_a_fleet_that_grows_keeps_its_budget_under_dependence() -> None:
    """Bets on the same noise, in series of different rates; fleets of 4 to 16 models in a year, 20 times over."""
    rng = np.random.default_rng(0)
    effect = np.array([-0.4, -0.2, 0.2, 0.4])
    steps, years, per_year = 1600, 20, 10.0
    alarms = 0
    for _ in range(years):
        fleet: dict[int, Evidence] = {}
        for start, models in zip(range(0, steps, steps // 4), (4, 8, 12, 16), strict=True):
            for model in range(len(fleet), models):
                fleet[model] = Evidence(start * YEAR_MS // steps)
            shares = share_budget(per_year, dict.fromkeys(fleet, 1.0), {"calibration": 1.0})
            end = np.arange(start + 1, start + steps // 4 + 1)
            common = rng.normal(size=(end.size, 1))
            for model, evidence in fleet.items():
                own = rng.normal(size=(end.size, 1))
                z = (common + own) / np.sqrt(2.0)
                kept = end % (1 + model % 3) == 0
                log_bets = (effect * z - effect**2 / 2)[kept]
                segment = (effect * own - effect**2 / 2)[kept]
                end_ms = end[kept] * YEAR_MS // steps
                series = {"whole": {"": Bets(end_ms, log_bets)}, "segments": {"a": Bets(end_ms, segment)}}
                alarms += len(evidence.update(series, 1.0 / shares[model, "calibration"]))
    assert 0.4 * per_year * years <= alarms <= per_year * years


def test_named_are_the_most_whose_smallest_evidence_is_enough() -> None:
    evidence = {"a": 1.2, "b": 4.5, "c": 0.1, "d": 2.1}
    assert name_series(evidence, 1.0) == ["b", "d"]
    assert name_series(evidence, 0.5) == []
    assert name_series(evidence, 2.0) == ["b", "d", "a"]
    assert name_series({}, 1.0) == []


def test_naming_is_by_the_definition_of_e_bh() -> None:
    rng = np.random.default_rng(1)
    for _ in range(200):
        values = rng.pareto(0.7, 6)
        order = np.sort(values)[::-1]
        largest = max((j for j in range(1, 7) if order[j - 1] >= 6 / (j * 0.8)), default=0)
        expected = {str(at) for at in range(6) if largest and values[at] >= order[largest - 1]}
        assert set(name_series({str(at): value for at, value in enumerate(values)}, 0.8)) == expected


def test_few_names_are_wrong() -> None:
    """A year after the evidence was 0; half of the segments change, so the bound is b times the other half."""
    rng = np.random.default_rng(2)
    per_year, steps, wrong, right, rounds = 0.5, 50, 0.0, 0, 300
    names = [str(at) for at in range(10)]
    ends = [YEAR_MS * step // steps for step in range(1, steps + 1)]
    for _ in range(rounds):
        evidence = Evidence(0)
        series = {}
        for name in names:
            z = rng.normal(0.5 * (int(name) >= 5), 1.0, (steps, 1))
            series[name] = Bets(np.array(ends), 0.5 * z - 0.125)
        evidence.update({"segments": series}, np.inf)
        named = name_series({name: s.evidence for name, s in evidence.groups()["segments"].items()}, per_year)
        wrong += sum(int(name) < 5 for name in named) / max(len(named), 1)
        right += sum(int(name) >= 5 for name in named)
    assert wrong / rounds <= per_year / 2
    assert right >= 3 * rounds
