"""The common parts of proper scores: the mean over the events of a loss that is convex in the prediction."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from monitor.arrays import Floats
from monitor.measures.displacement import ROUNDING, rounding
from monitor.scores import ScoreTable
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
