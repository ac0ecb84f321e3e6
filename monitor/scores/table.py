"""The score table: the sufficient statistic of every calibration measure."""

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Final

import numpy as np
from numpy.typing import ArrayLike

from monitor.arrays import Bools, Floats, Ints
from monitor.errors import InputError, NotEnoughData
from monitor.scores.arguments import number_text, numbers, require_same_index
from monitor.scores.packing_loops import count_packed, pack_events

MAX_WEIGHT: Final = 1e100
"""Sums of squares of larger weights overflow."""

_NEGLIGIBLE: Final = 1e-100
"""Share of the largest weight. A smaller weight does not change sums, and its square would underflow."""


@dataclass(frozen=True, eq=False)
class ScoreTable:
    """Distinct scores in ascending order, with counts and sums of the events at each.

    Every measure is a function of a score table, so one code path serves files, windows, replicas and clusters, and
    no measure depends on the order of the events: equal predictions share a row.

    A table of raw events has one row per distinct prediction, and is exact. A table from the grid has one row per
    occupied cell, at the cell's mean prediction; its residuals are still exact.

    Attributes
    ----------
    score
        float64, shape (m,), strictly ascending, in [0, 1]: the prediction, or a cell's mean prediction.
    positives, negatives
        float64, shape (m,): number (or weight) of events with outcome 1 and 0.
    positive_sum, negative_sum
        float64, shape (m,): sums of the exact predictions over the positives and over the negatives.
    lower, upper
        float64, shape (m,): where the predictions of a row may lie. Equal to ``score`` in an exact table.
    squares
        float64, shape (2, m): sums of the squared weights of the positives and of the negatives, from which a row's
        variance follows. None without weights.
    """

    score: Floats
    positives: Floats
    negatives: Floats
    positive_sum: Floats
    negative_sum: Floats
    lower: Floats
    upper: Floats
    squares: Floats | None = None

    @classmethod
    def from_events(cls, prediction: ArrayLike, outcome: ArrayLike, weight: ArrayLike | None = None) -> "ScoreTable":
        """The finest table: one row per distinct prediction.

        Parameters
        ----------
        prediction
            shape (n,), every value in [0, 1].
        outcome
            shape (n,), every value 0 or 1 (or bool).
        weight
            shape (n,), every value in [0, 1e100]; all 1 if left out.

        Raises
        ------
        InputError
            A value is out of its range, or the lengths differ. The message names the first such value.
        """
        require_same_index(prediction=prediction, outcome=outcome, weight=weight)
        p = _floats("prediction", prediction)
        y = _floats("outcome", outcome)
        if p.shape != y.shape:
            raise InputError(f"prediction and outcome must be equally long, got {p.size} and {y.size}")
        check(p, (p >= 0.0) & (p <= 1.0), "prediction must be in [0, 1]")
        check(y, (y == 0.0) | (y == 1.0), "outcome must be 0 or 1")
        if weight is None:
            packed = pack_events(p, y)
            packed.sort()
            score, positives, negatives = count_packed(packed)
            squares = None
        else:
            w = _floats("weight", weight)
            if w.shape != p.shape:
                raise InputError(f"weight must be as long as prediction, got {w.size} and {p.size}")
            check(w, np.isfinite(w) & (w >= 0.0), "weight must be finite and at least 0")
            check(w, w <= MAX_WEIGHT, f"weight must be at most {MAX_WEIGHT:g}: divide all by their mean")
            score, positives, negatives, squares = _weigh(p + 0.0, y, w)  # -0.0 becomes 0.0
        return cls(
            score=score,
            positives=positives,
            negatives=negatives,
            positive_sum=positives * score,
            negative_sum=negatives * score,
            lower=score,
            upper=score,
            squares=squares,
        )

    @property
    def rows(self) -> int:
        """Number m of rows."""
        return int(self.score.size)

    @property
    def weighted(self) -> bool:
        """Whether counts are sums of weights. The binomial test of TCE refuses such a table."""
        return self.squares is not None

    @property
    def positive_squares(self) -> Floats:
        """Sum of the positives' squared weights per row, shape (m,): their number without weights."""
        return self.positives if self.squares is None else self.squares[0]

    @property
    def negative_squares(self) -> Floats:
        """Sum of the negatives' squared weights per row, shape (m,): their number without weights."""
        return self.negatives if self.squares is None else self.squares[1]

    @property
    def event_squares(self) -> Floats:
        """Sum of squared weights per row, shape (m,): the number of events without weights."""
        return self.positive_squares + self.negative_squares

    @property
    def residual_variance(self) -> Floats:
        """Variance of :attr:`residual` if the model is calibrated, shape (m,)."""
        return self.event_squares * self.score * (1.0 - self.score)

    @property
    def counts(self) -> Floats:
        """Events per row, shape (m,)."""
        return self.positives + self.negatives

    @cached_property
    def total(self) -> float:
        """Number n of events, or their weight."""
        return float(self.positives.sum() + self.negatives.sum())

    @property
    def effective_events(self) -> float:
        """Number of equal events that vary as much: see :func:`effective_number`. Without weights, that of events."""
        return float(effective_number(self.total, self.event_squares.sum()))

    @property
    def events_per_weight(self) -> float:
        """Effective number of events of a unit of weight; 1 without weights. Of a table that is not empty."""
        return self.total / float(self.event_squares.sum())

    @property
    def residual(self) -> Floats:
        """Sum of outcome - prediction per row, shape (m,). Also exact for cells."""
        return self.positives - (self.positive_sum + self.negative_sum)

    @property
    def absolute_residual(self) -> Floats:
        """Sum of |outcome - prediction| per row, shape (m,)."""
        return (self.positives - self.positive_sum) + self.negative_sum

    @property
    def prevalence(self) -> float:
        """Share of positives; nan in an empty table."""
        return float(self.positives.sum() / self.total) if self.rows else float("nan")

    @property
    def mean_prediction(self) -> float:
        """Mean of the predictions; nan in an empty table."""
        return float((self.positive_sum.sum() + self.negative_sum.sum()) / self.total) if self.rows else float("nan")

    @property
    def exact(self) -> bool:
        """Whether every row is one distinct prediction."""
        return bool(np.array_equal(self.lower, self.upper))

    def with_outcomes(self, positives: Floats) -> "ScoreTable":
        """The same predictions with other outcomes, all events of a row at its score; positives (m,)."""
        counts = self.counts
        negatives = counts - positives
        squares = None
        if self.squares is not None:
            share = np.divide(positives, counts, out=np.zeros(self.rows), where=counts > 0.0)
            squares = self.squares.sum(axis=0) * np.stack([share, 1.0 - share])
        return replace(
            self,
            positives=positives,
            negatives=negatives,
            positive_sum=positives * self.score,
            negative_sum=negatives * self.score,
            squares=squares,
        )


