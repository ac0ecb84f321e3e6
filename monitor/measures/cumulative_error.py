"""The estimated cumulative calibration error: the largest cumulative difference."""

from typing import Literal

import numpy as np

from monitor.arrays import Floats
from monitor.measures.base import SemiNorm, of_events
from monitor.measures.displacement import rounding
from monitor.scores import ScoreTable
from monitor.scores.arguments import require_choice
from monitor.scores.table import require_events

Kind = Literal["mad", "range"]


@of_events
def ecce(table: ScoreTable, *, kind: Kind = "mad") -> float:
    r"""Estimated cumulative calibration error.

    .. math:: \mathrm{ECCE\text{-}MAD} = \max_k |C_k|, \qquad \mathrm{ECCE\text{-}R} = \max_k C_k - \min_k C_k,
        \qquad C_k = \frac{1}{n} \sum_{i \le k} (y_i - p_i), \quad C_0 = 0

    with the predictions in ascending order. It is the largest mean residual of all predictions up to some p, or, by the
    range, of any interval of predictions: no bins, and no kernel.

    Parameters
    ----------
    table
        m rows; or in its place ``p, y``: predictions P(y = 1) and outcomes, shape (n,) each.
    kind
        ``mad``: the maximum absolute deviation. ``range``: the range.

    Returns
    -------
    float
        Ratio in [0, 1]; smaller is better.

    Raises
    ------
    NotEnoughData
        The table is empty.
    InputError
        ``kind`` is wrong.

    Notes
    -----
    For a calibrated model C is about a Brownian motion of variance mean p (1 - p) / n: on average ``mad`` is 1.25 and
    ``range`` 1.60 of its standard deviation.

    Source: Arrieta-Ibarra, Gujral, Tannen, Tygert, Xu, "Metrics of Calibration for Probabilistic Predictions", Journal
    of Machine Learning Research 23, 2022. There equal predictions have a random order; here a row is one step.

    Examples
    --------
    >>> table = ScoreTable.from_events([0.25, 0.5, 0.75], [0, 1, 0])
    >>> round(ecce(table), 6), round(ecce(table, kind="range"), 6)
    (0.166667, 0.25)
    """
    require_choice("kind", kind, ("mad", "range"))
    require_events(table, "ECCE")
    cumulative = np.cumsum(table.residual)
    if kind == "mad":
        return float(np.abs(cumulative).max()) / table.total
    return float(cumulative.max(initial=0.0) - cumulative.min(initial=0.0)) / table.total


def ecce_norms(table: ScoreTable, residual: Floats) -> Floats:
    """ECCE-MAD as a norm of the residual measure: m rows, residual (draws, m) -> (draws,)."""
    return np.asarray(np.abs(np.cumsum(residual, axis=1)).max(axis=1) / table.total)


def ecce_functional(table: ScoreTable) -> Floats:
    """The functional that attains ECCE-MAD, (m,): the sign of the largest difference, on all predictions up to it."""
    cumulative = np.cumsum(table.residual)
    worst = int(np.abs(cumulative).argmax())
    return np.where(np.arange(table.rows) <= worst, np.sign(cumulative[worst]) / table.total, 0.0)


def error_bound(table: ScoreTable, value: float) -> float:
    """How far the ECCE-MAD of the raw predictions can lie from that of the table.

    The table knows C at the ends of its rows, so the raw value is no smaller. Within a row C rises by no more than the
    residuals of all its positives and falls by no more than those of all its negatives.
    """
    if table.exact:
        return 0.0
    before = np.concatenate([[0.0], np.cumsum(table.residual)[:-1]])
    highest = before + (table.positives - table.positive_sum)
    lowest = before - table.negative_sum
    largest = max(float(highest.max()), float(-lowest.min())) / table.total
    return max(0.0, largest - value) + rounding(table)


MEASURE = SemiNorm(
    name="ecce",
    title="ECCE-MAD",
    help="Largest cumulative difference between outcomes and predictions, in ascending order of the predictions.",
    unit="ratio",
    value=ecce,
    error_bound=error_bound,
    norms=ecce_norms,
    witness=ecce_functional,
    appears_in="reports",
    rank=67,
)
