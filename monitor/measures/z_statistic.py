"""Spiegelhalter's z: the Brier score against the one that the predictions expect."""

import math

import numpy as np

from monitor.arrays import Floats
from monitor.measures.base import SemiNorm, of_events
from monitor.measures.displacement import residual_displacement, rounding
from monitor.scores import ScoreTable
from monitor.scores.table import require_events


@of_events
def spiegelhalter_z(table: ScoreTable) -> float:
    r"""Spiegelhalter's z, with its sign.

    .. math:: z = \frac{\sum_i (y_i - p_i)(1 - 2 p_i)}{\big( \sum_i (1 - 2 p_i)^2 p_i (1 - p_i) \big)^{1/2}}

    Parameters
    ----------
    table
        m rows; or in its place ``p, y``: predictions P(y = 1) and outcomes, shape (n,) each.

    Returns
    -------
    float
        About standard normal for a calibrated model. Above 0 if the Brier score is worse than the predictions expect
        (they are usually overconfident), below 0 if it is better (they are underconfident). 0 if every prediction is
        .5, about which it says nothing; infinite if only predictions of 0 and 1 contradict the outcomes.

    Raises
    ------
    NotEnoughData
        The table is empty.

    Notes
    -----
    Source: Spiegelhalter, "Probabilistic prediction in patient management and clinical trials", 1986.

    For weights w, the variance in the denominator is that of the weighted sum, with w^2.

    Examples
    --------
    >>> round(spiegelhalter_z(ScoreTable.from_events([0.1] * 10, [0] * 8 + [1] * 2)), 6)
    1.054093
    """
    require_events(table, "Spiegelhalter's z")
    excess = float(table.residual @ (1.0 - 2.0 * table.score))
    return math.copysign(float(_standardised(table, np.array([excess]))[0]), excess)


@of_events
def spiegelhalter(table: ScoreTable) -> float:
    """Spiegelhalter's z without its sign: how many standard deviations the Brier score is off. Raises NotEnoughData.

    Source, range and meaning: see :func:`spiegelhalter_z`.

    Examples
    --------
    >>> round(spiegelhalter(ScoreTable.from_events([0.1] * 10, [0] * 8 + [1] * 2)), 6)
    1.054093
    """
    return abs(spiegelhalter_z(table))


def spiegelhalter_norms(table: ScoreTable, residual: Floats) -> Floats:
    """|z| as a semi-norm of the residuals: m rows, residual (draws, m) -> (draws,)."""
    return _standardised(table, residual @ (1.0 - 2.0 * table.score))


def error_bound(table: ScoreTable, value: float) -> float:
    r"""How far the |z| of the raw predictions can lie from that of the table.

    With d = |p - x|, the numerator moves by at most :math:`2 \sum |r| d`, and the variance, whose terms' second
    derivative lies between -10 and 2 while d has the mean 0 in a row, by at most 5 times :math:`\sum d^2`.
    """
    if table.exact:
        return 0.0
    variance = _variance(table)
    excess = value * math.sqrt(variance) if variance > 0.0 else value
    moved = 2.0 * float(residual_displacement(table).sum()) + 2.0 * table.total * rounding(table)
    width = table.upper - table.lower
    at = np.clip(table.score - table.lower, 0.0, width)
    change = 5.0 * float(table.event_squares @ (at * (width - at))) + 2.0 * table.total * rounding(table)
    if variance <= change:
        return math.inf
    below = max(0.0, excess - moved) / math.sqrt(variance + change)
    return max(value - below, (excess + moved) / math.sqrt(variance - change) - value)


def _standardised(table: ScoreTable, excess: Floats) -> Floats:
    """|excess| in standard deviations; shape (draws,)."""
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(excess == 0.0, 0.0, np.abs(excess) / math.sqrt(_variance(table)))


def _variance(table: ScoreTable) -> float:
    p = table.score
    return float(table.event_squares @ ((1.0 - 2.0 * p) ** 2 * p * (1.0 - p)))


MEASURE = SemiNorm(
    name="spiegelhalter",
    title="Spiegelhalter's z",
    help="By how many standard deviations the Brier score differs from the one that the predictions expect.",
    unit="sigma",
    value=spiegelhalter,
    error_bound=error_bound,
    norms=spiegelhalter_norms,
    appears_in="reports",
    rank=220,
)
