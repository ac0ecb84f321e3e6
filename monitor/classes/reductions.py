"""Binary measures for many classes: of the top label, and of each class against the rest."""

from collections.abc import Callable
from functools import partial
from typing import Unpack

import numpy as np

from monitor.arrays import Floats
from monitor.measures import tce
from monitor.measures.tce import TceKeywords
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


def classwise_tce(table: ClassTable, **options: Unpack[TceKeywords]) -> float:
    r"""Average the test-based calibration errors of each class against the rest.

    .. math:: \frac 1 K \sum_k \mathrm{TCE}(p_{\cdot k}, 1[y = k])

    Parameters
    ----------
    table
        n events of K classes.
    options
        ``alpha``, ``bins``, ``n_bins``, ``min_size``, ``max_size`` and ``test`` of :func:`~monitor.measures.tce`.

    Returns
    -------
    float
        Percent, in [0, 100]; smaller is better. Every class counts equally, however rare it is.

    Raises
    ------
    NotEnoughData
        The table is empty.
    InputError
        An option is wrong.

    Notes
    -----
    Source: Matsubara et al., "TCE: A Test-Based Approach to Measuring Calibration Error", 2023, Remark 2.

    Examples
    --------
    >>> table = ClassTable.from_events([[0.7, 0.2, 0.1]] * 100, [0] * 70 + [1] * 20 + [2] * 10)
    >>> classwise_tce(table)
    0.0
    """
    return classwise(table, partial(tce, **options))


def tce_of_each_class(table: ClassTable, **options: Unpack[TceKeywords]) -> Floats:
    """Compute the test-based calibration error of each class against the rest, percent; shape (K,).

    Parameters and errors are those of :func:`classwise_tce`.

    Examples
    --------
    >>> table = ClassTable.from_events([[0.7, 0.2, 0.1]] * 100, [0] * 70 + [1] * 8 + [2] * 22)
    >>> tce_of_each_class(table)
    array([  0., 100., 100.])
    """
    return of_each_class(table, partial(tce, **options))
