"""Confidence intervals for the measures that are semi-norms of the residual measure."""

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np

from monitor.inference.null_level import NamedMeasure
from monitor.inference.resampling import generator, percent_point_95, resampled
from monitor.kernels.draws import add_poisson_deviations
from monitor.scores import ScoreTable


@dataclass(frozen=True, slots=True)
class Interval:
    """A 95% confidence interval.

    Attributes
    ----------
    lower, upper
        Its ends; ``lower`` is at least 0.
    debiased
        sqrt(max(0, value^2 - E[N(v* - v)^2])): the value less what chance adds to it.
    """

    lower: float
    upper: float
    debiased: float


def interval(table: ScoreTable, measure: NamedMeasure, *, draws: int = 199, seed: int | None = None) -> Interval | None:
    r"""Confidence interval of a measure N that is a semi-norm of the residual measure v.

    .. math:: N(v_n) \pm q_{.95}[N(v^* - v_n)]

    with v* the Poisson bootstrap of the rows: positives ~ Poisson(positives), negatives ~ Poisson(negatives). By the
    triangle inequality N(v) is no farther from N(v_n) than N(v_n - v), whose law N(v* - v_n) imitates, also at
    calibration, where the percentile bootstrap covers nothing.

    Parameters
    ----------
    table
        m rows of whole counts. The value is exact; draws of a table of more rows than the grid has cells are made on
        the grid.
    measure
        Which measure.
    draws
        Number of draws, at least 19.
    seed
        Seed of the draws; the table's content if left out.

    Returns
    -------
    Interval or None
        None for a measure that is no semi-norm.

    Raises
    ------
    NotEnoughData
        The table is empty.
    InputError
        The table is weighted, or ``draws`` is too small.
    """
    return intervals(table, [measure], draws=draws, seed=seed).get(measure.name)


def intervals(
    table: ScoreTable, measures: Iterable[NamedMeasure], *, draws: int = 199, seed: int | None = None
) -> Mapping[str, Interval]:
    """:func:`interval` of each measure that has one, by name. All see the same draws, which are made once."""
    norms = {measure: measure.norms for measure in measures if measure.norms is not None}
    if not norms:
        return {}
    cells = resampled(table, "an interval")
    rng = generator(cells, draws, seed)
    moved = np.zeros((draws, cells.rows))
    for count, residual in (
        (cells.positives, cells.positives - cells.positive_sum),
        (cells.negatives, -cells.negative_sum),
    ):
        each = np.divide(residual, count, out=np.zeros(cells.rows), where=count > 0.0)
        add_poisson_deviations(rng, count, each, moved)
    result = {}
    for measure, norm in norms.items():
        distance = norm(cells, moved)
        value = measure.value(table)
        radius = percent_point_95(distance)
        result[measure.name] = Interval(
            lower=max(0.0, value - radius),
            upper=value + radius,
            debiased=math.sqrt(max(0.0, value**2 - float(np.mean(distance**2)))),
        )
    return result
