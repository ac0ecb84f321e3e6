"""The local calibration error: that of predictions which are alike in their features, too."""

from dataclasses import dataclass, replace
from typing import Final

import numpy as np
import xxhash
from numpy.typing import ArrayLike, NDArray

from monitor.errors import InputError, NotEnoughData
from monitor.inference import NullLevel
from monitor.inference.resampling import MIN_DRAWS
from monitor.local.features import checked_weight, feature_table
from monitor.local.neighbourhood import Kernels, alone, averages_of, group_kernel, laplace_kernels
from monitor.measures.checks import require_positive, require_whole
from monitor.scores import ClassTable
from monitor.scores.table import check

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

DEFAULT_GAMMA: Final = 0.4
"""For principal components and for features as they are (paper, section 3.2)."""

DEFAULT_BINS: Final = 15
FEW_EVENTS: Final = 1000
BINS_OF_FEW: Final = 5
"""Bins of confidence of fewer events (paper, appendix A: five for a test set of 500)."""

LEAST_NEIGHBOURS: Final = 50.0
"""The least n_eff of a point that counts. A point with fewer neighbours has a local error of about 1 / sqrt(n_eff) by
chance alone, so that without a limit the largest error is that of the loneliest point."""

MAX_POINTS: Final = 5000
"""At how many events the error is evaluated, unless said otherwise. Neighbours are always all events."""


@dataclass(frozen=True, eq=False)
class LocalLevel:
    """What a calibrated model with these predictions would show; events and weights stay as they are."""

    mlce: NullLevel
    mean_lce: NullLevel


@dataclass(frozen=True, eq=False)
class LocalCalibration:
    """How far predictions are off among events that are alike.

    Attributes
    ----------
    points
        int64, shape (q,), ascending: the events at which the error is evaluated, by their rows.
    prediction
        float64, shape (q,): mean prediction in the neighbourhood of each point.
    error
        float64, shape (q,): mean of prediction - outcome there; above 0 where predictions are too high.
    n_eff
        float64, shape (q,): how many events of equal weight the neighbourhood is worth.
    bins
        Number of bins of the predictions.
    least_neighbours
        The least n_eff of a point that counts.
    level
        What a calibrated model would show, if it was drawn.
    point_weight
        float64, shape (q,): of the points, for the mean of their errors; None if all are 1.
    """

    points: Ints
    prediction: Floats
    error: Floats
    n_eff: Floats
    bins: int
    least_neighbours: float
    level: LocalLevel | None = None
    point_weight: Floats | None = None

    @property
    def lce(self) -> Floats:
        """Local calibration error of each point, shape (q,) (equation 4)."""
        return np.abs(self.error)

    @property
    def valid(self) -> NDArray[np.bool_]:
        """Whether a point has enough neighbours to count, shape (q,)."""
        return _enough(self.n_eff, self.least_neighbours)

    @property
    def valid_share(self) -> float:
        """Share of the points that count."""
        return float(self.valid.mean())

    @property
    def mlce(self) -> float:
        """Maximum local calibration error (equation 5), of the points that count."""
        return float(self.lce[self.valid].max())

    @property
    def mean_lce(self) -> float:
        """Mean local calibration error of the points that count."""
        if self.point_weight is None:
            return float(self.lce[self.valid].mean())
        return float(_average(self.lce[self.valid], self.point_weight[self.valid]))

    @property
    def worst(self) -> int:
        """The place in ``points`` of the one with the largest error, of those that count."""
        return int(np.argmax(np.where(self.valid, self.lce, -1.0)))

    @property
    def mlce_excess(self) -> float | None:
        """How far the maximum lies above that of a calibrated model, on average; None if its level was not drawn."""
        return None if self.level is None else self.mlce - self.level.mlce.mean

    @property
    def mean_lce_excess(self) -> float | None:
        """How far the mean lies above that of a calibrated model, on average; None if its level was not drawn."""
        return None if self.level is None else self.mean_lce - self.level.mean_lce.mean


@dataclass(frozen=True, slots=True)
class MeasureOptions:
    """Options of :func:`local_calibration_error`, by their names there."""

    weight: ArrayLike | None
    bins: int | None
    least_neighbours: float
    max_points: int | None
    draws: int
    seed: int | None

    def checked(self, events: int) -> tuple[int, int]:
        """Number of bins for so many events, and of draws. Raises InputError where an option is wrong."""
        bins = self.bins
        if bins is None:
            bins = DEFAULT_BINS if events >= FEW_EVENTS else BINS_OF_FEW
        require_whole("bins", bins, 1)
        if self.max_points is not None:
            require_whole("max_points", self.max_points, 1)
        require_positive("least_neighbours", self.least_neighbours)
        if 0 < require_whole("draws", self.draws, 0) < MIN_DRAWS:
            raise InputError(f"draws must be 0 or at least {MIN_DRAWS}, got {self.draws}")
        return bins, self.draws


