"""Simulated alarms for callers in Python."""

from __future__ import annotations  # so that signatures are shown as they are written

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
from numpy.typing import ArrayLike

from monitor.data import Names, shown_progress
from monitor.options import TOLERANCE, in_python
from monitor.reports.evaluation.groups import table_of
from monitor.reports.view import View
from monitor.results import Result
from monitor.simulation.alarms import Setting
from monitor.simulation.page import simulation_page
from monitor.simulation.predictions import DrawnPredictions
from monitor.simulation.scenarios import KINDS, Scenario
from monitor.simulation.simulate import (
    BUDGETS,
    DAYS,
    PER_HOUR,
    PREVALENCE,
    RUNS,
    SPREAD,
    TOLERANCES,
    Fleet,
    Plan,
    Simulation,
    simulate,
)
from monitor.simulation.view import simulation_view

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@dataclass(frozen=True, repr=False)
class AlarmSimulation(Result, Simulation):
    """False alarms and delays of simulated models, for each tolerance and budget."""

    def __repr__(self) -> str:
        return self._view().lead.sentence

    def _view(self) -> View:
        return simulation_view(self)

    def _page(self) -> bytes:
        return simulation_page(self)

    def to_arrow(self) -> pa.Table:
        """Return a table with a row for each scenario, tolerance, budget and detector."""
        parts = ("false_alarms", "detection")
        rows: list[dict[str, Any]] = [
            {name: value for name, value in row.items() if name not in parts}
            | {f"{part}_{name}": value for part in parts for name, value in (row[part] or {}).items()}
            for row in (result.to_dict() for result in self.results)
        ]
        return table_of(rows)

    def plot(self) -> Figure:
        """Draw the delays, or the false alarms where predictions stay right in all scenarios."""
        from monitor.simulation.figures import simulation_figure  # noqa: PLC0415 - matplotlib takes a second

        return simulation_figure(self)


@dataclass(frozen=True)
class NormalLogits:
    """Predictions whose logits are normal.

    Attributes
    ----------
    prevalence
        Mean of the predictions, above 0 and below 1.
    spread
        Standard deviation of their logits, above 0 and at most 5.
    """

    prevalence: float = PREVALENCE
    spread: float = SPREAD


def simulate_alarms(
    predictions: ArrayLike | NormalLogits = NormalLogits(),
    *,
    per_hour: float = PER_HOUR,
    scenario: Names | None = None,
    tolerance: float | Sequence[float] = TOLERANCES,
    budget: float | Sequence[float] = BUDGETS,
    fleet: Fleet = Fleet(),  # noqa: B008
    days: float = DAYS,
    runs: int = RUNS,
    seed: int = 0,
) -> AlarmSimulation:
    """Simulate the alarms of a service, as ``monitor simulate-alarms`` does, to choose a tolerance and a budget.

    Parameters
    ----------
    predictions
        Predictions P(y = 1) of the model, shape (n,), from which those of the simulation are drawn; or ones with normal
        logits, such as ``NormalLogits(prevalence=0.02)``.
    per_hour
        Predictions of a model an hour.
    scenario
        What happens, such as ``"slope=1.3"``, or a list of such; all scenarios if left out.
    tolerance, budget
        What is tried, in logits and in false alarms a year of the fleet; each may be a list.
    fleet
        Number of models that share the budget, and their horizon and lateness: ``Fleet.of(models=20, horizon="3d")``.
    days
        Length of a run from the change on.
    runs
        Runs of each scenario.
    seed
        The same seed gives the same numbers.

    Returns
    -------
    AlarmSimulation
        ``to_dict()`` is its JSON, ``plot()`` draws the delays, ``to_html()`` makes the page of the command line.

    Raises
    ------
    InputError
        A value is out of its range.

    Examples
    --------
    >>> found = simulate_alarms(scenario="slope=1.5", tolerance=0.05, budget=1, runs=5)
    >>> (result,) = [one for one in found.results if one.detector == "any"]
    >>> result.detection.share
    1.0
    """
    with in_python(), shown_progress() as progress:
        drawn = (
            DrawnPredictions.normal(predictions.prevalence, predictions.spread, per_hour)
            if isinstance(predictions, NormalLogits)
            else DrawnPredictions.of(predictions, per_hour)
        )
        tolerances, budgets = (
            tuple(map(float, np.atleast_1d(np.asarray(values, np.float64)))) for values in (tolerance, budget)
        )
        scenarios = tuple(
            map(Scenario.parse, KINDS if scenario is None else ([scenario] if isinstance(scenario, str) else scenario))
        )
        usual = Setting(TOLERANCE, 1.0)
        plan = Plan(scenarios, tolerances, budgets, days, runs, seed)
        plan = replace(plan, chosen=usual if usual in plan.settings else None)
        return AlarmSimulation.of(simulate(drawn, plan, fleet, progress=progress))
