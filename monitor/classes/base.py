"""What a file of this folder declares to add a measure of many classes, and what the measures share."""

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import gammaincinv

from monitor.arrays import Floats
from monitor.classes.class_loops import hits_of_draws, weighted_residuals
from monitor.errors import NotEnoughData
from monitor.measures.base import Unit
from monitor.scores import ClassTable, ScoreTable

Outcomes = NDArray[np.int32]
"""Drawn outcomes, shape (draws, n)."""

Weights = Floats
"""Drawn weights of the events, shape (draws, n)."""

BinaryMeasure = Callable[[ScoreTable], float]
"""A function of ``monitor.measures``, or the ``value`` of a :class:`~monitor.measures.Measure`."""


@dataclass(frozen=True, slots=True)
class Prepared(ABC):
    """A measure that depends on sums of residuals e_y - p over bins, with everything but the outcomes computed once.

    Attributes
    ----------
    table
        n events of K classes.
    bins
        int32, shape (n, K): the bin of each probability, -1 for none.
    sums
        float64, any shape: sum of the probabilities in each bin.
    """

    table: ClassTable
    bins: NDArray[np.int32]
    sums: Floats

    @abstractmethod
    def errors(self, residual: Floats) -> Floats:
        """Compute the measure from binned residuals, (draws, *sums.shape) -> (draws,)."""

    @abstractmethod
    def functional(self, residual: Floats) -> Floats:
        """Return the linear functional of binned residuals that attains the measure at these; both as ``sums``."""

    def draws(self, outcomes: Outcomes) -> Floats:
        """Compute the measure for each row of outcomes, (draws, n) -> (draws,)."""
        hits = hits_of_draws(self.bins, outcomes, self.sums.size)
        return self.errors(hits.reshape(-1, *self.sums.shape) - self.sums)

    def norms(self, weight: Weights) -> Floats:
        """Compute the measure of residuals multiplied by each row of weights, (draws, n) -> (draws,).

        The measure is a semi-norm of the residuals. With all weights 1 this is its value; intervals follow from it.
        """
        return self.errors(self._residuals(weight))

    def shares(self) -> Floats:
        """Return the contribution of each event to the measure, shape (n,): the attaining functional at its residual.

        They sum to the measure, and weighted by any row of weights they are at most ``norms`` of that row. Intervals of
        clearly miscalibrated models are shorter with them.
        """
        (residual,) = self._residuals(np.ones((1, self.table.rows)))
        of_probability = np.append(self.functional(residual), 0.0)[self.bins]
        events = np.arange(self.table.rows)
        expected = (of_probability * self.table.prediction).sum(axis=1)
        return np.asarray(of_probability[events, self.table.outcome] - expected)

    def _residuals(self, weight: Weights) -> Floats:
        table = self.table
        sums = weighted_residuals(self.bins, table.prediction, table.outcome, weight, self.sums.size)
        return sums.reshape(-1, *self.sums.shape)


@dataclass(frozen=True, slots=True)
class ClassMeasurement:
    """A measure of many classes with the uncertainty that follows from its own theory.

    Attributes
    ----------
    value
        The measure.
    lower, upper
        95% confidence interval.
    null_mean, null_q95
        Mean and 95% point if the model were calibrated.
    p_value
        Probability that a calibrated model does as badly.
    method
        How it was computed, in words.
    """

    value: float
    lower: float
    upper: float
    null_mean: float
    null_q95: float
    p_value: float
    method: str


@dataclass(frozen=True, slots=True)
class ClassMeasure:
    """One measure of many classes, as reports and the law tests use it.

    Attributes
    ----------
    name
        Its key in a report.
    title
        Its name for people.
    help
        One sentence: what it measures.
    unit
        See :class:`~monitor.measures.base.Measure`.
    value
        The measure of a table, with default options. Raises NotEnoughData if the table holds too few events.
    prepare
        The measure of a table's predictions, for resampling. None if there are ``findings``.
    findings
        Value and uncertainty from theory that is better than resampling.
    rank
        Place in a report, ascending.
    """

    name: str
    title: str
    help: str
    unit: Unit
    value: Callable[[ClassTable], float]
    prepare: Callable[[ClassTable], Prepared] | None = None
    findings: Callable[[ClassTable], ClassMeasurement] | None = None
    rank: int = 100


# A sum of h_ij over i, j with a positive definite h is close to a weighted sum of chi-squares. A Gamma distribution of
# the same mean and variance approximates it: tests at 5% reject .04 to .07 of calibrated models.


def gamma_q95(mean: float, variance: float) -> float:
    """Return the 95% point of a quadratic form of residuals with this mean and variance."""
    return mean if variance <= 0.0 else float(gammaincinv(mean**2 / variance, 0.95) * variance / mean)


def require_rows(table: ClassTable, measure: str, least: int = 1) -> None:
    """Raise NotEnoughData unless the table holds at least ``least`` events."""
    if table.rows < least:
        raise NotEnoughData(f"{measure} needs at least {least} event{'s'[: least > 1]}, got {table.rows}")


def top_label(table: ClassTable, measure: BinaryMeasure) -> float:
    """Apply a binary measure to the largest probability of each event and whether its class came true.

    Examples
    --------
    >>> from monitor.measures import ece
    >>> round(top_label(ClassTable.from_events([[0.7, 0.2, 0.1]] * 10, [0] * 5 + [1] * 5), ece), 6)
    0.2
    """
    return measure(table.top_label())


def of_each_class(table: ClassTable, measure: BinaryMeasure) -> Floats:
    """Apply a binary measure to each class against the rest; shape (K,)."""
    return np.array([measure(table.one_against_rest(label)) for label in range(table.classes)])


def classwise(table: ClassTable, measure: BinaryMeasure) -> float:
    """Average a binary measure of each class against the rest; every class counts equally.

    Source: Kull et al., "Beyond temperature scaling", 2019, equation 3, for ECE; Matsubara et al. 2023, Remark 2, for
    TCE.

    Examples
    --------
    >>> from monitor.measures import ece
    >>> round(classwise(ClassTable.from_events([[0.7, 0.2, 0.1]] * 10, [0] * 5 + [1] * 5), ece), 6)
    0.2
    """
    return float(of_each_class(table, measure).mean())
