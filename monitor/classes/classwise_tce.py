"""The test-based calibration error of many classes: that of each class against the rest."""

from functools import partial
from typing import Unpack

import numpy as np
from numpy.typing import NDArray

from monitor.classes.reductions import classwise, of_each_class
from monitor.measures import tce
from monitor.measures.tce_blocks import TceKeywords
from monitor.scores import ClassTable


def classwise_tce(table: ClassTable, **options: Unpack[TceKeywords]) -> float:
    r"""Mean of the test-based calibration errors of each class against the rest.

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
        Percent, in [0, 100]; smaller is better. Every class counts alike, however rare it is.

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


def tce_of_each_class(table: ClassTable, **options: Unpack[TceKeywords]) -> NDArray[np.float64]:
    """The test-based calibration error of each class against the rest, percent; shape (K,).

    Parameters and errors are those of :func:`classwise_tce`.

    Examples
    --------
    >>> table = ClassTable.from_events([[0.7, 0.2, 0.1]] * 100, [0] * 70 + [1] * 8 + [2] * 22)
    >>> tce_of_each_class(table)
    array([  0., 100., 100.])
    """
    return of_each_class(table, partial(tce, **options))
