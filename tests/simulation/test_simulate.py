"""What is counted is what the service would do: the same alarms, false ones within their bound, delays by hand."""

import dataclasses
import json
import math
import os
from collections.abc import Callable, Mapping

import numpy as np
import pytest

from monitor.alarms.watch import DETECTORS, WEIGHTS, VersionWatch
from monitor.errors import InputError
from monitor.events.model import ALL
from monitor.sequential.evidence import YEAR_MS
from monitor.simulation import simulate as module
from monitor.simulation.alarms import _WITHOUT_TOLERANCE, RaisedSteps, Run, Setting, SimulatedDetectors, follow, lines
from monitor.simulation.generator import DAY_MS, HOUR_MS
from monitor.simulation.page import simulation_page
from monitor.simulation.predictions import DrawnPredictions
from monitor.simulation.scenarios import Scenario
from monitor.simulation.simulate import ANY, Fleet, Plan, Simulation, simulate
from monitor.simulation.stream import CONCERNED, OTHERS, Course, SimulatedStream
from monitor.simulation.view import simulation_view
from tests.long import short_of
from tests.page.document import document_of

USUAL = DrawnPredictions.normal(0.2, 1.5, 3000.0)
COURSE = Course(14 * HOUR_MS, 3 * DAY_MS, 600_000, 4 * HOUR_MS, implied_negative=False)
SLOPE, OFFSET, NONE = (Scenario.parse(text) for text in ("slope", "prevalence=2", "none"))


@pytest.mark.parametrize("name", short_of(["segment=2", "slope=1.4"], 1))
def test_alarms_are_those_of_the_service(name: str) -> None:
    settings = [Setting(0.0, 2.0), Setting(0.05, 2.0), Setting(0.05, 50.0)]
    scenario = Scenario.parse(name)
    run = follow(
        SimulatedStream(USUAL, scenario, COURSE, 1),
        SimulatedDetectors(settings, 7, 1),
        COURSE,
        hours=5,
        until_raised=True,
    )
    assert run.raised[settings[0], "calibration"].first is not None
    for setting in settings:
        stream = SimulatedStream(USUAL, scenario, COURSE, 1)
        watch, at = VersionWatch("m", "1", setting.tolerance, 0), lines(setting.budget, 7)
        segments = (ALL, CONCERNED, OTHERS)
        # Those of the service have seeds of their own.
        watch._series = {
            (name, segment): DETECTORS[name].make(setting.tolerance, 0, 1) for name in WEIGHTS for segment in segments
        }
        firsts: dict[str, int | None] = dict.fromkeys(WEIGHTS)
        while stream.to_ms < COURSE.end_ms:
            drawn = stream.draw(5)
            for step in range(drawn[ALL].end_ms.size):
                watch.update({segment: steps.part(step, step + 1) for segment, steps in drawn.items()}, at)
                for detector, level in watch.levels(at).items():
                    if level.raised is not None and firsts[detector] is None:
                        firsts[detector] = level.raised.end_ms
        assert {name: run.raised[setting, name].first for name in WEIGHTS} == firsts


def test_detectors_that_share_bets_for_all_tolerances_do_not_use_them() -> None:
    for name in WEIGHTS:
        states = [DETECTORS[name].make(tolerance, 0, 5).state() for tolerance in (0.0, 0.3)]
        assert (str(states[0]) == str(states[1])) == (name in _WITHOUT_TOLERANCE)


def run(scenarios: str, **changes: object) -> Simulation:
    usual = {"tolerances": (0.05,), "budgets": (1.0,), "runs": 6, "days": 3.0}
    plan = Plan(**{"scenarios": [Scenario.parse(one) for one in scenarios.split()], **usual, **changes})  # type: ignore[arg-type]
    return simulate(USUAL, plan, Fleet(models=10))


@pytest.mark.long
def test_false_alarms_are_within_the_bound_where_many_are_allowed() -> None:
    """Of each detector, on predictions that stay right."""
    budget = 20_000.0
    found = run("none seasonality", tolerances=(0.0,), budgets=(budget,), runs=6, days=10.0)
    for scenario in found.plan.scenarios:
        for detector in (*WEIGHTS, ANY):
            result, alarms = (
                found.result(scenario, Setting(0.0, budget), detector),
                found.false_alarms(scenario, Setting(0.0, budget), detector),
            )
            bound = budget * (1.0 if detector == ANY else 1.0 / len(WEIGHTS))
            assert alarms.bound == pytest.approx(bound)
            allowed = bound / 10 * result.model_years
            print(scenario.title, detector, alarms.alarms, allowed)
            assert alarms.alarms <= allowed + 3.0 * math.sqrt(allowed)
            assert alarms.per_year == pytest.approx(alarms.alarms / result.model_years * 10)
            assert alarms.upper > alarms.per_year
    # Enough of them, though only those count that come while none fires.
    assert found.false_alarms(NONE, Setting(0.0, budget), "calibration").alarms > 10


def test_delays_are_sooner_with_less_tolerance_and_a_larger_budget() -> None:
    found = run("slope ramp", tolerances=(0.0, 0.1), budgets=(1.0, 365.0), days=6.0)
    for scenario in found.plan.scenarios:
        medians = [
            found.detection(scenario, Setting(t, b), "calibration").events for t, b in ((0.0, 365.0), (0.1, 1.0))
        ]
        assert medians[0] is not None
        assert medians[1] is not None
        assert medians[0] < medians[1]


