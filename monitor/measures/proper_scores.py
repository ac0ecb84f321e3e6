"""Proper scores, and how much of one is miscalibration: the mean over the events of a loss convex in the prediction."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, Literal, get_args

import numpy as np

from monitor.arrays import Floats
from monitor.isotonic_loops import isotonic_regression
from monitor.measures.base import MeanLoss, of_events
from monitor.measures.displacement import ROUNDING, rounding
from monitor.scores import ScoreTable
from monitor.scores.arguments import require_choice
from monitor.scores.table import require_events


@dataclass(frozen=True, slots=True)
class ProperScore:
    """A proper score: the parts of a measure's declaration.

    Attributes
    ----------
    title
        Its name for people.
    loss
        Predictions (m,) -> loss of a positive and loss of a negative, shape (2, m): the first convex and falling, the
        second convex and rising in the prediction.
    slope
        Predictions (m,) -> their derivatives by the prediction, shape (2, m), finite; any value at 0 and at 1, where
        predictions do not move.
    """

    title: str
    loss: Callable[[Floats], Floats]
    slope: Callable[[Floats], Floats]

    def value(self, table: ScoreTable) -> float:
        """The mean loss.

        A row's events count as lying at its score; the difference of the mean predictions of positives and of negatives
        from it enters by the tangent. In a table of single predictions there is no difference.
        """
        require_events(table, self.title)
        total = float(total_loss(table.positives, table.negatives, self.loss(table.score)))
        moved = np.stack(
            [table.positive_sum - table.positives * table.score, table.negative_sum - table.negatives * table.score]
        )
        there = moved != 0.0
        if there.any():
            total += float((moved[there] * self.slope(table.score)[there]).sum())
        return max(0.0, total) / table.total

    def of_draws(self, table: ScoreTable, positives: Floats) -> Floats:
        """The mean loss of drawn outcomes: positives (draws, m) -> (draws,)."""
        return np.asarray(total_loss(positives, table.counts - positives, self.loss(table.score)) / table.total)

    def losses(self, table: ScoreTable) -> Floats:
        """Loss of a positive and of a negative event of each row, shape (2, m)."""
        return self.loss(table.score)

    def error_bound(self, table: ScoreTable, value: float) -> float:
        """How far the score of the raw predictions can lie from that of the table.

        The loss is convex, so the mean loss of events of one kind, of mean u in [lo, hi], lies between the loss at u
        and the chord's height there.
        """
        if table.exact:
            return 0.0
        low, high = self._range(table)
        return max(0.0, value - low, high - value) + rounding(table)

    def _range(self, table: ScoreTable) -> tuple[float, float]:
        lowest = highest = 0.0
        lower = table.lower
        # Rows with a width are open on the right.
        upper = np.where(lower < table.upper, np.nextafter(table.upper, lower), table.upper)
        # A positive's loss falls with the prediction, a negative's rises.
        for kind, (count, total, better) in enumerate(
            ((table.positives, table.positive_sum, 1.0), (table.negatives, table.negative_sum, -1.0))
        ):
            held = count > 0.0
            number, lo, hi = count[held], lower[held], upper[held]
            mean = total[held] / number
            # A mean of predictions in whole units is at most half a unit off.
            best = np.clip(mean + better * ROUNDING / 2.0, lo, hi)
            worst = np.clip(mean - better * ROUNDING / 2.0, lo, hi)
            lowest += float(number @ self.loss(best)[kind])
            share = np.divide(worst - lo, hi - lo, out=np.zeros(number.size), where=hi > lo)
            for part, end in ((1.0 - share, lo), (share, hi)):
                highest += float(_product(number * part, self.loss(end)[kind]).sum())
        return lowest / table.total, highest / table.total


def total_loss(positives: Floats, negatives: Floats, loss: Floats) -> Floats:
    """Sum of the losses over the last axis; positives and negatives (..., m), loss (2, m).

    An infinite loss counts only where there is an event with it.
    """
    return np.asarray(_product(positives, loss[0]).sum(axis=-1) + _product(negatives, loss[1]).sum(axis=-1))


def _product(number: Floats, loss: Floats) -> Floats:
    if np.isfinite(loss).all():
        return number * loss
    return np.multiply(number, loss, out=np.zeros(number.shape), where=number > 0.0)


def _brier_loss(p: Floats) -> Floats:
    return np.stack([(1.0 - p) ** 2, p**2])


def _brier_slope(p: Floats) -> Floats:
    return np.stack([-2.0 * (1.0 - p), 2.0 * p])


BRIER: Final = ProperScore("the Brier score", _brier_loss, _brier_slope)


@of_events
def brier(table: ScoreTable) -> float:
    r"""Brier score.

    .. math:: \frac{1}{n} \sum_i (y_i - p_i)^2

    Parameters
    ----------
    table
        m rows; or in its place ``p, y``: predictions P(y = 1) and outcomes, shape (n,) each.

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


_TINY: Final = float(np.finfo(np.float64).tiny)


