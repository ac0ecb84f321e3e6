"""The log loss: the mean surprise at the outcomes."""

from typing import Final

import numpy as np

from monitor.arrays import Floats
from monitor.measures.base import MeanLoss
from monitor.measures.proper_score import ProperScore
from monitor.scores import ScoreTable

_TINY: Final = float(np.finfo(np.float64).tiny)


def _loss(p: Floats) -> Floats:
    with np.errstate(divide="ignore"):
        return np.stack([-np.log(p), -np.log1p(-p)])


def _slope(p: Floats) -> Floats:
    # The lowest cell begins at the smallest float, whose inverse overflows.
    return np.stack([-1.0 / np.maximum(p, _TINY), 1.0 / np.maximum(1.0 - p, _TINY)])


LOG_LOSS: Final = ProperScore("the log loss", _loss, _slope)


def log_loss(table: ScoreTable) -> float:
    r"""Log loss, or cross-entropy.

    .. math:: -\frac{1}{n} \sum_i \big( y_i \log p_i + (1 - y_i) \log(1 - p_i) \big)

    Parameters
    ----------
    table
        m rows.

    Returns
    -------
    float
        Nats, at least 0; smaller is better. Infinite if a prediction of 0 came true or one of 1 did not, whatever the
        other events. A report then omits it, with the reason.

    Raises
    ------
    NotEnoughData
        The table is empty.

    Notes
    -----
    Source: Good, "Rational decisions", 1952. Many libraries clip predictions at about 1e-15 instead, and their
    value depends on the limit.

    Examples
    --------
    >>> round(log_loss(ScoreTable.from_events([0.2, 0.8], [0, 1])), 6)
    0.223144
    """
    return LOG_LOSS.value(table)


MEASURE = MeanLoss(
    name="log_loss",
    title="Log loss",
    help="Mean surprise at the outcomes: as the Brier score, but harder on predictions that are sure and wrong.",
    unit="nats",
    value=log_loss,
    error_bound=LOG_LOSS.error_bound,
    draws=LOG_LOSS.of_draws,
    losses=LOG_LOSS.losses,
    appears_in="reports",
    rank=210,
)
