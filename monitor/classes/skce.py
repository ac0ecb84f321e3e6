"""The squared kernel calibration error of whole probability vectors."""

import math
from dataclasses import dataclass
from typing import Final, Literal, get_args

import numpy as np

from monitor.arrays import Floats
from monitor.classes.base import ClassMeasure, ClassMeasurement, gamma_q95, require_rows
from monitor.classes.class_loops import EXPONENTIAL, GAUSSIAN, TV_EXPONENTIAL, block_means, pair_distances, pair_sums
from monitor.classes.sketch import sketched_interval, sketched_null, sketched_skce
from monitor.errors import InputError
from monitor.inference.calibration_tests import gamma_tail
from monitor.scores import ClassTable
from monitor.scores.arguments import require_choice, require_positive, require_whole
from monitor.scores.sketch import SkceSketch, SketchPlan

KernelName = Literal["exponential", "gaussian", "tv_exponential"]
Lengthscale = float | Literal["median"]

_KINDS: Final[dict[str, int]] = {"exponential": EXPONENTIAL, "gaussian": GAUSSIAN, "tv_exponential": TV_EXPONENTIAL}

_MEDIAN_OF: Final = 1000
"""Number of predictions whose pairs the median heuristic uses."""
Estimator = Literal["unbiased", "biased", "block"]

EXACT_UP_TO: Final = 5000
"""Events up to which reports use all pairs, half a second for ten classes; beyond it, Fourier features."""

_FEATURES: Final = 512
"""Features of that sketch: its error is at most a tenth of the sampling error of the exact value."""


@dataclass(frozen=True, slots=True)
class VectorKernel:
    r"""A kernel of probability vectors; the matrix-valued kernels are this times the identity.

    ``exponential``: exp(-\|p - q\| / l). ``gaussian``: exp(-\|p - q\|^2 / (2 l^2)). ``tv_exponential``:
    exp(-TV(p, q) / l), with the total variation distance TV = sum |p - q| / 2. All are 1 at p = q and no larger
    elsewhere.

    Attributes
    ----------
    name
        Which.
    lengthscale
        l, in units of the distance, finite and above 0.
    """

    name: KernelName = "exponential"
    lengthscale: float = 1.0

    def __post_init__(self) -> None:
        require_choice("kernel", self.name, get_args(KernelName))
        try:
            require_positive("lengthscale", self.lengthscale)
        except TypeError:
            raise InputError(f"lengthscale must be a number or 'median', got {self.lengthscale!r}") from None

    @classmethod
    def of(cls, table: ClassTable, name: KernelName, lengthscale: Lengthscale) -> "VectorKernel":
        """Create the kernel; the lengthscale ``median`` is the median distance of two of the table's predictions.

        The median does not depend on outcomes, so tests stay valid. Of more than 1,000 predictions it uses 1,000 evenly
        spaced ones in sorted order, so the order of the events does not matter. It is 1 if most predictions are equal.
        """
        if lengthscale == "median":
            lengthscale = median_distance(table.prediction, total_variation=name == "tv_exponential")
        return cls(name, lengthscale)

    @property
    def kind(self) -> int:
        """Its number in ``monitor.classes.class_loops``."""
        return _KINDS[self.name]


def median_distance(prediction: Floats, *, total_variation: bool = False) -> float:
    """Return the median distance of two predictions, shape (n, K); 1 if there are fewer, or most are equal."""
    if prediction.shape[0] < 2:
        return 1.0
    if prediction.shape[0] > _MEDIAN_OF:
        order = np.lexsort(prediction.T[::-1])
        prediction = prediction[order[np.linspace(0, order.size - 1, _MEDIAN_OF).astype(np.int64)]]
    median = float(np.median(pair_distances(np.ascontiguousarray(prediction), total_variation)))
    return median if median > 0.0 else 1.0


def skce(
    table: ClassTable,
    *,
    kernel: KernelName = "exponential",
    lengthscale: Lengthscale = 1.0,
    estimator: Estimator = "unbiased",
    block_size: int = 2,
) -> float:
    r"""Squared kernel calibration error, with a kernel k times the identity.

    .. math:: \mathrm{SKCE} = \mathbb{E}\, h, \qquad
              h_{ij} = k(p_i, p_j) \langle e_{y_i} - p_i, e_{y_j} - p_j \rangle

    Parameters
    ----------
    table
        n events of K classes.
    kernel, lengthscale
        See :class:`~monitor.classes.skce.VectorKernel`; ``median`` takes the median distance of predictions.
    estimator
        ``unbiased``: the mean of h over all pairs i != j, around 0 for a calibrated model and below it about as often
        as above. ``biased``: the mean over all i, j, never below 0. Both use all pairs, in time n^2 K. ``block``:
        the mean over blocks of ``block_size`` consecutive events of the unbiased estimate of each, in time
        n block_size K. It depends on the order of the events and is far noisier; an incomplete last block is left
        out.
    block_size
        Events in a block, from 2 to n.

    Raises
    ------
    NotEnoughData
        Fewer than two events, or one for ``biased``; or than a block.
    InputError
        An option is wrong.

    Notes
    -----
    Source: Widmann, Lindsten, Zachariah, "Calibration tests in multi-class classification: A unifying framework",
    2019, Lemma 2 and Table 1; CalibrationErrors.jl. Blocks of two are the paper's linear estimator.

    Examples
    --------
    >>> two = ClassTable.from_events([[1.0, 0.0], [0.0, 1.0]], [1, 0])
    >>> round(skce(two, kernel="gaussian"), 6) == round(-2 * math.exp(-1), 6)
    True
    """
    require_choice("estimator", estimator, ("unbiased", "biased", "block"))
    if estimator == "block":
        return float(skce_blocks(table, kernel=kernel, lengthscale=lengthscale, block_size=block_size).mean())
    require_rows(table, "SKCE", least=1 if estimator == "biased" else 2)
    sums = PairSums.of(table, VectorKernel.of(table, kernel, lengthscale))
    return sums.biased if estimator == "biased" else sums.unbiased


