"""What the file of a measure of many classes declares. One file adds a measure: the folder is scanned."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from monitor.errors import NotEnoughData
from monitor.measures.base import Unit
from monitor.scores import ClassTable

Outcomes = NDArray[np.int32]
"""Drawn outcomes, shape (draws, n)."""

Weights = NDArray[np.float64]
"""Drawn weights of the events, shape (draws, n)."""


class Prepared(Protocol):
    """A measure of certain predictions: what of it depends on them alone is computed once."""

    def draws(self, outcomes: Outcomes) -> NDArray[np.float64]:
        """The measure of each row of outcomes, (draws, n) -> (draws,)."""
        ...

    def norms(self, weight: Weights) -> NDArray[np.float64]:
        """The measure as a semi-norm of the residuals e_y - p: that of the residuals times each row of weights.

        (draws, n) -> (draws,); with every weight 1 it is the measure. The interval follows from it.
        """
        ...

    def shares(self) -> NDArray[np.float64]:
        """What each event adds to the measure, shape (n,): the functional that attains the semi-norm, at its residual.

        Their sum is the measure, and weighed by any row of weights it is no more than ``norms`` of these. The interval
        of a model that is clearly off is shorter for it.
        """
        ...


@dataclass(frozen=True, slots=True)
class Findings:
    """A measure of many classes with what its own theory says of its uncertainty.

    Attributes
    ----------
    value
        The measure.
    lower, upper
        95% confidence interval.
    null_mean, null_q95
        Mean and 95% point if the model were calibrated.
    p_value
        How often a calibrated model does as badly.
    method
        How it was computed, in words, where that depends on the number of events.
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
    """One measure of many classes as reports and the law tests know it.

    Attributes
    ----------
    name
        Its key in a report.
    title
        What a person calls it.
    help
        One sentence: what it says, in plain words.
    unit
        As of :class:`~monitor.measures.base.Measure`.
    value
        The measure of a table, with its default options. Raises NotEnoughData where the table holds too little.
    prepare
        The measure of a table's predictions, for resampling. None where there are ``findings``.
    findings
        Value and uncertainty at once, where there is theory that is better than draws.
    rank
        Place in a report, ascending.
    """

    name: str
    title: str
    help: str
    unit: Unit
    value: Callable[[ClassTable], float]
    prepare: Callable[[ClassTable], Prepared] | None = None
    findings: Callable[[ClassTable], Findings] | None = None
    rank: int = 100


def shares_of(table: ClassTable, bins: NDArray[np.int32], functional: NDArray[np.float64]) -> NDArray[np.float64]:
    """What a functional of binned residuals makes of each event's residual e_y - p, shape (n,).

    Parameters
    ----------
    bins
        int32, shape (n, K): the bin of each probability, -1 for one that is in none.
    functional
        float64, shape (bins,).
    """
    of_probability = np.append(functional, 0.0)[bins]
    events = np.arange(table.rows)
    return np.asarray(of_probability[events, table.outcome] - (of_probability * table.prediction).sum(axis=1))


def require_rows(table: ClassTable, measure: str, least: int = 1) -> None:
    """Raise NotEnoughData unless the table holds at least ``least`` events."""
    if table.rows < least:
        raise NotEnoughData(f"{measure} needs at least {least} event{'s'[: least > 1]}, got {table.rows}")
