"""A simulation as a page."""

from collections.abc import Sequence
from typing import Final

from monitor.reports.diagrams.document import number
from monitor.reports.page import Figure, render_page
from monitor.simulation.alarms import Setting
from monitor.simulation.scenarios import Scenario
from monitor.simulation.simulate import Simulation
from monitor.simulation.view import amount_text, setting_text, simulation_view, span_text

_FALSE: Final = (
    "The point is what was counted, times the models of the fleet; the line reaches up to where it is at most, with "
    "95% confidence. The upright line is the budget, which bounds all but grey ones."
)


def simulation_page(simulation: Simulation) -> bytes:
    """Render one HTML file with words, tables and figures."""
    scenarios = simulation.plan.scenarios
    wrong = [one for one in scenarios if not simulation.stays_right(one)]
    right = [one for one in scenarios if simulation.stays_right(one)]
    figures = [*([_delays(simulation, wrong)] if wrong else []), *([_false_alarms(simulation, right)] if right else [])]
    return render_page(simulation_view(simulation), figures)


def _delays(simulation: Simulation, scenarios: Sequence[Scenario]) -> Figure:
    """The delay of an alarm against the budget: a panel for each scenario, a line for each tolerance."""
    plan = simulation.plan
    budgets = sorted(plan.budgets)
    panels = []
    for scenario in scenarios:
        lines = []
        for tolerance in plan.tolerances:
            found = [simulation.detection(scenario, Setting(tolerance, budget)) for budget in budgets]
            hours, most = [number(one.hours) for one in found], [number(one.hours_90) for one in found]
            lines.append({"name": f"tolerance {tolerance:g}", "values": hours, "upper": most})
        panels.append({"title": scenario.title, "from": 0, "lines": lines})
    settled = span_text(simulation.fleet.settled_hours)
    return {
        "kind": "lines",
        "title": "How soon an alarm comes",
        "text": "From the change to an alarm of any detector, by the false alarms a year that the fleet may have; "
        f"until predictions are settled, {settled} are to be added. Lines are medians, bars reach up to what 90% of "
        f"the runs have at most. Where fewer runs are noticed within {amount_text(plan.days, 'day')}, there is no bar, "
        "or no point.",
        "wide": True,
        "at": budgets,
        "axis": "false alarms a year",
        "unit": "hours",
        "panels": panels,
    }


def _false_alarms(simulation: Simulation, scenarios: Sequence[Scenario]) -> Figure:
    """The false alarms a year of each scenario with their upper ends, beside the budget."""
    setting, models = simulation.plan.shown, simulation.fleet.models
    years = simulation.result(scenarios[0], setting).model_years
    rows = []
    for scenario in scenarios:
        alarms = simulation.false_alarms(scenario, setting)
        rows.append(
            {
                "cells": [scenario.title, f"{alarms.per_year:.2g}", f"{alarms.upper:.2g}"],
                "tone": "" if scenario.kind.bounded else "soft",
                "value": number(alarms.per_year),
                "lower": number(alarms.per_year),
                "upper": number(alarms.upper),
            }
        )
    return {
        "kind": "strips",
        "title": f"False alarms a year, with {setting_text(setting, models)}",
        "text": f"{_FALSE} With {years:.3g} simulated years of one model it cannot be shorter.",
        "columns": [{"heading": "scenario", "words": True}, {"heading": "a year"}, {"heading": "at most"}],
        "rows": rows,
        "drawn": "0 and more",
        "line": number(setting.budget),
    }
