"""The lower distance to calibration, and a bracket of the distance itself."""

from dataclasses import dataclass
from typing import Final

import numpy as np
import scipy
from numpy.typing import NDArray

from monitor.measures.base import Measure
from monitor.measures.checks import require_events
from monitor.measures.corp import corp_curve
from monitor.measures.displacement import mean_distance
from monitor.measures.intce import intce_partition
from monitor.measures.smce import error_bound as smce_error_bound
from monitor.measures.smce import smce
from monitor.scores import ScoreTable

LATTICE: Final = 256
"""The linear programme has points at all k / LATTICE: it is these that calibrated predictions can lie at."""

MOST_ROWS: Final = 256
"""With a point at each of so many scores the programme has 513 points, and takes some .03 s; with 1,025, four times as
long. Of more rows, as many are points, and the others are split between them."""

_EXCESS: Final = 0.5 / LATTICE**2 + 1e-7
"""By how much the programme's value may be too large. Its r0 and r1, linear between two points a gap g apart, are
1-Lipschitz, so (1 - x) r0 + x r1 has a second derivative of at least -4, and exceeds 0 between them by g^2 / 2 at most.
Less that, r0 and r1 are feasible everywhere. And what the solver leaves."""

Floats = NDArray[np.float64]


def dce_lower(table: ScoreTable) -> float:
    r"""Lower distance to calibration.

    .. math:: \min_{(u, v, y)} E|u - v| \quad \text{over couplings of } (p, y) \text{ with calibrated } (v, y)

    The least mean change of the predictions that makes them calibrated, where equal predictions may be changed
    differently, and with knowledge of the outcome. It is the largest lower bound of the distance to the nearest
    calibrated predictor that predictions and outcomes alone can give.

    Parameters
    ----------
    table
        m rows.

    Returns
    -------
    float
        Ratio in [0, 1]; smaller is better. At most 8e-6 too large. Of a table of more than 256 rows it is of 513
        points between which the predictions are split: too small by half the distance between two points at most,
        which :func:`error_bound` adds up, and in practice by a hundred-thousandth.

    Raises
    ------
    NotEnoughData
        The table is empty.

    Notes
    -----
    The dual programme, a chain: the largest :math:`\sum_x \gamma_0(x) r_0(x) + \gamma_1(x) r_1(x)` with 1-Lipschitz r0
    and r1 and :math:`(1 - x) r_0(x) + x r_1(x) \le 0`, where :math:`\gamma_y` is the share of events of outcome y.

    Source: Blasiok, Gopalan, Hu, Nakkiran, "A Unifying Theory of Distance from Calibration", 2023, Definition 5.3,
    Lemma 7.6 and Remark 7.9. The paper bounds what the points cost by their distance, this by its square.

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

    It moves by at most what the predictions move on average: by what they lie off their row, and by what a row is moved
    to be split between two points. Of an exact table that has a point at each row nothing moves.
    """
    del value  # the bound holds whatever it is
    moved, _, _ = _split(table, _points(table))
    return 0.0 if table.exact and moved == 0.0 else mean_distance(table, table.score) + moved + _EXCESS


@dataclass(frozen=True, slots=True)
class DistanceBracket:
    """Two numbers that the distance to calibration certainly lies between.

    Attributes
    ----------
    lower
        No calibrated predictor is closer on average, whatever it knows of the events.
    upper
        A calibrated predictor is at most so far off, and it is a function of the predictions alone.
    """

    lower: float
    upper: float


def distance_bracket(table: ScoreTable) -> DistanceBracket:
    r"""A certified bracket of the distance from the predictions to the nearest calibrated predictor.

    That distance, :math:`\min_g E|p - g|` over the calibrated predictors g, depends on what there is to know of the
    events besides their predictions. For the data at hand as the whole law it lies in the bracket for certain.

    - Below: the lower distance to calibration, and smCE / 2, which never passes it.
    - Above: what it takes to bring the predictions of each interval of intCE's best partition to the interval's
      frequency, which is at most intCE; or those of each block of the isotonic regression, if that is less.

    Twice smCE is an upper bound of the lower distance alone: the distance itself can be larger, up to its root.

    Parameters
    ----------
    table
        m rows. Of a table of cells the bracket is widened by how far the predictions can lie off their row.

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
    of_smooth = smce(table)
    lower = max(
        dce_lower(table) - _EXCESS - off_row,
        (of_smooth - smce_error_bound(table, of_smooth)) / 2.0,
    )
    bounds = intce_partition(table)
    starts = bounds[:-1]
    frequency = np.add.reduceat(table.positives, starts) / np.add.reduceat(table.counts, starts)
    targets = (np.repeat(frequency, np.diff(bounds)), corp_curve(table))
    return DistanceBracket(max(0.0, lower), min(mean_distance(table, target) for target in targets))


def _points(table: ScoreTable) -> Floats:
    """The programme's points, ascending from 0 to 1: a lattice, and the scores or as many of them as are affordable."""
    score = table.score
    if table.rows > MOST_ROWS:
        # Where the events are, so that rare outcomes have points close to 0.
        share = np.cumsum(table.counts) / table.total
        score = score[np.minimum(np.searchsorted(share, (np.arange(MOST_ROWS) + 0.5) / MOST_ROWS), table.rows - 1)]
    return np.union1d(np.arange(LATTICE + 1) / LATTICE, score)


def _split(table: ScoreTable, point: Floats) -> tuple[float, Floats, Floats]:
    """Each row's events, split between the points beside it so that their mean stays.

    Functions that are linear between the points have the same sums over the split events, so that the programme's value
    is never more than that of all scores.

    Returns
    -------
    moved
        How far the events were moved on average.
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
    stands_in="request",
    rank=80,
)
