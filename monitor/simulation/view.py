"""A simulation in words and tables."""

from typing import Final

from monitor.alarms.watch import WEIGHTS
from monitor.reports.formatting import count
from monitor.reports.view import Cell, Column, Lead, Table, View, ViewSection, row
from monitor.simulation.alarms import Setting
from monitor.simulation.scenarios import Scenario
from monitor.simulation.simulate import Simulation

_READING: Final = (
    "Each run is one model, calibrated until the scenario begins. Delays count from the change to the last prediction "
    "that the alarm needs; the alarm comes once that prediction is settled. False alarms are those of a fleet whose "
    "models are all like this one. The upper end of their 95% interval is by the Poisson law; where there was none, "
    "the number of simulated years decides it. The guarantee allows as many as the budget."
)


def simulation_view(simulation: Simulation) -> View:
    """Build the view of a simulation."""
    wrong = [one for one in simulation.plan.scenarios if not simulation.stays_right(one)]
    right = [one for one in simulation.plan.scenarios if simulation.stays_right(one)]
    sections = []
    if wrong:
        sections += [_delays(simulation, wrong), _by_detector(simulation, wrong)]
    if right:
        sections.append(_false_alarms(simulation, right))
    sections.append(ViewSection("The scenarios", [f"{one.title}: {one.text}." for one in simulation.plan.scenarios]))
    lead = Lead(_lead(simulation, wrong, right))
    return View("Alarms, simulated", lead, sections, notes=_notes(simulation), reading=_READING)


def setting_text(setting: Setting, models: int) -> str:
    """A tolerance and a budget in words."""
    times = f"{setting.budget:,g} false alarm{'' if setting.budget == 1.0 else 's'} a year"
    return f"a tolerance of {setting.tolerance:g} and {times} for {_models(models)}"


def _models(models: int) -> str:
    return "1 model" if models == 1 else f"{models:,} models"


def _lead(simulation: Simulation, wrong: list[Scenario], right: list[Scenario]) -> str:
    setting = simulation.plan.shown
    parts = []
    if wrong:
        detection = simulation.detection(wrong[0], setting)
        what = "is noticed in less than half of the runs"
        if detection.hours is not None:
            what = f"is noticed after {span_text(detection.hours)} of predictions in half of the runs"
        parts.append(f"{wrong[0].title} {what}")
    if right:
        alarms = simulation.false_alarms(right[0], setting)
        years = simulation.result(right[0], setting).model_years
        parts.append(f"{right[0].title}: {amount_text(alarms.alarms, 'false alarm')} in {years:.3g} years of one model")
    return f"With {setting_text(setting, simulation.fleet.models)}: {'; '.join(parts)}."


def amount_text(number: float, unit: str) -> str:
    """A number with its unit, such as 1 day or 30 days."""
    return f"1 {unit}" if number == 1 else f"{number:,g} {unit}s"


def _notes(simulation: Simulation) -> list[str]:
    fleet, plan = simulation.fleet, simulation.plan
    width, days = simulation.step_minutes, amount_text(plan.days, "day")
    return [
        f"{simulation.predictions}; {count(round(simulation.per_hour))} an hour",
        f"{amount_text(plan.runs, 'run')} of each scenario, {days} after {simulation.calm_days:.3g} calm ones",
        f"{simulation.events:,} labelled predictions in steps of {width} min, seed {plan.seed}",
        f"predictions are settled {span_text(fleet.settled_hours)} after they were made"
        + ("; a missing label counts as negative" if fleet.implied_negative else ""),
    ]


def _delays(simulation: Simulation, scenarios: list[Scenario]) -> ViewSection:
    columns = [Column("tolerance"), Column("budget"), *(Column(one.title, folds=True) for one in scenarios)]
    rows = [
        row(f"{setting.tolerance:g}", f"{setting.budget:g}", *(_delay(simulation, one, setting) for one in scenarios))
        for setting in simulation.plan.settings
    ]
    before = (
        "From the change to an alarm of any detector, the median of the runs; below it what 90% of them have at most. "
        f"Until predictions are settled, {span_text(simulation.fleet.settled_hours)} are to be added."
    )
    return ViewSection("What each tolerance and budget costs", [before], Table(columns, rows, dense=True))


def _delay(simulation: Simulation, scenario: Scenario, setting: Setting) -> Cell:
    detection = simulation.detection(scenario, setting)
    runs = simulation.plan.runs
    if detection.hours is None:
        return Cell("-", "dim", f"{round(detection.share * runs)} of {runs}")
    below = (
        f"{round(detection.share * runs)} of {runs}" if detection.hours_90 is None else span_text(detection.hours_90)
    )
    return Cell(span_text(detection.hours), below=below)


def _by_detector(simulation: Simulation, scenarios: list[Scenario]) -> ViewSection:
    setting = simulation.plan.shown
    columns = [Column("scenario", words=True), *(Column(name) for name in WEIGHTS)]
    rows = [row(one.title, *(_events(simulation, one, setting, name) for name in WEIGHTS)) for one in scenarios]
    title = f"By detector, with {setting_text(setting, simulation.fleet.models)}"
    before = (
        "From the change to the alarm, in labelled predictions: the median of the runs; below it what 90% of them have "
        f"at most, and the share of them with an alarm within {amount_text(simulation.plan.days, 'day')}."
    )
    return ViewSection(title, [before], Table(columns, rows))


def _events(simulation: Simulation, scenario: Scenario, setting: Setting, detector: str) -> Cell:
    detection = simulation.detection(scenario, setting, detector)
    share = f"{detection.share:.0%}"
    if detection.events is None:
        return Cell("-", "dim", share)
    most = "-" if detection.events_90 is None else f"{detection.events_90:,.0f}"
    return Cell(f"{detection.events:,.0f}", below=f"{most}, {share}")


def _false_alarms(simulation: Simulation, scenarios: list[Scenario]) -> ViewSection:
    columns = [Column("tolerance"), Column("budget"), *(Column(one.title, folds=True) for one in scenarios)]
    rows = [
        row(f"{setting.tolerance:g}", f"{setting.budget:g}", *(_rate(simulation, one, setting) for one in scenarios))
        for setting in simulation.plan.settings
    ]
    beyond = [one.title for one in scenarios if not one.kind.bounded]
    after = [f"The budget bounds all of these but {', '.join(beyond)}: see docs/alarms.md."] if beyond else []
    title = f"False alarms a year of {_models(simulation.fleet.models)}"
    before = ["Below each number is what it is at most, with 95% confidence."]
    return ViewSection(title, before, Table(columns, rows, dense=True), after)


def _rate(simulation: Simulation, scenario: Scenario, setting: Setting) -> Cell:
    alarms = simulation.false_alarms(scenario, setting)
    return Cell(_rate_text(alarms.per_year), below=f"at most {_rate_text(alarms.upper)}")


def _rate_text(number: float) -> str:
    return f"{number:,.0f}" if number >= 100.0 else f"{number:.2g}"


def span_text(hours: float) -> str:
    """Hours in words."""
    if hours < 1.0:
        return f"{60.0 * hours:.0f} min"
    return f"{hours:.2g} h" if hours < 72.0 else f"{hours / 24.0:.2g} d"
