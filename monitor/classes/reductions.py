"""Binary measures for many classes: of the top label, and of each class against the rest."""

from collections.abc import Callable

import numpy as np

from monitor.arrays import Floats
from monitor.scores import ClassTable, ScoreTable

BinaryMeasure = Callable[[ScoreTable], float]
"""A function of ``monitor.measures``, or the ``value`` of a :class:`~monitor.measures.Measure`."""


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
