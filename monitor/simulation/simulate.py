"""False alarms and delays of simulated models, for each tolerance and budget."""

import math
import os
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import asdict, dataclass, field
from typing import Any, Final, NamedTuple

import numpy as np
from scipy.special import gammaincinv

from monitor.alarms.watch import WEIGHTS
from monitor.durations import parse_duration, to_ms
from monitor.errors import InputError, OptionError
from monitor.options import Option
from monitor.progress import StageProgress, no_progress
from monitor.sequential.budget import share_budget
from monitor.sequential.evidence import YEAR_MS
from monitor.simulation.alarms import Run, Setting, SimulatedDetectors, follow
from monitor.simulation.generator import DAY_MS, HOUR_MS
from monitor.simulation.predictions import PredictionSource
from monitor.simulation.scenarios import KINDS, Scenario
from monitor.simulation.stream import Course, SimulatedStream

ANY: Final = "any"
"""Any of the detectors, as somebody on call sees it."""

TOLERANCES: Final = (0.0, 0.05, 0.1)
BUDGETS: Final = (1.0, 12.0, 52.0)
DAYS: Final = 30.0
RUNS: Final = 20
PREVALENCE: Final = 0.1
SPREAD: Final = 1.5
PER_HOUR: Final = 1000.0

CALM_EVENTS: Final = 40_000
"""Predictions before a change: twice the reference of D3."""

_STEP_EVENTS: Final = 100
"""Predictions of a step at least, where an hour has so many. Smaller ones cost more, and differ little."""
_WIDTHS_MS: Final = tuple(minutes * 60_000 for minutes in (1, 2, 3, 5, 6, 10, 12, 15, 20, 30, 60))
_EVENTS_AT_ONCE: Final = 100_000
_SURE: Final = 0.95


@dataclass(frozen=True)
class Fleet:
    """What is watched, and how.

    Attributes
    ----------
    models
        Models that share the budget.
    horizon_ms, lateness_ms
        When predictions are settled: so long after they were made alarms come.
    implied_negative
        Whether a missing label counts as negative.
    """

    models: int = 1
    horizon_ms: int = 24 * HOUR_MS
    lateness_ms: int = HOUR_MS
    implied_negative: bool = False

    @classmethod
    def of(
        cls, models: int = 1, horizon: Any = "24h", allowed_lateness: Any = "1h", *, implied_negative: bool = False
    ) -> "Fleet":
        """A fleet with times as settings have them: texts such as ``"3d"``, or timedeltas.

        Raises
        ------
        InputError
            A time cannot be read.
        """
        return cls(
            models, _span_ms("horizon", horizon), _span_ms("allowed_lateness", allowed_lateness), implied_negative
        )

    @property
    def settled_hours(self) -> float:
        """Hours from a prediction until it counts."""
        return (self.horizon_ms + self.lateness_ms) / HOUR_MS


def _span_ms(name: str, span: Any) -> int:
    try:
        return to_ms(parse_duration(span))
    except ValueError as error:
        raise InputError(f"{name} {error}, got {span!r}") from error


