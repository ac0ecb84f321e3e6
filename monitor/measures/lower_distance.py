"""The lower distance to calibration, and a bracket of the distance itself."""

from dataclasses import dataclass
from typing import Final

import numpy as np
import scipy

from monitor.arrays import Floats
from monitor.measures.base import Measure, of_events
from monitor.measures.displacement import mean_distance
from monitor.measures.interval_error import intce_partition
from monitor.measures.proper_scores import corp_curve
from monitor.measures.smooth_error import error_bound as smce_error_bound
from monitor.measures.smooth_error import smce
from monitor.scores import ScoreTable
from monitor.scores.table import require_events

LATTICE: Final = 256
"""The linear programme has points at all k / LATTICE, where calibrated predictions can lie."""

MAX_ROWS: Final = 256
"""Largest number of scores that are points themselves: the programme then has 513 points and takes about .03 s, with
1,025 points four times as long. Other scores are split between the points."""

_EXCESS: Final = 0.5 / LATTICE**2 + 1e-7
"""Bound of how much the programme's value is too large. Its r0 and r1, linear between two points of distance g, are
1-Lipschitz, so (1 - x) r0 + x r1 has a second derivative of at least -4, and exceeds 0 between them by g^2 / 2 at most.
Minus that, r0 and r1 are feasible everywhere. The solver's tolerance is added."""


@of_events
def dce_lower(table: ScoreTable) -> float:
    r"""Lower distance to calibration.

    .. math:: \min_{(u, v, y)} E|u - v| \quad \text{over couplings of } (p, y) \text{ with calibrated } (v, y)

    The smallest mean change of the predictions that makes them calibrated, if equal predictions may be changed
    differently, and with knowledge of the outcome. It is the largest lower bound of the distance to the nearest
    calibrated predictor that follows from predictions and outcomes alone.

    Parameters
    ----------
    table
        m rows; or in its place ``p, y``: predictions P(y = 1) and outcomes, shape (n,) each.

    Returns
    -------
    float
        Ratio in [0, 1]; smaller is better. At most 8e-6 too large. In a table of more than 256 rows the
        predictions are split between 513 points, which makes it too small by at most half the distance between two
        points, which :func:`error_bound` adds up; in practice by a hundred-thousandth.

    Raises
    ------
    NotEnoughData
        The table is empty.

    Notes
    -----
    The dual programme, a chain: the largest :math:`\sum_x \gamma_0(x) r_0(x) + \gamma_1(x) r_1(x)` with 1-Lipschitz r0
    and r1 and :math:`(1 - x) r_0(x) + x r_1(x) \le 0`, where :math:`\gamma_y` is the share of events of outcome y.

    Source: Blasiok, Gopalan, Hu, Nakkiran, "A Unifying Theory of Distance from Calibration", 2023, Definition 5.3,
    Lemma 7.6 and Remark 7.9. The paper bounds the error from the points by their distance, this by its square.

    Examples
    --------
    >>> round(dce_lower(ScoreTable.from_events([0.4, 0.6], [0, 1])), 4)
    0.08
    """
    require_events(table, "the lower distance to calibration")
    point = _points(table)
    _, negatives, positives = _split(table, point)
    return max(0.0, _optimum(point, negatives / table.total, positives / table.total))


def error_bound(table: ScoreTable, value: float) -> float:
    """How far the lower distance of the raw predictions can lie from ``value``.

    It moves by at most the mean move of the predictions: their distance from their row, and the move of a row split
    between two points. In an exact table with a point at each row nothing moves.
    """
    del value  # the bound does not depend on it
    moved, _, _ = _split(table, _points(table))
    return 0.0 if table.exact and moved == 0.0 else mean_distance(table, table.score) + moved + _EXCESS


@dataclass(frozen=True, slots=True)
class DistanceBracket:
    """Certain lower and upper bounds of the distance to calibration.

    Attributes
    ----------
    lower
        No calibrated predictor is closer on average, whatever information about the events it uses.
    upper
        A calibrated predictor, a function of the predictions alone, is at most this far away.
    """

    lower: float
    upper: float


