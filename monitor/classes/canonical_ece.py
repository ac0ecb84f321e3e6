"""The expected calibration error of whole probability vectors, in bins of the simplex."""

import heapq
from dataclasses import dataclass
from typing import Final, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from monitor.arrays import Floats
from monitor.classes.base import ClassMeasure, Prepared, require_rows
from monitor.scores import ClassTable
from monitor.scores.arguments import require_choice, require_whole

Distance = Literal["total_variation", "cityblock", "squared_euclidean"]
VectorBins = Literal["median_variance", "equal_width"]

DEFAULT_MIN_SIZE: Final = 10
DEFAULT_N_BINS: Final = 10


def canonical_ece(
    table: ClassTable,
    *,
    distance: Distance = "total_variation",
    bins: VectorBins = "median_variance",
    min_size: int = DEFAULT_MIN_SIZE,
    max_bins: int | None = None,
    n_bins: int = DEFAULT_N_BINS,
) -> float:
    r"""Expected calibration error of whole probability vectors.

    .. math:: \sum_b \frac{n_b}{n} d(\bar p_b, \bar y_b)

    with the mean prediction and the class frequencies of each bin of predictions.

    Parameters
    ----------
    table
        n events of K classes.
    distance
        d: ``total_variation``, sum |p - q| / 2; ``cityblock``, twice that; ``squared_euclidean``, sum (p - q)^2.
    bins
        ``median_variance``: the bin whose largest variance of a class's probability is the largest of all is split at
        the median of that class's probability, the smaller ones to one side, as long as both sides keep ``min_size``
        events. ``equal_width``: ``n_bins`` of equal width for each class's probability, closed on the left and open on
        the right, but for the last: a product of intervals, so there are up to n_bins^K bins, and with more than a few
        classes nearly every event has its own.
    min_size
        Minimum number of events in a bin of ``median_variance``, at least 1.
    max_bins
        Maximum number of bins of ``median_variance``, at least 1; unlimited if left out.
    n_bins
        Intervals of ``equal_width``, at least 1.

    Returns
    -------
    float
        In [0, 1] for the total variation distance, in [0, 2] for the other two. Biased upwards by chance, strongly for
        bins of ten events even if the model is calibrated: compare with the level under calibration.

    Raises
    ------
    NotEnoughData
        The table is empty, or holds fewer than ``min_size`` events.
    InputError
        An option is wrong.

    Notes
    -----
    Source: Vaicenavicius et al., "Evaluating model calibration in classification", 2019; Widmann, Lindsten, Zachariah
    2019, section 2; the bins of CalibrationErrors.jl, ``MedianVarianceBinning`` (what equals the median goes to the
    larger ones, as in its later releases) and ``UniformBinning``, whose intervals are open on the left; ours are open
    on the right, as elsewhere in this package.

    Examples
    --------
    >>> table = ClassTable.from_events([[0.4, 0.1, 0.5], [0.5, 0.3, 0.2], [0.3, 0.7, 0.0]], [0, 1, 2])
    >>> round(canonical_ece(table, min_size=3), 6)  # one bin: means .4, .367 and .233 against a third each
    0.1
    """
    require_choice("distance", distance, get_args(Distance))
    require_choice("bins", bins, get_args(VectorBins))
    if bins == "median_variance":
        groups = median_variance_bins(table, min_size, max_bins)
    else:
        groups = equal_width_bins(table, n_bins)
    return float(_Binned.of(table, groups, distance).draws(table.outcome[None].astype(np.int32))[0])


def median_variance_bins(table: ClassTable, min_size: int, max_bins: int | None = None) -> NDArray[np.int32]:
    """Return the bin of each event, shape (n,): see :func:`canonical_ece`. The order of the events does not matter.

    Raises
    ------
    NotEnoughData
        There are fewer than ``min_size`` events.
    InputError
        An option is wrong.
    """
    minimum = require_whole("min_size", min_size, 1)
    require_rows(table, f"canonical ECE in bins of {minimum}", least=minimum)
    maximum = table.rows if max_bins is None else require_whole("max_bins", max_bins, 1)
    result = np.empty(table.rows, np.int32)
    done = 0
    waiting: list[tuple[float, int, int, NDArray[np.intp]]] = []

    def place(events: NDArray[np.intp], splittable: bool) -> None:
        """Queue events for a split, or finish their bin."""
        nonlocal done
        if splittable and events.size >= 2 * minimum:
            variance = table.prediction[events].var(axis=0, ddof=1)
            # The first of those that differ only by rounding, such as both columns of two classes.
            column = int(np.argmax(variance >= variance.max() * (1.0 - 1e-9)))
            # The first event breaks ties, so that heapq does not compare arrays.
            heapq.heappush(waiting, (-float(variance[column]), int(events[0]), column, events))
        else:
            result[events] = done
            done += 1

    place(np.arange(table.rows), splittable=True)
    while waiting:
        _, _, column, events = heapq.heappop(waiting)
        values = table.prediction[events, column]
        below = values < np.partition(values, events.size // 2)[events.size // 2]
        parts = events[below], events[~below]
        if done + len(waiting) + 2 > maximum or min(part.size for part in parts) < minimum:
            place(events, splittable=False)  # too many bins, or too many events that equal the median
        else:
            for part in parts:
                place(part, splittable=True)
    return result


def equal_width_bins(table: ClassTable, n_bins: int) -> NDArray[np.int32]:
    """Return the bin of each event, shape (n,): all probabilities of its events are in the same intervals."""
    size = require_whole("n_bins", n_bins, 1)
    require_rows(table, "canonical ECE")
    interval = np.searchsorted(np.arange(1, size) / size, table.prediction, side="right")
    return np.unique(interval, axis=0, return_inverse=True)[1].ravel().astype(np.int32)


@dataclass(frozen=True, slots=True)
class _Binned(Prepared):
    """Predictions in bins; ``sums`` has the shape (B, K).

    Attributes
    ----------
    counts
        float64, shape (B,): predictions of each bin.
    distance
        Between a bin's mean prediction and its class frequencies.
    """

    counts: Floats
    distance: Distance

    @classmethod
    def of(cls, table: ClassTable, groups: NDArray[np.int32], distance: Distance = "total_variation") -> "_Binned":
        size = int(groups.max()) + 1
        sums = np.zeros((size, table.classes))
        np.add.at(sums, groups, table.prediction)
        bins = (groups[:, None] * table.classes + np.arange(table.classes)).astype(np.int32)
        return cls(table, bins, sums, np.bincount(groups, minlength=size).astype(np.float64), distance)

    def errors(self, residual: Floats) -> Floats:
        if self.distance == "squared_euclidean":
            return np.asarray(((residual**2).sum(axis=2) / self.counts).sum(axis=1) / self.counts.sum())
        # n_b cancels, so the means of a bin are not needed.
        city_block = np.abs(residual).sum(axis=(1, 2)) / self.counts.sum()
        return np.asarray(city_block / 2.0 if self.distance == "total_variation" else city_block)

    def functional(self, residual: Floats) -> Floats:
        # For the total variation distance, which reports use.
        return np.asarray(np.sign(residual) / (2.0 * self.counts.sum()))


MEASURE: Final = ClassMeasure(
    name="canonical_ece",
    title="canonical ECE",
    help="Mean distance between predicted vectors and class frequencies, in bins of ten or more similar vectors.",
    unit="ratio",
    value=canonical_ece,
    prepare=lambda table: _Binned.of(table, median_variance_bins(table, DEFAULT_MIN_SIZE)),
    rank=20,
)