@dataclass(frozen=True)
class Plan:
    """What is simulated.

    Attributes
    ----------
    scenarios, tolerances, budgets
        Each scenario is simulated with all tolerances and budgets, in logits and false alarms a year of the fleet.
    days
        Length of a run from the change on.
    runs
        Runs of each scenario.
    seed
        Equal seeds give equal results.
    chosen
        The tolerance and budget that are shown by detector; None: the first ones.

    Raises
    ------
    InputError
        A value is out of its range.
    """

    scenarios: Sequence[Scenario] = tuple(Scenario(name, kind.size) for name, kind in KINDS.items())
    tolerances: Sequence[float] = TOLERANCES
    budgets: Sequence[float] = BUDGETS
    days: float = DAYS
    runs: int = RUNS
    seed: int = 0
    chosen: Setting | None = None

    def __post_init__(self) -> None:
        for tolerance in self.tolerances:
            if not 0.0 <= tolerance <= 2.0:
                raise OptionError(Option.TOLERANCE, f" must be at least 0 and at most 2 logits, got {tolerance:g}")
        for budget in self.budgets:
            if not 0.0 < budget < math.inf:
                raise OptionError(Option.BUDGET, f" must be above 0 false alarms a year, got {budget:g}")
        if not 1.0 <= self.days <= 3660.0:
            raise OptionError(Option.DAYS, f" must be at least 1 and at most 3,660, got {self.days:g}")
        if not 1 <= self.runs <= 100_000:
            raise OptionError(Option.RUNS, f" must be at least 1 and at most 100,000, got {self.runs}")
        scenarios = [one.title for one in self.scenarios]
        for option, values in (
            (Option.TOLERANCE, self.tolerances),
            (Option.BUDGET, self.budgets),
            (Option.SCENARIO, scenarios),
        ):
            if not values:
                raise OptionError(option, " must be given at least once")
            twice = [value for number, value in enumerate(values) if value in values[:number]]
            if twice:
                raise OptionError(option, f" {twice[0]} is given twice")

    @property
    def settings(self) -> list[Setting]:
        """Every tolerance with every budget."""
        return [Setting(tolerance, budget) for tolerance in self.tolerances for budget in self.budgets]

    @property
    def shown(self) -> Setting:
        """The tolerance and budget that are shown by detector."""
        return self.settings[0] if self.chosen is None else self.chosen


class FalseAlarms(NamedTuple):
    """Alarms of a fleet whose models are all like the simulated one, while predictions stay right."""

    alarms: int
    """Alarms of the simulated runs."""
    per_year: float
    """Alarms of the fleet a year."""
    upper: float
    """Upper end of its one-sided 95% interval, by the Poisson law."""
    bound: float | None
    """What the budget allows; None where the scenario is not covered by the guarantee."""


class Detection(NamedTuple):
    """How soon alarms come."""

    share: float
    """Share of the runs with an alarm after the change."""
    events: float | None
    """Median of the labelled predictions from the change to the alarm; None if half of the runs had none."""
    events_90: float | None
    """The same, of 90% of the runs."""
    hours: float | None
    """Median of the hours from the change to the last prediction of the alarm, which waits until that is settled."""
    hours_90: float | None


@dataclass(frozen=True)
class SimulationResult:
    """What a detector did in the runs of a scenario, with a tolerance and a budget."""

    scenario: str
    size: float
    tolerance: float
    budget: float
    detector: str
    """Or :data:`ANY`."""
    model_years: float
    false_alarms: FalseAlarms | None
    """None where predictions are wrong from the change on."""
    detection: Detection | None
    """None where predictions stay right."""

    def to_dict(self) -> dict[str, Any]:
        """Return it as JSON shows it."""
        parts = ("false_alarms", "detection")
        return {
            **asdict(self),
            **{name: None if (part := getattr(self, name)) is None else part._asdict() for name in parts},
        }