def local_calibration_error(
    prediction: ArrayLike,
    outcome: ArrayLike,
    phi: ArrayLike,
    *,
    gamma: float = DEFAULT_GAMMA,
    weight: ArrayLike | None = None,
    bins: int | None = None,
    least_neighbours: float = LEAST_NEIGHBOURS,
    max_points: int | None = MAX_POINTS,
    draws: int = 0,
    seed: int | None = None,
) -> LocalCalibration:
    r"""Local calibration error at each event.

    .. math::

        \mathrm{LCE}(x) = \left| \frac{\sum_{i \in \beta(x)} (\mathrm{conf}_i - \mathrm{hit}_i)\, k(x, x_i)}
        {\sum_{i \in \beta(x)} k(x, x_i)} \right|, \qquad
        k(x, x') = \exp\left(-\frac{\|\phi(x) - \phi(x')\|_1}{d \gamma}\right)

    with beta(x) the events whose prediction lies in the same bin as that of x. The larger gamma, the wider the
    neighbourhood: for an infinite one all of a bin count alike, and the errors are those of the bins.

    Parameters
    ----------
    prediction
        Shape (n,): P(Y = 1), each in [0, 1]; or (n, K): the probabilities of K classes, of which the largest is the
        confidence and the event is a hit if that class came true.
    outcome
        Shape (n,): 0 or 1; or the class that came true.
    phi
        Shape (n, d): coordinates, as a :class:`~monitor.local.features.FeatureMap` gives them.
    gamma
        Bandwidth, above 0; may be infinite.
    weight
        Shape (n,), above 0: how many events each stands for, beside the kernel; all 1 if left out. Their unit does not
        matter: n_eff = (sum of w k)^2 / sum of (w k)^2.
    bins
        Number of bins of equal width of the predictions (the last is closed on the right); 15 if left out, and 5 for
        fewer than 1,000 events.
    least_neighbours
        The least n_eff of a point that counts for the maximum and the mean.
    max_points
        Of more events than this the error is evaluated at a random sample of so many, its neighbours being all events;
        None evaluates it at all.
    draws
        Number of draws for the level under calibration: 0, or at least 19.
    seed
        Of the sample and the draws; the data's content if left out.

    Raises
    ------
    NotEnoughData
        There are no events, or none of the points has enough neighbours.
    InputError
        Values are out of range, shapes do not fit, or an option is wrong.

    Notes
    -----
    Source: "Local Calibration: Metrics and Recalibration", equations 4 and 5. The limit on neighbours is not of the
    paper, whose MLCE is 1 for a small gamma, whatever the model.
    """
    if not gamma > 0.0:
        raise InputError(f"gamma must be above 0, got {gamma}")
    options = MeasureOptions(weight, bins, least_neighbours, max_points, draws, seed)
    kernels = laplace_kernels([gamma])
    return require_valid(measure_local(prediction, outcome, feature_table(phi), kernels, options)[0])


def group_calibration_error(
    prediction: ArrayLike,
    outcome: ArrayLike,
    group: ArrayLike,
    *,
    weight: ArrayLike | None = None,
    bins: int | None = None,
    least_neighbours: float = LEAST_NEIGHBOURS,
    max_points: int | None = MAX_POINTS,
    draws: int = 0,
    seed: int | None = None,
) -> LocalCalibration:
    """Calibration error of each event's group: :func:`local_calibration_error` with the kernel 1[same group].

    Parameters
    ----------
    prediction, outcome, weight, bins, least_neighbours, max_points, draws, seed
        As there; n_eff is the number of events of the group in the bin.
    group
        Shape (n,): values of any kind that can be sorted.

    Raises
    ------
    NotEnoughData
        There are no events, or no group has enough in any bin.
    InputError
        Values are out of range, shapes do not fit, or an option is wrong.

    Notes
    -----
    Source: "Local Calibration: Metrics and Recalibration", section 4.
    """
    labels = np.asarray(group)
    if labels.ndim != 1:
        raise InputError(f"group must have one dimension, got shape {labels.shape}")
    try:
        numbers = np.unique(labels, return_inverse=True)[1].astype(np.float64)
    except TypeError as error:
        raise InputError(f"group must hold values that can be sorted: {error}; name them by strings") from error
    options = MeasureOptions(weight, bins, least_neighbours, max_points, draws, seed)
    kernels = alone(group_kernel)
    return require_valid(measure_local(prediction, outcome, numbers[:, None], kernels, options)[0])


