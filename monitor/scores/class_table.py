"""Predictions over many classes, with the observed class."""

from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import ArrayLike

from monitor.arrays import Floats, Ints
from monitor.errors import InputError
from monitor.scores.arguments import number_text, numbers, require_same_index, sum_text
from monitor.scores.probability_loops import normalise_rows
from monitor.scores.table import ScoreTable

SUM_TOLERANCE: Final = 1e-2
"""Allowed difference of a vector's sum from 1: rounding twenty classes to three digits can cause that much."""


@dataclass(frozen=True, eq=False)
class ClassTable:
    """Probability vectors with their outcomes, one row per event.

    Attributes
    ----------
    prediction
        float64, shape (n, K), K >= 2: each row >= 0 and of sum 1 within 1e-6.
    outcome
        int64, shape (n,): the observed class, in [0, K).
    """

    prediction: Floats
    outcome: Ints

    @classmethod
    def from_events(
        cls, prediction: ArrayLike, outcome: ArrayLike, *, names: tuple[str, str] = ("prediction", "outcome")
    ) -> "ClassTable":
        """The table of predictions and outcomes.

        The sum of a row must be 1 within 0.01. A row whose sum is 1 within 1e-6 is not changed, so that a class keeps
        the exact probabilities of its column; other rows are divided by their sum.

        Parameters
        ----------
        prediction
            shape (n, K), every value in [0, 1].
        outcome
            shape (n,), whole numbers in [0, K).
        names
            The caller's names of the two, for messages.

        Raises
        ------
        InputError
            A value is out of its range, a row does not add up, or shapes do not fit. The message names the first such
            row.
        """
        p_name, y_name = names
        require_same_index(**{p_name: prediction, y_name: outcome})
        p, y = numbers(p_name, prediction), numbers(y_name, outcome)
        if p.ndim != 2 or p.shape[1] < 2:
            raise InputError(f"{p_name} must have the shape (events, classes) with two classes or more, got {p.shape}")
        if y.shape != p.shape[:1]:
            raise InputError(f"{y_name} must hold one class for each row of {p_name}, got {y.shape} for {p.shape[0]}")
        outside = ~((p >= 0.0) & (p <= 1.0))
        if outside.any():
            row, column = np.argwhere(outside)[0]
            got = number_text(p[row, column])
            raise InputError(f"{p_name} must be in [0, 1], got {got} in row {row}, class {column}")
        p = np.array(p, order="C")
        adds_up = normalise_rows(p, SUM_TOLERANCE)
        if not adds_up.all():
            row = int(np.argmin(adds_up))
            raise InputError(f"{p_name} must add up to 1 over the classes, got {sum_text(p[row])} in row {row}")
        wrong = ~((y >= 0.0) & (y < p.shape[1]) & (y == np.floor(y)))
        if wrong.any():
            row = int(np.argmax(wrong))
            raise InputError(
                f"{y_name} must be a class from 0 to {p.shape[1] - 1}, got {number_text(y[row])} in row {row}"
            )
        return cls(p, y.astype(np.int64))

    @property
    def rows(self) -> int:
        """Number n of events."""
        return int(self.outcome.size)

    @property
    def classes(self) -> int:
        """Number K of classes."""
        return int(self.prediction.shape[1])

    @property
    def residual(self) -> Floats:
        """Outcome, as a unit vector, less prediction; shape (n, K)."""
        result = -self.prediction
        result[np.arange(self.rows), self.outcome] += 1.0
        return result

    def top_label(self) -> ScoreTable:
        """The largest probability of each event (the first of equal ones), and whether its class was observed."""
        top = np.argmax(self.prediction, axis=1)
        return ScoreTable.from_events(self.prediction[np.arange(self.rows), top], top == self.outcome)

    def one_against_rest(self, label: int) -> ScoreTable:
        """The probability of one class, and whether it was observed."""
        if not 0 <= label < self.classes:
            raise InputError(f"class must be from 0 to {self.classes - 1}, got {label}")
        return ScoreTable.from_events(self.prediction[:, label], self.outcome == label)


def positive_class(vectors: Floats) -> Floats:
    """P(y = 1) in the vectors (n, 2) of a binary model: their second column, as scikit-learn orders classes.

    Values are not checked; rows are divided by their sums as in :meth:`ClassTable.from_events`.
    """
    rows = np.array(vectors, order="C")
    normalise_rows(rows, SUM_TOLERANCE)
    return np.ascontiguousarray(rows[:, 1])