@dataclass(frozen=True)
class Simulation:
    """False alarms and delays of simulated models.

    Attributes
    ----------
    fleet, plan
        What was simulated.
    predictions
        What predictions were, in words.
    per_hour
        Predictions of a model an hour.
    step_minutes
        Width of the steps that evidence was computed from.
    calm_days
        Time before the change.
    results
        One for each scenario, tolerance, budget and detector.
    events
        Labelled predictions of all runs.
    """

    fleet: Fleet
    plan: Plan
    predictions: str
    per_hour: float
    step_minutes: int
    calm_days: float
    results: Sequence[SimulationResult]
    events: int = field(compare=False)

    def result(self, scenario: Scenario, setting: Setting, detector: str = ANY) -> SimulationResult:
        """One result."""
        wanted = *scenario, *setting, detector
        return next(
            one for one in self.results if (one.scenario, one.size, one.tolerance, one.budget, one.detector) == wanted
        )

    def detection(self, scenario: Scenario, setting: Setting, detector: str = ANY) -> Detection:
        """How soon alarms come, in a scenario that makes predictions wrong."""
        found = self.result(scenario, setting, detector).detection
        if found is None:
            raise AssertionError(f"predictions stay right: {scenario.title}")
        return found

    def false_alarms(self, scenario: Scenario, setting: Setting, detector: str = ANY) -> FalseAlarms:
        """How many alarms there are, in a scenario in which predictions stay right."""
        found = self.result(scenario, setting, detector).false_alarms
        if found is None:
            raise AssertionError(f"predictions become wrong: {scenario.title}")
        return found

    def stays_right(self, scenario: Scenario) -> bool:
        """Whether predictions stay right in a scenario."""
        return _stays_right(scenario, self.fleet)

    def to_dict(self) -> dict[str, Any]:
        """Return it as ``monitor simulate-alarms --json`` prints it."""
        fleet, plan = self.fleet, self.plan
        return {
            "predictions": self.predictions,
            "predictions_per_hour": self.per_hour,
            "models": fleet.models,
            "settled_hours": fleet.settled_hours,
            "implied_negative": fleet.implied_negative,
            "scenarios": [{"name": one.name, "size": one.size, "text": one.text} for one in plan.scenarios],
            "tolerances": list(plan.tolerances),
            "budgets": list(plan.budgets),
            "days": plan.days,
            "calm_days": self.calm_days,
            "step_minutes": self.step_minutes,
            "runs": plan.runs,
            "seed": plan.seed,
            "events": self.events,
            "results": [one.to_dict() for one in self.results],
        }


def simulate(
    predictions: PredictionSource,
    plan: Plan,
    fleet: Fleet = Fleet(),
    *,
    pane_ms: int = 60_000,
    progress: StageProgress = no_progress,
) -> Simulation:
    """Simulate models under each scenario, and count the alarms that a service would raise.

    Parameters
    ----------
    predictions
        Of one model.
    pane_ms
        Width of the service's narrowest panes. Steps may be wider, so that they hold some events.

    Raises
    ------
    InputError
        ``fleet.models`` is less than 1, or a horizon is not above 0.
    """
    if fleet.models < 1:
        raise OptionError(Option.MODELS, f" must be at least 1, got {fleet.models}")
    if fleet.horizon_ms <= 0 or fleet.lateness_ms < 0:
        raise OptionError(Option.HORIZON, f" must be longer than 0, got {fleet.horizon_ms / 1000:g} s")
    course = _course(predictions, plan, fleet, pane_ms)
    hours = max(1, round(_EVENTS_AT_ONCE / predictions.per_hour))
    runs: dict[Scenario, list[Run | None]] = {scenario: [None] * plan.runs for scenario in plan.scenarios}

    def one(scenario: Scenario, number: int) -> tuple[Scenario, int, Run]:
        # The same predictions and draws in every scenario would save work, but their errors would all be alike.
        seed = plan.seed * 1_000_003 + number
        stream = SimulatedStream(predictions, scenario, course, seed)
        alarms, until_raised = SimulatedDetectors(plan.settings, fleet.models, seed), not _stays_right(scenario, fleet)
        return scenario, number, follow(stream, alarms, course, hours=hours, until_raised=until_raised)

    done, total = 0, len(runs) * plan.runs
    pool = ThreadPoolExecutor(os.cpu_count() or 1)
    try:
        waiting = [pool.submit(one, scenario, number) for scenario in runs for number in range(plan.runs)]
        for finished in as_completed(waiting):
            scenario, number, run = finished.result()
            runs[scenario][number] = run
            done += 1
            progress("simulating", done / total)
    finally:
        pool.shutdown(cancel_futures=True)
    complete = {scenario: [run for run in of_scenario if run is not None] for scenario, of_scenario in runs.items()}
    return Simulation(
        fleet=fleet,
        plan=plan,
        predictions=predictions.description,
        per_hour=predictions.per_hour,
        step_minutes=course.pane_ms // 60_000,
        calm_days=course.change_ms / DAY_MS,
        results=list(_results(complete, plan, fleet, course)),
        events=sum(run.predictions for of_scenario in complete.values() for run in of_scenario),
    )


