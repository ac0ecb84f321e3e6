"""How sure a measure is, in the form in which it can be carried from one evaluation to the next."""

from collections.abc import Mapping
from dataclasses import replace
from math import inf
from typing import Final, NamedTuple

from monitor.inference import NullLevel, Progress, intervals, null_level
from monitor.measures.base import Measure
from monitor.reports.evaluation.report import MeasureResult
from monitor.scores import ScoreTable

WINDOW_DRAWS: Final = 199
"""Resamples for windows, which are renewed all the time: enough for p-values down to .005."""

DRAWS: Final = 999
"""Resamples for files and data that are handed over: p-values down to .001."""

_LEVELS_SHARE: Final = 0.6
"""Of the time that levels and intervals take together."""


class Uncertainty(NamedTuple):
    """How far one measure of one table can be relied on.

    The interval is kept as its distances from the value: where new events have moved the value, the interval of up to
    now moves along, and the p-value follows from the draws of up to now. What is of resampling is None where nothing
    was drawn.
    """

    error_bound: float
    """How far the value can lie from that of the raw predictions; of some measures an estimate."""
    below: float | None = None
    """From the 95% interval's lower end to the value."""
    above: float | None = None
    """From the value to the upper end."""
    level: NullLevel | None = None
    largest: float = inf
    """The largest value that the measure can have of such predictions."""

    def about(self, result: MeasureResult) -> MeasureResult:
        """A measure's result with this uncertainty."""
        level = self.level
        return replace(
            result,
            lower=None if self.below is None else max(0.0, result.value - self.below),
            upper=None if self.above is None else min(self.largest, result.value + self.above),
            null_mean=None if level is None else level.mean,
            null_q95=None if level is None else level.q95,
            p_value=None if level is None else level.p_value_of(result.value),
            error_bound=self.error_bound,
        )


def uncertainty(
    table: ScoreTable,
    measures: Mapping[str, Measure],
    values: Mapping[str, float],
    *,
    draws: int = DRAWS,
    seed: int | None = None,
    progress: Progress | None = None,
) -> Mapping[str, Uncertainty]:
    """Error bounds, intervals and levels under calibration.

    Parameters
    ----------
    table
        m rows. Intervals and levels are drawn on its cells where it has more rows than the grid.
    measures
        Those wanted, by name.
    values
        Each measure of the table, by the same names.
    draws
        Number of resamples: 0, or at least 19.
    seed
        Seed of the draws; the table's content if left out.
    progress
        Told the share of the work done, now and then.

    Raises
    ------
    NotEnoughData
        The table is empty.
    InputError
        ``draws`` is too small.
    """
    bounds = {name: measure.error_bound(table, values[name]) for name, measure in measures.items()}
    if draws == 0:
        return {name: Uncertainty(bound) for name, bound in bounds.items()}

    def levels_progress(share: float) -> None:
        if progress is not None:
            progress(_LEVELS_SHARE * share)

    def intervals_progress(share: float) -> None:
        if progress is not None:
            progress(_LEVELS_SHARE + (1.0 - _LEVELS_SHARE) * share)

    by_name = {measure.name: values[name] for name, measure in measures.items()}
    levels = null_level(table, measures.values(), draws=draws, seed=seed, values=by_name, progress=levels_progress)
    found = intervals(table, measures.values(), draws=draws, seed=seed, values=by_name, progress=intervals_progress)
    return {
        name: Uncertainty(
            bounds[name],
            values[name] - found[measure.name].lower,
            found[measure.name].upper - values[name],
            levels[measure.name],
            measure.largest(table),
        )
        for name, measure in measures.items()
    }