@of_events
def distance_bracket(table: ScoreTable) -> DistanceBracket:
    r"""A certified bracket of the distance from the predictions to the nearest calibrated predictor.

    That distance, :math:`\min_g E|p - g|` over the calibrated predictors g, depends on the information
    about the events besides their predictions. If the data are the whole law it certainly lies in the bracket.

    - Below: the lower distance to calibration, and smCE / 2, which is never larger.
    - Above: the mean move of the predictions in each interval of intCE's best partition to the interval's frequency,
      at most intCE; or in each block of the isotonic regression, if that is less.

    Twice smCE is an upper bound of the lower distance alone: the distance itself can be larger, up to its root.

    Parameters
    ----------
    table
        m rows; or ``p, y`` in its place. For a table of cells the bracket is widened by how far predictions can lie
        from their row.

    Raises
    ------
    NotEnoughData
        The table is empty.

    Notes
    -----
    Source: Blasiok, Gopalan, Hu, Nakkiran, "A Unifying Theory of Distance from Calibration", 2023: Lemma 5.4, the first
    part of the proof of Theorem 6.2, and Theorem 7.3.

    Examples
    --------
    >>> bracket = distance_bracket(ScoreTable.from_events([0.4, 0.6], [0, 1]))
    >>> round(bracket.lower, 3), round(bracket.upper, 3)
    (0.08, 0.1)
    """
    require_events(table, "the distance to calibration")
    off_row = 0.0 if table.exact else mean_distance(table, table.score)
    smooth = smce(table)
    lower = max(dce_lower(table) - _EXCESS - off_row, (smooth - smce_error_bound(table, smooth)) / 2.0)
    bounds = intce_partition(table)
    starts = bounds[:-1]
    frequency = np.add.reduceat(table.positives, starts) / np.add.reduceat(table.counts, starts)
    targets = (np.repeat(frequency, np.diff(bounds)), corp_curve(table))
    return DistanceBracket(max(0.0, lower), min(mean_distance(table, target) for target in targets))


def _points(table: ScoreTable) -> Floats:
    """The programme's points, ascending from 0 to 1: a lattice, and all scores or a sample of them."""
    score = table.score
    if table.rows > MAX_ROWS:
        # At quantiles of the events, so that rare outcomes have points close to 0.
        share = np.cumsum(table.counts) / table.total
        score = score[np.minimum(np.searchsorted(share, (np.arange(MAX_ROWS) + 0.5) / MAX_ROWS), table.rows - 1)]
    return np.union1d(np.arange(LATTICE + 1) / LATTICE, score)


def _split(table: ScoreTable, point: Floats) -> tuple[float, Floats, Floats]:
    """Split each row's events between the two nearest points, with the same mean.

    Functions that are linear between the points have the same sums over the split events, so the programme's value is
    never larger than that of all scores.

    Returns
    -------
    moved
        Mean move of the events.
    negatives, positives
        float64, shape (points,): number of events at each point.
    """
    right = np.searchsorted(point, table.score, side="left")
    left = np.maximum(right - 1, 0)
    gap = point[right] - point[left]
    on_right = np.divide(table.score - point[left], gap, out=np.ones(table.rows), where=right > 0)
    moved = float(table.counts @ (2.0 * gap * on_right * (1.0 - on_right))) / table.total
    at_point = np.zeros((2, point.size))
    for row, count in zip(at_point, (table.negatives, table.positives), strict=True):
        np.add.at(row, left, (1.0 - on_right) * count)
        np.add.at(row, right, on_right * count)
    return moved, at_point[0], at_point[1]


def _optimum(point: Floats, negatives: Floats, positives: Floats) -> float:
    """The linear programme's value; negatives and positives are shares of the events at each point."""
    gaps = np.diff(point)
    sparse = scipy.sparse
    step = sparse.diags_array((-np.ones(gaps.size), np.ones(gaps.size)), offsets=(0, 1), shape=(gaps.size, point.size))
    none = sparse.csc_array(step.shape)
    solved = scipy.optimize.linprog(
        -np.concatenate([negatives, positives]),
        A_ub=sparse.vstack(
            [
                sparse.hstack([step, none]),
                sparse.hstack([-step, none]),
                sparse.hstack([none, step]),
                sparse.hstack([none, -step]),
                sparse.hstack([sparse.diags_array(1.0 - point), sparse.diags_array(point)]),
            ],
            format="csc",
        ),
        b_ub=np.concatenate([gaps, gaps, gaps, gaps, np.zeros(point.size)]),
        bounds=(-1.0, 1.0),  # as the paper's Claim 7.7 allows
        method="highs-ds",
    )
    if not solved.success:
        raise ArithmeticError(f"the linear programme of the lower distance to calibration failed: {solved.message}")
    return -float(solved.fun)


MEASURE = Measure(
    name="dce_lower",
    title="lower distance to calibration",
    help="The least mean change of the predictions that could make them calibrated, by linear programming.",
    unit="ratio",
    value=dce_lower,
    error_bound=error_bound,
    max_draws=99,
    appears_in="request",
    rank=80,
)