def effective_number(total: ArrayLike, squares: ArrayLike) -> Floats:
    """Number of equal events that vary as much as weighted ones (Kish), W^2 / Q; 0 where there are none.

    Parameters
    ----------
    total, squares
        W, sums of weights, and Q, sums of their squares, shape (...).
    """
    q = np.asarray(squares, np.float64)
    return np.asarray(np.divide(np.square(total), q, out=np.zeros(q.shape), where=q > 0.0))


def _weigh(p: Floats, y: Floats, w: Floats) -> tuple[Floats, Floats, Floats, Floats]:
    """Distinct predictions with a weight above 0, the weights of their positives and negatives, and sums of squares."""
    # Ordered by outcome and weight too: a sum of weights must not depend on the order of the events.
    order = np.lexsort((w, y, p))
    p, y, w = p[order], y[order], w[order]
    starts = np.flatnonzero(np.diff(p, prepend=-1.0))
    if starts.size == 0:
        return p, p, p, np.zeros((2, 0))
    by_class = np.stack([y, 1.0 - y])
    weights = np.add.reduceat(w * by_class, starts, axis=1)
    kept = weights.sum(axis=0) > 0.0
    squares = np.add.reduceat(w**2 * by_class, starts, axis=1)
    return p[starts][kept], weights[0, kept], weights[1, kept], squares[:, kept]


