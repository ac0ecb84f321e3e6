"""How sure a measure is, in the form in which it can be carried from one evaluation to the next."""

from collections.abc import Mapping
from typing import Final, NamedTuple

from monitor.inference import coarsen, interval, null_level
from monitor.measures.base import Measure
from monitor.scores import ScoreTable, grid

DRAWS: Final = 199
"""Resamples for dashboards and reports: enough for p-values down to .005."""


class Uncertainty(NamedTuple):
    """What resampling says of one measure of one table.

    The interval is kept as its radius: where new events have moved the value, the interval of up to now moves along.
    """

    radius: float | None
    """Half the width of the 95% interval, or None for a measure that has none."""
    null_mean: float
    null_q95: float
    p_value: float

    def lower(self, value: float) -> float | None:
        """Lower end of the interval about a value."""
        return None if self.radius is None else max(0.0, value - self.radius)

    def upper(self, value: float) -> float | None:
        """Upper end of the interval about a value."""
        return None if self.radius is None else value + self.radius


def uncertainty(
    table: ScoreTable, measures: Mapping[str, Measure], *, draws: int = DRAWS, seed: int | None = None
) -> Mapping[str, Uncertainty]:
    """Intervals and levels under calibration, from the table's cells.

    Parameters
    ----------
    table
        m rows. Nothing is known of a weighted one: how its events vary does not follow from sums of weights.
    measures
        Those wanted, by name.
    draws
        Number of resamples, at least 19.
    seed
        Seed of the draws; the table's content if left out.

    Raises
    ------
    NotEnoughData
        The table is empty.
    InputError
        ``draws`` is too small.
    """
    if table.weighted:
        return {}
    # Once for all measures; a table of fewer rows is drawn from as it is.
    cells = coarsen(table) if table.rows > grid.cell_count() else table
    levels = null_level(cells, measures.values(), draws=draws, seed=seed)
    result = {}
    for name, measure in measures.items():
        level, found = levels[measure.name], interval(cells, measure, draws=draws, seed=seed)
        radius = None if found is None else found.upper - measure.value(cells)
        result[name] = Uncertainty(radius, level.mean, level.q95, level.p_value)
    return result