def _course(predictions: PredictionSource, plan: Plan, fleet: Fleet, pane_ms: int) -> Course:
    """Whole hours of calm, then the days of the plan."""
    calm_hours = math.ceil(CALM_EVENTS / predictions.per_hour)
    enough_ms = max(float(pane_ms), _STEP_EVENTS / predictions.per_hour * HOUR_MS)
    step_ms = next((width for width in _WIDTHS_MS if width >= enough_ms), HOUR_MS)
    change_ms = calm_hours * HOUR_MS
    end_ms = change_ms + math.ceil(plan.days * 24) * HOUR_MS
    return Course(change_ms, end_ms, step_ms, fleet.horizon_ms, fleet.implied_negative)


def _stays_right(scenario: Scenario, fleet: Fleet) -> bool:
    # Labels that are missing make predictions wrong where they count as negative.
    return scenario.kind.calibrated and not (fleet.implied_negative and scenario.name in {"outage", "delayed"})


def _results(
    runs: Mapping[Scenario, Sequence[Run]], plan: Plan, fleet: Fleet, course: Course
) -> Iterator[SimulationResult]:
    for scenario, of_scenario in runs.items():
        right = _stays_right(scenario, fleet)
        years = len(of_scenario) * course.end_ms / YEAR_MS
        for setting in plan.settings:
            for detector in (*WEIGHTS, ANY):
                names = list(WEIGHTS) if detector == ANY else [detector]
                yield SimulationResult(
                    scenario=scenario.name,
                    size=scenario.size,
                    tolerance=setting.tolerance,
                    budget=setting.budget,
                    detector=detector,
                    model_years=years,
                    false_alarms=_false_alarms(
                        of_scenario, setting, names, fleet.models / years, bounded=scenario.kind.bounded
                    )
                    if right
                    else None,
                    detection=None if right else _detection(of_scenario, setting, names, course),
                )


def _false_alarms(
    runs: Sequence[Run], setting: Setting, detectors: Sequence[str], times: float, *, bounded: bool
) -> FalseAlarms:
    """``times``: how many alarms of the fleet a year one alarm of the runs stands for."""
    count = sum(len(run.raised[setting, name].pages) for run in runs for name in detectors)
    shares = share_budget(setting.budget, {"fleet": 1.0}, WEIGHTS)
    bound = sum(shares["fleet", name] for name in detectors) if bounded else None
    return FalseAlarms(count, count * times, float(gammaincinv(count + 1, _SURE)) * times, bound)


def _detection(runs: Sequence[Run], setting: Setting, detectors: Sequence[str], course: Course) -> Detection:
    events, hours = [], []
    for run in runs:
        first = min((end for name in detectors if (end := run.raised[setting, name].first) is not None), default=None)
        if first is None:
            events.append(math.inf)
            hours.append(math.inf)
        else:
            events.append(float(run.labelled[np.searchsorted(run.end_ms, first)]))
            hours.append((first - course.change_ms) / HOUR_MS)
    share = sum(map(math.isfinite, events)) / len(events)
    return Detection(share, _rank(events, 0.5), _rank(events, 0.9), _rank(hours, 0.5), _rank(hours, 0.9))


def _rank(values: Sequence[float], share: float) -> float | None:
    """The smallest value that so many are not above; None if it is infinite."""
    value = sorted(values)[math.ceil(share * len(values)) - 1]
    return value if math.isfinite(value) else None