def _log_loss(p: Floats) -> Floats:
    with np.errstate(divide="ignore"):
        return np.stack([-np.log(p), -np.log1p(-p)])


def _log_slope(p: Floats) -> Floats:
    # The lowest cell begins at the smallest float, whose inverse overflows.
    return np.stack([-1.0 / np.maximum(p, _TINY), 1.0 / np.maximum(1.0 - p, _TINY)])


LOG_LOSS: Final = ProperScore("the log loss", _log_loss, _log_slope)


@of_events
def log_loss(table: ScoreTable) -> float:
    r"""Log loss, or cross-entropy.

    .. math:: -\frac{1}{n} \sum_i \big( y_i \log p_i + (1 - y_i) \log(1 - p_i) \big)

    Parameters
    ----------
    table
        m rows; or in its place ``p, y``: predictions P(y = 1) and outcomes, shape (n,) each.

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


Score = Literal["brier", "log_loss"]

_SCORES: Final[dict[Score, ProperScore]] = {"brier": BRIER, "log_loss": LOG_LOSS}


@dataclass(frozen=True, slots=True)
class Decomposition:
    """A proper score in three parts: score = miscalibration - discrimination + uncertainty.

    Attributes
    ----------
    score
        The score itself.
    miscalibration
        The part that the best isotonic recalibration removes, at least 0. Smaller is better.
    discrimination
        The gain of the recalibrated predictions over the prevalence alone, at least 0. Larger is better.
    uncertainty
        The score of the prevalence: how hard the outcomes are to predict for any model.
    """

    score: float
    miscalibration: float
    discrimination: float
    uncertainty: float


@of_events
def corp_curve(table: ScoreTable) -> Floats:
    """The recalibrated predictions: isotonic regression of the outcomes on the predictions.

    Parameters
    ----------
    table
        m rows; or in its place ``p, y``: predictions P(y = 1) and outcomes, shape (n,) each.

    Returns
    -------
    float64, shape (m,)
        The frequency at each row's score, not falling: the CORP reliability diagram draws it over ``table.score``.

    Raises
    ------
    NotEnoughData
        The table is empty.

    Notes
    -----
    Source: Dimitriadis, Gneiting, Jordan, "Stable reliability diagrams for probabilistic classifiers", 2021.
    """
    require_events(table, "the CORP curve")
    counts = table.counts
    curve = isotonic_regression(table.positives / counts, np.asarray(counts, np.float64))
    return np.asarray(np.clip(curve, 0.0, 1.0))  # rounding can move a mean of frequencies out of [0, 1]


@of_events
def corp_decomposition(table: ScoreTable, score: Score = "brier") -> Decomposition:
    r"""Decompose a proper score S by isotonic recalibration.

    .. math:: \bar S(p) = \underbrace{\bar S(p) - \bar S(\hat p)}_\mathrm{miscalibration}
        - \underbrace{(\bar S(\bar y) - \bar S(\hat p))}_\mathrm{discrimination}
        + \underbrace{\bar S(\bar y)}_\mathrm{uncertainty}

    with :math:`\hat p` the predictions recalibrated by isotonic regression and :math:`\bar y` the prevalence.

    Parameters
    ----------
    table
        m rows; or ``p, y`` in its place. In a table of the grid the events of a cell share their recalibrated
        prediction.
    score
        ``brier`` or ``log_loss``, in nats. The miscalibration of the latter is infinite where the log loss is.

    Raises
    ------
    NotEnoughData
        The table is empty.
    InputError
        ``score`` is neither.

    Notes
    -----
    Isotonic regression fits noise too: a calibrated model has a miscalibration above 0, which falls as n^(-2/3).

    Source: Dimitriadis, Gneiting, Jordan, "Stable reliability diagrams for probabilistic classifiers", 2021.

    Examples
    --------
    >>> parts = corp_decomposition(ScoreTable.from_events([0.2] * 4 + [0.6] * 4, [0, 0, 0, 1, 0, 1, 1, 1]))
    >>> parts.score, round(parts.miscalibration, 6), parts.discrimination, parts.uncertainty
    (0.2, 0.0125, 0.0625, 0.25)
    """
    require_choice("score", score, get_args(Score))
    proper = _SCORES[score]
    value = proper.value(table)
    recalibrated = _mean(table, proper, corp_curve(table))
    uncertainty = _mean(table, proper, np.full(table.rows, table.prevalence))
    return Decomposition(
        score=value,
        # The tangent in the score of cells can make it smaller by its last bits.
        miscalibration=max(0.0, value - recalibrated),
        discrimination=max(0.0, uncertainty - recalibrated),
        uncertainty=uncertainty,
    )


def _mean(table: ScoreTable, score: ProperScore, prediction: Floats) -> float:
    return float(total_loss(table.positives, table.negatives, score.loss(prediction))) / table.total


MEASURES: Final = (
    MeanLoss(
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
    ),
    MeanLoss(
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
    ),
)
