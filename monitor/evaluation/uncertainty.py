"""How sure a measure is, in the form in which it can be carried from one evaluation to the next."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Final, NamedTuple

from monitor.evaluation.report import MeasureResult
from monitor.inference import coarsen, intervals, null_level
from monitor.measures.base import Measure
from monitor.scores import ScoreTable, grid

DRAWS: Final = 199
"""Resamples for dashboards and reports: enough for p-values down to .005."""


class Uncertainty(NamedTuple):
    """How far one measure of one table can be relied on.

    The interval is kept as its radius: where new events have moved the value, the interval of up to now moves along.
    What is of resampling is None where nothing was drawn.
    """

    error_bound: float
    """How far the value can lie from that of the raw predictions; of some measures an estimate."""
    radius: float | None = None
    """Half the width of the 95% interval; None also for a measure that has none."""
    null_mean: float | None = None
    null_q95: float | None = None
    p_value: float | None = None

    def about(self, result: MeasureResult) -> MeasureResult:
        """A measure's result with this uncertainty."""
        return replace(
            result,
            lower=None if self.radius is None else max(0.0, result.value - self.radius),
            upper=None if self.radius is None else result.value + self.radius,
            null_mean=self.null_mean,
            null_q95=self.null_q95,
            p_value=self.p_value,
            error_bound=self.error_bound,
        )


def uncertainty(
    table: ScoreTable,
    measures: Mapping[str, Measure],
    values: Mapping[str, float],
    *,
    draws: int = DRAWS,
    seed: int | None = None,
) -> Mapping[str, Uncertainty]:
    """Error bounds, intervals and levels under calibration.

    Intervals and levels come from the table's cells, and from nothing else: how the events of a weighted table vary
    does not follow from sums of weights, so it has error bounds alone.

    Parameters
    ----------
    table
        m rows.
    measures
        Those wanted, by name.
    values
        Each measure of the table, by the same names.
    draws
        Number of resamples: 0, or at least 19.
    seed
        Seed of the draws; the table's content if left out.

    Raises
    ------
    NotEnoughData
        The table is empty.
    InputError
        ``draws`` is too small.
    """
    bounds = {name: measure.error_bound(table, values[name]) for name, measure in measures.items()}
    if draws == 0 or table.weighted:
        return {name: Uncertainty(bound) for name, bound in bounds.items()}
    # Once for all measures; a table of fewer rows is drawn from as it is.
    cells = coarsen(table) if table.rows > grid.cell_count() else table
    levels = null_level(cells, measures.values(), draws=draws, seed=seed)
    found_intervals = intervals(cells, measures.values(), draws=draws, seed=seed)
    result = {}
    for name, measure in measures.items():
        level, found = levels[measure.name], found_intervals.get(measure.name)
        radius = None if found is None else found.upper - measure.value(cells)
        result[name] = Uncertainty(bounds[name], radius, level.mean, level.q95, level.p_value)
    return result