def test_no_change_of_prevalence_moves_the_detector_that_is_robust_to_it() -> None:
    found = run("prevalence=2")
    assert found.detection(OFFSET, Setting(0.05, 1.0), "prevalence").share == 0.0
    assert found.detection(OFFSET, Setting(0.05, 1.0), "calibration").share == 1.0


def raised_at(hours: Mapping[str, float | None]) -> Run:
    """A run with an alarm after these hours, of 100 labelled predictions an hour."""
    end_ms = COURSE.change_ms + np.arange(1, 349) * 600_000
    first = {name: None if at is None else COURSE.change_ms + round(at * HOUR_MS) for name, at in hours.items()}
    setting = Setting(0.05, 6.0)
    raised = {
        (setting, name): RaisedSteps([] if (at := first.get(name)) is None else [at, at + 1], at) for name in WEIGHTS
    }
    return Run(raised, end_ms, np.arange(1, 349) * 100 // 6, 60_000)


def test_results_are_as_computed_by_hand() -> None:
    runs = [raised_at({"calibration": 2.0, "change": 1.0}), raised_at({"calibration": 4.0}), raised_at({})]
    plan, fleet = Plan(tolerances=[0.05], budgets=[6.0]), Fleet(models=4)
    results = {
        (one.scenario, one.detector): one for one in module._results({SLOPE: runs, NONE: runs}, plan, fleet, COURSE)
    }
    detection = results["slope", "calibration"].detection
    assert detection == module.Detection(2 / 3, 400.0, None, 4.0, None)
    detection = results["slope", ANY].detection
    assert detection == module.Detection(2 / 3, 400.0, None, 4.0, None)
    detection = results["slope", "change"].detection
    assert detection == module.Detection(1 / 3, None, None, None, None)
    assert results["slope", ANY].false_alarms is None
    alarms = results["none", ANY].false_alarms
    assert alarms is not None
    years = 3 * 3 / 365.25
    assert results["none", ANY].model_years == pytest.approx(years) == pytest.approx(3 * COURSE.end_ms / YEAR_MS)
    assert (alarms.alarms, alarms.bound) == (6, 6.0)
    assert alarms.per_year == pytest.approx(6 / years * 4)
    # The largest rate at which 6 or fewer have a probability of 5%.
    mean = alarms.upper * years / 4
    assert sum(math.exp(-mean) * mean**k / math.factorial(k) for k in range(7)) == pytest.approx(0.05)


def test_missing_labels_that_count_as_negative_are_no_false_alarms() -> None:
    plan = Plan([Scenario.parse("delayed"), Scenario.parse("outage")], [0.05], [1.0], 3.0, 2)
    found = simulate(USUAL, plan, Fleet(implied_negative=True))
    for scenario in plan.scenarios:
        assert found.detection(scenario, Setting(0.05, 1.0)).share == 1.0


def test_equal_seeds_give_equal_results_whatever_threads_do(monkeypatch: pytest.MonkeyPatch) -> None:
    first = run("slope none", runs=3)
    monkeypatch.setattr(os, "cpu_count", lambda: 1)
    assert run("slope none", runs=3) == first
    assert run("slope none", runs=3, seed=1) != first


def test_it_is_shown_as_words_json_and_a_page() -> None:
    found = run("none shocks slope", runs=2, tolerances=(0.0, 0.05), budgets=(1.0, 12.0))
    document = json.loads(json.dumps(found.to_dict()))
    assert len(document["results"]) == 3 * 4 * 4
    one = document["results"][0]
    assert list(one) == [field.name for field in dataclasses.fields(module.SimulationResult)]
    assert set(one["false_alarms"]) == {"alarms", "per_year", "upper", "bound"}
    assert set(document["results"][-1]["detection"]) == {"share", "events", "events_90", "hours", "hours_90"}
    assert document["models"] == 10
    view = simulation_view(found)
    assert "a tolerance of 0 and 1 false alarm a year for 10 models" in view.lead.sentence
    assert [section.title for section in view.sections] == [
        "What each tolerance and budget costs",
        "By detector, with a tolerance of 0 and 1 false alarm a year for 10 models",
        "False alarms a year of 10 models",
        "The scenarios",
    ]
    delays, false_alarms = document_of(simulation_page(found))["figures"]
    assert [panel["title"] for panel in delays["panels"]] == ["slope 1.3"]
    assert (delays["at"], delays["panels"][0]["lines"][0]["name"]) == ([1.0, 12.0], "tolerance 0")
    assert (false_alarms["line"], len(false_alarms["rows"])) == (1.0, 2)
    assert len(document_of(simulation_page(run("none", runs=1, days=1.0)))["figures"]) == 1


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Plan(tolerances=[3.0]), "--tolerance must be at least 0 and at most 2 logits, got 3"),
        (lambda: Plan(budgets=[0.0]), "--budget must be above 0 false alarms a year, got 0"),
        (lambda: Plan(days=0.0), "--days must be at least 1 and at most 3,660, got 0"),
        (lambda: Plan(runs=0), "--runs must be at least 1 and at most 100,000, got 0"),
        (lambda: Plan(budgets=[]), "--budget must be given at least once"),
        (lambda: Plan(tolerances=[0.1, 0.1]), "--tolerance 0.1 is given twice"),
        (lambda: simulate(USUAL, Plan(), Fleet(models=0)), "--models must be at least 1, got 0"),
        (lambda: simulate(USUAL, Plan(), Fleet(horizon_ms=0)), "--horizon must be longer than 0, got 0 s"),
    ],
)
def test_what_cannot_be_is_refused(make: Callable[[], object], message: str) -> None:
    with pytest.raises(InputError, match=message):
        make()