def confidence_and_hit(prediction: ArrayLike, outcome: ArrayLike) -> tuple[Floats, Floats]:
    """P(Y = 1) and the outcome; of many classes the largest probability and whether its class came true; (n,) each.

    Raises
    ------
    InputError
        Values are out of range, or shapes do not fit.
    """
    try:
        p = np.asarray(prediction, dtype=np.float64)
        y = np.asarray(outcome, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise InputError(f"prediction and outcome must be numbers: {error}") from error
    if p.ndim == 2:
        table = ClassTable.from_events(p, y)
        top = np.argmax(table.prediction, axis=1)
        return table.prediction[np.arange(table.rows), top], (top == table.outcome).astype(np.float64)
    if p.ndim != 1 or p.shape != y.shape:
        raise InputError(f"prediction and outcome must be equally long, got shapes {p.shape} and {y.shape}")
    check(p, (p >= 0.0) & (p <= 1.0), "prediction must be in [0, 1]")
    check(y, (y == 0.0) | (y == 1.0), "outcome must be 0 or 1")
    return p, y


def measure_local(
    prediction: ArrayLike,
    outcome: ArrayLike,
    phi: Floats,
    kernels: Kernels,
    options: MeasureOptions,
) -> list[LocalCalibration]:
    """Local calibration under each of several kernels, which share points, draws and what the kernels share.

    It may be that no point has enough neighbours to count: see :func:`require_valid`.

    Raises
    ------
    NotEnoughData
        There are no events.
    InputError
        Values are out of range, shapes do not fit, or an option is wrong.
    """
    p, y = confidence_and_hit(prediction, outcome)
    n = p.size
    if phi.shape[0] != n:
        raise InputError(f"there must be coordinates for each prediction, got {phi.shape[0]} for {n}")
    if n == 0:
        raise NotEnoughData("local calibration needs at least 1 event, got 0")
    w = None if options.weight is None else checked_weight(options.weight, n)
    number = kernels.number
    bins, draws = options.checked(n)
    # Without weights the seed is what it was before there were any.
    content = _content(p, y, phi) if w is None else _content(p, y, phi, w)
    rng = np.random.default_rng(content if options.seed is None else options.seed)
    points = np.arange(n)
    if options.max_points is not None and n > options.max_points:
        points = np.sort(rng.choice(n, options.max_points, replace=False))

    means, n_eff = np.empty((number, points.size, 2 + draws)), np.empty((number, points.size))
    place = np.searchsorted(np.arange(1, bins) / bins, p, side="right")
    for b in np.unique(place[points]):
        inside = np.flatnonzero(place == b)
        asked = np.flatnonzero(place[points] == b)

        def columns(rows: slice, inside: Ints = inside) -> Floats:
            """Predictions; less the outcomes; and less outcomes that a calibrated model would see."""
            given, came_true = p[inside[rows], None], y[inside[rows], None]
            return np.hstack([given, given - came_true, given - (rng.random((given.size, draws)) < given)])

        means[:, asked], n_eff[:, asked] = averages_of(
            kernels,
            np.ascontiguousarray(phi[points[asked]]),
            np.ascontiguousarray(phi[inside]),
            columns,
            None if w is None else w[inside],
        )
    return [
        _summed_up(
            LocalCalibration(
                points,
                means[at, :, 0].copy(),  # not views that keep all draws alive
                means[at, :, 1].copy(),
                n_eff[at].copy(),
                bins,
                options.least_neighbours,
                point_weight=None if w is None else w[points],
            ),
            means[at, :, 2:],
        )
        for at in range(number)
    ]


def _summed_up(found: LocalCalibration, null: Floats) -> LocalCalibration:
    """With the level that draws (q, draws) of errors of a calibrated model give."""
    if null.shape[1] == 0 or not found.valid.any():
        return found
    drawn = np.abs(null[found.valid])
    mean = drawn.mean(axis=0) if found.point_weight is None else _average(drawn, found.point_weight[found.valid])
    level = LocalLevel(NullLevel.of(drawn.max(axis=0), found.mlce), NullLevel.of(mean, found.mean_lce))
    return replace(found, level=level)


def require_valid(found: LocalCalibration) -> LocalCalibration:
    """The same, if any point counts.

    Raises
    ------
    NotEnoughData
        None has enough neighbours. Says how many the most has.
    """
    if not found.valid.any():
        raise NotEnoughData(
            f"no event has {found.least_neighbours:g} effective neighbours, the most is {found.n_eff.max():.1f}: "
            "take more events, a larger gamma, fewer bins or fewer dimensions"
        )
    return found


def _average(values: Floats, weight: Floats) -> Floats:
    return np.asarray(np.average(values, axis=0, weights=weight))


def _enough(n_eff: Floats, least: float) -> NDArray[np.bool_]:
    # A whole group counts by its size, which n_eff is but for rounding.
    result: NDArray[np.bool_] = n_eff >= least * (1.0 - 1e-12)
    return result


def _content(*arrays: Floats) -> int:
    digest = xxhash.xxh3_64()
    for array in arrays:
        digest.update(array.astype("<f8").tobytes())
    return digest.intdigest()
