"""The maximum mean calibration error: the kernel calibration error of the top label."""

import math
from dataclasses import dataclass
from typing import Final

import numpy as np

from monitor.arrays import Floats
from monitor.classes.base import ClassMeasure, Prepared, require_rows
from monitor.measures import kce
from monitor.measures.kernel_error import MMCE_WIDTH
from monitor.measures.laplace_loops import laplace_potential, laplace_quadratic_forms
from monitor.scores import ClassTable


def mmce(table: ClassTable, *, width: float = MMCE_WIDTH) -> float:
    r"""Maximum mean calibration error.

    .. math:: \mathrm{MMCE}^2 = \frac{1}{n^2} \sum_{ij} (c_i - \hat p_i) (c_j - \hat p_j)
              \exp(-|\hat p_i - \hat p_j| / w)

    with the largest probability of each event, and c = 1 if its class came true, else 0. It is the kernel calibration
    error of the top label, computed exactly in time n log n.

    Parameters
    ----------
    table
        n events of K classes.
    width
        w, finite and above 0.

    Returns
    -------
    float
        In [0, 1]; smaller is better. Classes that are not on top do not count.

    Raises
    ------
    NotEnoughData
        The table is empty.
    InputError
        ``width`` is out of its range.

    Notes
    -----
    Source: Kumar, Sarawagi, Jain, "Trainable Calibration Measures For Neural Networks From Kernel Mean Embeddings",
    2018, equation 6.

    Examples
    --------
    >>> round(mmce(ClassTable.from_events([[0.8, 0.2], [0.8, 0.2]], [0, 1])), 6)
    0.3
    """
    require_rows(table, "MMCE")
    return kce(table.top_label(), bandwidth=width)


@dataclass(frozen=True, slots=True)
class _TopLabel(Prepared):
    """Events binned by their confidence, one bin for each distinct one.

    Attributes
    ----------
    score
        Distinct confidences, ascending, shape (m,).
    """

    score: Floats

    @classmethod
    def of(cls, table: ClassTable) -> "_TopLabel":
        events = np.arange(table.rows)
        top = np.argmax(table.prediction, axis=1)
        score, row, count = np.unique(table.prediction[events, top], return_inverse=True, return_counts=True)
        bins = np.full(table.prediction.shape, -1, np.int32)
        bins[events, top] = row
        return cls(table, bins, count * score, score)

    def errors(self, residual: Floats) -> Floats:
        square = laplace_quadratic_forms(self.score, residual, MMCE_WIDTH)
        return np.asarray(np.sqrt(np.maximum(0.0, square)) / self.table.rows)

    def functional(self, residual: Floats) -> Floats:
        potential = laplace_potential(self.score, residual, MMCE_WIDTH)
        size = math.sqrt(max(0.0, float(potential @ residual)))
        return potential / (size * self.table.rows) if size > 0.0 else np.zeros(self.score.size)


MEASURE: Final = ClassMeasure(
    name="mmce",
    title="MMCE",
    help="Maximum mean calibration error: the kernel calibration error of the top label.",
    unit="ratio",
    value=mmce,
    prepare=_TopLabel.of,
    rank=30,
)
