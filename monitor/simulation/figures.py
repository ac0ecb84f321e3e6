"""A simulation as pictures, by matplotlib."""

import itertools
import math
from collections.abc import Sequence
from typing import Final

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import FuncFormatter, NullLocator

from monitor.reports.figures.style import (
    BLUE,
    GREEN,
    GREY,
    HAPPENED,
    INK,
    ORANGE,
    PINK,
    SKY,
    SMALL_SIZE,
    YELLOW,
    framed,
    legend,
    panel,
)
from monitor.simulation.alarms import Setting
from monitor.simulation.scenarios import Scenario
from monitor.simulation.simulate import Simulation
from monitor.simulation.view import amount_text, setting_text, span_text

_COLUMNS: Final = 3
_COLORS: Final = (BLUE, ORANGE, GREEN, YELLOW, PINK, SKY)
_MARKERS: Final = "osD^vP"


def simulation_figure(simulation: Simulation) -> Figure:
    """Draw the delays, or the false alarms where predictions stay right in all scenarios."""
    scenarios = simulation.plan.scenarios
    wrong = [one for one in scenarios if not simulation.stays_right(one)]
    return delays_figure(simulation, wrong) if wrong else false_alarms_figure(simulation, scenarios)


def delays_figure(simulation: Simulation, scenarios: Sequence[Scenario]) -> Figure:
    """Draw the delay of an alarm against the budget, a panel for each scenario and a line for each tolerance."""
    plan = simulation.plan
    rows, columns = math.ceil(len(scenarios) / _COLUMNS), min(_COLUMNS, len(scenarios))
    caption = (
        "How to read it: from the change to an alarm of any detector, by the false alarms a year that the fleet may "
        f"have; until predictions are settled, {span_text(simulation.fleet.settled_hours)} are to be added. Lines are "
        "medians, bars reach up to what 90% of the runs have at most. Where fewer "
        f"runs are noticed within {amount_text(plan.days, 'day')}, there is no bar, or no point."
    )
    title = "What each tolerance and budget costs"
    figure, grid = framed(
        2.2 + 2.1 * rows, title, caption, rows=[1.0] * rows, columns=[1.0] * columns, gap=0.62, above=0.5, left=0.85
    )
    for number, scenario in enumerate(scenarios):
        axes = panel(figure, grid[number // columns, number % columns])
        _draw_delays(axes, simulation, scenario)
        axes.set_title(scenario.title, loc="left", size=SMALL_SIZE, weight="bold", color=INK)
        if number + columns >= len(scenarios):
            axes.set_xlabel("false alarms a year", size=SMALL_SIZE)
    handles = [
        Line2D([], [], color=color, marker=marker, ms=5.0, label=f"tolerance {tolerance:g}")
        for tolerance, color, marker in _styles(plan.tolerances)
    ]
    legend(figure.axes[0], *handles, columns=len(handles), above=0.3)
    return figure


def _styles(tolerances: Sequence[float]) -> list[tuple[float, str, str]]:
    return list(zip(tolerances, itertools.cycle(_COLORS), itertools.cycle(_MARKERS), strict=False))


def _draw_delays(axes: Axes, simulation: Simulation, scenario: Scenario) -> None:
    budgets, tolerances = sorted(simulation.plan.budgets), simulation.plan.tolerances
    for number, (tolerance, color, marker) in enumerate(_styles(tolerances)):
        found = [simulation.detection(scenario, Setting(tolerance, budget)) for budget in budgets]
        # A little apart, so that equal ones can be seen.
        at = [budget * 1.09 ** (number - (len(tolerances) - 1) / 2.0) for budget in budgets]
        axes.plot(
            at,
            [math.nan if one.hours is None else one.hours for one in found],
            color=color,
            marker=marker,
            ms=4.5,
            lw=1.2,
        )
        for x, one in zip(at, found, strict=True):
            if one.hours is not None and one.hours_90 is not None:
                axes.vlines(x, one.hours, one.hours_90, color=color, lw=1.5)
    axes.set_xscale("log")
    axes.set_xticks(budgets, [f"{budget:g}" for budget in budgets])
    axes.xaxis.set_minor_locator(NullLocator())
    axes.set_xlim(0.7 * budgets[0], 1.43 * budgets[-1])
    axes.yaxis.set_major_formatter(FuncFormatter(lambda hours, _: span_text(hours) if hours > 0.0 else "0"))
    axes.set_ylim(bottom=0.0)


def false_alarms_figure(simulation: Simulation, scenarios: Sequence[Scenario]) -> Figure:
    """Draw the false alarms a year of each scenario with their upper ends, beside the budget."""
    setting, models = simulation.plan.shown, simulation.fleet.models
    found = [simulation.false_alarms(one, setting) for one in scenarios]
    years = simulation.result(scenarios[0], setting).model_years
    title = f"False alarms a year, with {setting_text(setting, models)}"
    caption = (
        "How to read it: the point is what was counted, times the models of the fleet; the line reaches up to where it "
        f"is at most, with 95% confidence. With {years:.3g} simulated years of one model it cannot be shorter. The "
        "dashed line is the budget, which bounds all but grey ones."
    )
    figure, grid = framed(2.5 + 0.42 * len(scenarios), title, caption, left=1.6, below=0.6)
    axes = panel(figure, grid[0, 0], grid="x")
    for y, (scenario, alarms) in enumerate(zip(scenarios, found, strict=True)):
        color = BLUE if scenario.kind.bounded else GREY
        axes.hlines(y, alarms.per_year, alarms.upper, color=color, lw=2.0)
        axes.plot(alarms.per_year, y, marker="o", ms=6.5, color=color, ls="none")
    axes.axvline(setting.budget, color=HAPPENED, ls="--", lw=1.5)
    axes.set_xscale("symlog", linthresh=setting.budget)
    axes.set_xlim(left=-0.15 * setting.budget)
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    axes.set_yticks(range(len(scenarios)), [one.title for one in scenarios])
    axes.set_ylim(len(scenarios) - 0.4, -0.6)
    axes.set_xlabel("false alarms a year of the fleet")
    return figure
