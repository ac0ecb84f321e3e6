"""The Brier score: the mean squared error of the predictions."""

from typing import Final

import numpy as np

from monitor.arrays import Floats
from monitor.measures.base import MeanLoss
from monitor.measures.proper_score import ProperScore
from monitor.scores import ScoreTable


def _loss(p: Floats) -> Floats:
    return np.stack([(1.0 - p) ** 2, p**2])


def _slope(p: Floats) -> Floats:
    return np.stack([-2.0 * (1.0 - p), 2.0 * p])


BRIER: Final = ProperScore("the Brier score", _loss, _slope)


def brier(table: ScoreTable) -> float:
    r"""Brier score.

    .. math:: \frac{1}{n} \sum_i (y_i - p_i)^2

    Parameters
    ----------
    table
        m rows.

    Returns
    -------
    float
        Ratio in [0, 1]; smaller is better. A calibrated model has the mean of p (1 - p), which is not 0: the score also
        measures how well the predictions separate positives from negatives. :func:`corp_decomposition` gives both
        parts.

    Raises
    ------
    NotEnoughData
        The table is empty.

    Notes
    -----
    Source: Brier, "Verification of forecasts expressed in terms of probability", 1950; half of his sum over both
    classes, as is usual for two.

    Examples
    --------
    >>> round(brier(ScoreTable.from_events([0.2, 0.8], [0, 1])), 6)
    0.04
    """
    return BRIER.value(table)


MEASURE = MeanLoss(
    name="brier",
    title="Brier score",
    help="Mean squared difference of outcome and prediction: calibration and discrimination in one number.",
    unit="ratio",
    value=brier,
    error_bound=BRIER.error_bound,
    draws=BRIER.of_draws,
    losses=BRIER.losses,
    appears_in="reports",
    rank=200,
)
