"""Predictions over many classes, with the class that came true."""

from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import ArrayLike

from monitor.arrays import Floats, Ints
from monitor.errors import InputError
from monitor.scores.arguments import number_text, require_same_index, sum_text
from monitor.scores.probability_loops import normalise_rows
from monitor.scores.table import ScoreTable

SUM_TOLERANCE: Final = 1e-2
"""How far a vector's sum may lie from 1: three printed digits of twenty classes leave that much."""


@dataclass(frozen=True, eq=False)
class ClassTable:
    """Probability vectors with their outcomes, one row an event: what the measures of many classes are of.

    Attributes
    ----------
    prediction
        float64, shape (n, K), K >= 2: each row >= 0 and of sum 1 within 1e-6.
    outcome
        int64, shape (n,): the class that came true, in [0, K).
    """

    prediction: Floats
    outcome: Ints

    @classmethod
    def from_events(
        cls, prediction: ArrayLike, outcome: ArrayLike, *, names: tuple[str, str] = ("prediction", "outcome")
    ) -> "ClassTable":
        """The table of predictions and outcomes.

        The sum of a row must be 1 within 0.01. A row whose sum is 1 within 1e-6 stays as it is, so that a class has the
        very probabilities of its column; another one is divided by its sum.

        Parameters
        ----------
        prediction
            shape (n, K), every value in [0, 1].
        outcome
            shape (n,), whole numbers in [0, K).
        names
            What the two are called where the caller took them from, for messages.

        Raises
        ------
        InputError
            A value is out of its range, a row does not add up, or shapes do not fit. The message names the first such
            row.
        """
        of_p, of_y = names
        require_same_index(**{of_p: prediction, of_y: outcome})
        p = _array(of_p, prediction)
        y = _array(of_y, outcome)
        if p.ndim != 2 or p.shape[1] < 2:
            raise InputError(f"{of_p} must have the shape (events, classes) with two classes or more, got {p.shape}")
        if y.shape != p.shape[:1]:
            raise InputError(f"{of_y} must hold one class for each row of {of_p}, got {y.shape} for {p.shape[0]}")
        outside = ~((p >= 0.0) & (p <= 1.0))
        if outside.any():
            row, column = np.argwhere(outside)[0]
            got = number_text(p[row, column])
            raise InputError(f"{of_p} must be in [0, 1], got {got} in row {row}, class {column}")
        p = np.array(p, order="C")
        adds_up = normalise_rows(p, SUM_TOLERANCE)
        if not adds_up.all():
            row = int(np.argmin(adds_up))
            raise InputError(f"{of_p} must add up to 1 over the classes, got {sum_text(p[row])} in row {row}")
        wrong = ~((y >= 0.0) & (y < p.shape[1]) & (y == np.floor(y)))
        if wrong.any():
            row = int(np.argmax(wrong))
            raise InputError(
                f"{of_y} must be a class from 0 to {p.shape[1] - 1}, got {number_text(y[row])} in row {row}"
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
        """The largest probability of each event, and whether its class came true; of equals the first class counts."""
        top = np.argmax(self.prediction, axis=1)
        return ScoreTable.from_events(self.prediction[np.arange(self.rows), top], top == self.outcome)

    def one_against_rest(self, label: int) -> ScoreTable:
        """The probability of one class, and whether it came true."""
        if not 0 <= label < self.classes:
            raise InputError(f"class must be from 0 to {self.classes - 1}, got {label}")
        return ScoreTable.from_events(self.prediction[:, label], self.outcome == label)


def _array(name: str, values: ArrayLike) -> Floats:
    try:
        return np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise InputError(f"{name} must be numbers: {error}") from error