def _floats(name: str, values: ArrayLike) -> Floats:
    array = numbers(name, values)
    if array.ndim != 1:
        raise InputError(f"{name} must have one dimension, got shape {array.shape}")
    return array


def require_table(table: object, what: str) -> None:
    """Raise InputError, with how to make a score table, unless it is one."""
    if not isinstance(table, ScoreTable):
        raise InputError(
            f"{what} needs a score table, got {type(table).__name__}; make one with ScoreTable.from_events(p, y)"
        )


def require_events(table: ScoreTable, measure: str, minimum: int = 1) -> None:
    """Raise NotEnoughData unless the table holds at least ``minimum`` events (or, if weighted, any at all).

    And InputError if it is no table.
    """
    require_table(table, measure)
    if table.rows == 0 or (not table.weighted and table.total < minimum):
        raise NotEnoughData(f"{measure} needs at least {minimum} event{'s'[: minimum > 1]}, got {table.total:g}")


def check(values: Floats, valid: Bools, message: str) -> None:
    """Raise InputError with the first value that is not valid, and its index."""
    if not valid.all():
        at = int(np.argmin(valid))
        raise InputError(f"{message}, got {number_text(values[at])} at index {at}")


def merge_rows(table: ScoreTable, rows: int) -> ScoreTable:
    """Merge neighbouring rows into groups of about equal weight.

    For resampling where the cells of the grid are too coarse. The bins of TCE follow the data, and get finer than the
    cells with more events: TCE of a million calibrated predictions is about 1 point lower on cells, two of its standard
    deviations.

    Parameters
    ----------
    table
        m rows.
    rows
        Largest number of rows of the result, at least 1.

    Returns
    -------
    ScoreTable
        The table itself if it has no more rows. Residuals stay exact, as for cells.

    Raises
    ------
    InputError
        ``rows`` is below 1.
    """
    if rows < 1:
        raise InputError(f"rows must be at least 1, got {rows}")
    if table.rows <= rows:
        return table
    held = table.counts > 0.0
    counts = table.counts[held]
    # The group of a row is that of the middle of its events.
    return gather_rows(table, np.floor((np.cumsum(counts) - counts / 2.0) * (rows / table.total)), held=held)


def gather_rows(table: ScoreTable, group: Ints | Floats, *, held: Bools | None = None) -> ScoreTable:
    """Sum neighbouring rows to rows at their mean predictions. Residuals stay exact.

    Parameters
    ----------
    table
        m rows.
    group
        Shape (m,), ascending from 0 on: rows of one number are summed.
    held
        bool, shape (m,): rows that count, for which alone there are numbers; all if left out.
    """
    rows: Bools | slice = slice(None) if held is None else held
    first = np.flatnonzero(np.diff(group, prepend=-1.0))
    positives, negatives, positive_sum, negative_sum = (
        np.add.reduceat(column[rows], first)
        for column in (table.positives, table.negatives, table.positive_sum, table.negative_sum)
    )
    lower, upper = table.lower[rows][first], table.upper[rows][np.append(first[1:], group.size) - 1]
    return ScoreTable(
        # Rounding must not move a mean out of its rows.
        score=np.clip((positive_sum + negative_sum) / (positives + negatives), lower, upper),
        positives=positives,
        negatives=negatives,
        positive_sum=positive_sum,
        negative_sum=negative_sum,
        lower=lower,
        upper=upper,
        squares=None if table.squares is None else np.add.reduceat(table.squares[:, rows], first, axis=1),
    )


def relative_weights(weights: Floats) -> Floats:
    """Scale weights, finite and at least 0, so that those above 0 have mean 1; shape (n,).

    Then their sums and squares neither overflow nor underflow.
    """
    largest = weights.max(initial=0.0)
    if largest == 0.0:
        return weights
    relative = weights / largest
    relative[relative < _NEGLIGIBLE] = 0.0
    return np.asarray(relative * (np.count_nonzero(relative) / relative.sum()))