def skce_blocks(
    table: ClassTable, *, kernel: KernelName = "exponential", lengthscale: Lengthscale = 1.0, block_size: int = 2
) -> Floats:
    """Return the unbiased estimate for each block of consecutive events, shape (n // block_size,): see :func:`skce`."""
    size = require_whole("block_size", block_size, 2)
    require_rows(table, f"SKCE in blocks of {size}", least=size)
    chosen = VectorKernel.of(table, kernel, lengthscale)
    return np.asarray(block_means(table.prediction, table.outcome, size, chosen.kind, chosen.lengthscale))


@dataclass(frozen=True, slots=True)
class PairSums:
    r"""Sums over all pairs of events: the two quadratic estimates, their variances and an interval.

    Attributes
    ----------
    n
        Number of events.
    terms, null_squares
        Sums over i != j of h_ij, and of k(p_i, p_j)^2 tr(S_i S_j), which is what h_ij^2 is expected to be for a
        calibrated model; S is the covariance diag(p) - p p' of an outcome.
    squares
        Sum over all i, j of h_ij^2.
    own, own_expected
        Sums over i of h_ii = \|r_i\|^2, and of what that is expected to be, tr S_i.
    """

    n: int
    terms: float
    null_squares: float
    squares: float
    own: float
    own_expected: float

    @classmethod
    def of(cls, table: ClassTable, kernel: VectorKernel) -> "PairSums":
        """Sum over a table's events, in time n^2 K."""
        terms, squares, null = pair_sums(table.prediction, table.outcome, kernel.kind, kernel.lengthscale)
        own = (table.residual**2).sum(axis=1)
        expected = 1.0 - (table.prediction**2).sum(axis=1)
        return cls(
            n=table.rows,
            terms=2.0 * terms,
            null_squares=2.0 * null,
            squares=2.0 * squares + float((own**2).sum()),
            own=float(own.sum()),
            own_expected=float(expected.sum()),
        )

    @property
    def unbiased(self) -> float:
        """U, the mean of h over i != j."""
        return self.terms / (self.n * (self.n - 1.0))

    @property
    def biased(self) -> float:
        """V, the mean of h over all i, j. Never negative, also after rounding."""
        return max(0.0, self.terms + self.own) / float(self.n) ** 2

    @property
    def null_deviation(self) -> float:
        r"""Standard deviation of U for a calibrated model that makes these predictions: exact, given the predictions.

        .. math:: \mathrm{Var}_0(U) = \frac{2}{(n (n - 1))^2} \sum_{i \ne j} k(p_i, p_j)^2 \, \mathrm{tr}(S_i S_j)
        """
        return math.sqrt(2.0 * max(0.0, self.null_squares)) / (self.n * (self.n - 1.0))

    def null_law(self) -> tuple[float, float]:
        """The 95% point and the p-value of U for a calibrated model.

        n (n - 1) U + sum h_ii is n^2 V, a quadratic form of the residuals.
        """
        pairs = self.n * (self.n - 1.0)
        mean, variance = self.own_expected, 2.0 * self.null_squares
        return (gamma_q95(mean, variance) - mean) / pairs, gamma_tail(self.terms + mean, mean, variance)

    def interval(self) -> tuple[float, float]:
        r"""A 95% confidence interval of the SKCE.

        The root of V is a norm N of the residuals v, so the error's root lies within N(v* - v) of it, v* a Poisson
        bootstrap of the events: n^2 N^2 is a quadratic form of the mean sum_i h_ii and the variance 2 sum_ij h_ij^2.
        """
        root = math.sqrt(self.biased)
        radius = math.sqrt(gamma_q95(self.own, 2.0 * self.squares)) / self.n
        return max(0.0, root - radius) ** 2, (root + radius) ** 2


def skce_findings(table: ClassTable) -> ClassMeasurement:
    """:func:`skce` with its interval, its level under calibration and its p-value; null levels need no draws.

    Up to 5,000 events all pairs are used; for more, Fourier features of all events, which have more power than all
    pairs of a sample.
    """
    require_rows(table, "SKCE", least=2)
    if table.rows <= EXACT_UP_TO:
        sums = PairSums.of(table, VectorKernel())
        q95, p_value = sums.null_law()
        return ClassMeasurement(sums.unbiased, *sums.interval(), 0.0, q95, p_value, "exact, all pairs of events")
    sketch = SkceSketch.of(table, SketchPlan(table.classes, features=_FEATURES))
    null = sketched_null(sketch)
    method = f"all events, {_FEATURES} Fourier features of the kernel"
    return ClassMeasurement(sketched_skce(sketch), *sketched_interval(sketch), 0.0, null.q95, null.p_value, method)


MEASURE: Final = ClassMeasure(
    name="skce",
    title="SKCE",
    help="Squared kernel calibration error of whole probability vectors, unbiased: around 0 if calibrated.",
    unit="ratio",
    value=skce,
    findings=skce_findings,
    rank=10,
)
