"""The local calibration error: the calibration error among events with similar features."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np
import xxhash
from numpy.typing import ArrayLike

from monitor.arrays import Bools, Floats, Ints
from monitor.errors import InputError, NotEnoughData
from monitor.inference import NullLevel
from monitor.local.features import checked_weight
from monitor.local.neighbourhood import GROUP_KERNEL, Kernels, averages, laplace_kernels
from monitor.options import MIN_DRAWS
from monitor.scores.arguments import require_positive, require_whole
from monitor.scores.labelled import check_outcomes, feature_table

DEFAULT_GAMMA: Final = 0.4
"""Width of the kernel for principal components and for features as they are (paper, section 3.2)."""

DEFAULT_BINS: Final = 15
FEW_EVENTS: Final = 1000
BINS_OF_FEW: Final = 5
"""Bins of confidence for fewer events (paper, appendix A: five for a test set of 500)."""

MIN_NEIGHBOURS: Final = 50.0
"""The least n_eff of a point that counts. A point with fewer neighbours has a local error of about 1 / sqrt(n_eff) by
chance alone, so without a limit the maximum would be the error of the most isolated point."""

MAX_POINTS: Final = 5000
"""Default number of events at which the error is evaluated. Neighbours are always all events."""


@dataclass(frozen=True, eq=False)
class LocalLevel:
    """The errors of a calibrated model with the same predictions, features and weights."""

    mlce: NullLevel
    mean_lce: NullLevel


@dataclass(frozen=True, eq=False)
class LocalCalibration:
    """Errors of predictions among events with similar features.

    Attributes
    ----------
    points
        int64, shape (q,), ascending: rows of the events at which the error is evaluated.
    prediction
        float64, shape (q,): mean prediction in the neighbourhood of each point.
    error
        float64, shape (q,): mean of prediction - outcome there; above 0 where predictions are too high.
    n_eff
        float64, shape (q,): effective number of events in the neighbourhood.
    bins
        Number of bins of the predictions.
    least_neighbours
        The least n_eff of a point that counts.
    level
        The errors of a calibrated model; None if there were no draws.
    point_weight
        float64, shape (q,): weights of the points in ``mean_lce``; None if all are 1.
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
    def valid(self) -> Bools:
        """Whether a point has enough neighbours to count, shape (q,)."""
        # n_eff of a group is its size except for rounding.
        result: Bools = self.n_eff >= self.least_neighbours * (1.0 - 1e-12)
        return result

    @property
    def valid_share(self) -> float:
        """Share of the points that count."""
        return float(self.valid.mean())

    @property
    def mlce(self) -> float:
        """Maximum local calibration error (equation 5) of the points that count."""
        return float(self.lce[self.valid].max())

    @property
    def mean_lce(self) -> float:
        """Mean local calibration error of the points that count."""
        if self.point_weight is None:
            return float(self.lce[self.valid].mean())
        return float(_average(self.lce[self.valid], self.point_weight[self.valid]))

    @property
    def worst(self) -> int:
        """Index in ``points`` of the largest error, of the points that count."""
        return int(np.argmax(np.where(self.valid, self.lce, -1.0)))

    @property
    def mlce_excess(self) -> float | None:
        """The maximum minus its mean for a calibrated model; None without draws."""
        return None if self.level is None else self.mlce - self.level.mlce.mean

    @property
    def mean_lce_excess(self) -> float | None:
        """The mean minus its mean for a calibrated model; None without draws."""
        return None if self.level is None else self.mean_lce - self.level.mean_lce.mean


def default_bins(events: int) -> int:
    """Return the default number of bins of confidence for this number of events."""
    return DEFAULT_BINS if events >= FEW_EVENTS else BINS_OF_FEW


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
        """Check the options; return the number of bins for this number of events, and of draws. Raises InputError."""
        bins = require_whole("bins", default_bins(events) if self.bins is None else self.bins, 1)
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
    least_neighbours: float = MIN_NEIGHBOURS,
    max_points: int | None = MAX_POINTS,
    draws: int = 0,
    seed: int | None = None,
) -> LocalCalibration:
    r"""Compute the local calibration error at each event.

    .. math::

        \mathrm{LCE}(x) = \left| \frac{\sum_{i \in \beta(x)} (\mathrm{conf}_i - \mathrm{hit}_i)\, k(x, x_i)}
        {\sum_{i \in \beta(x)} k(x, x_i)} \right|, \qquad
        k(x, x') = \exp\left(-\frac{\|\phi(x) - \phi(x')\|_1}{d \gamma}\right)

    with beta(x) the events whose prediction lies in the same bin as that of x. The larger gamma, the wider the
    neighbourhood: with an infinite gamma all events of a bin count equally, and the errors are those of the bins.

    Parameters
    ----------
    prediction
        Shape (n,): P(Y = 1), each in [0, 1]; or (n, K): the probabilities of K classes, of which the largest is the
        confidence and the event is a hit if that class came true.
    outcome
        Shape (n,): 0 or 1; or the class that came true.
    phi
        Shape (n, d): coordinates, as a feature map gives them.
    gamma
        Bandwidth, above 0; may be infinite.
    weight
        Shape (n,), above 0: how many events each represents; all 1 if left out. Only ratios matter:
        n_eff = (sum of w k)^2 / sum of (w k)^2.
    bins
        Number of bins of equal width of the predictions (the last is closed on the right); 15 if left out, and 5 for
        fewer than 1,000 events.
    least_neighbours
        The least n_eff of a point that counts for the maximum and the mean.
    max_points
        With more events than this, the error is evaluated at a random sample of this size; neighbours are still all
        events. None evaluates it at all events.
    draws
        Number of draws for the level under calibration: 0, or at least 19.
    seed
        For the sample and the draws; derived from the data if left out.

    Raises
    ------
    NotEnoughData
        There are no events, or none of the points has enough neighbours.
    InputError
        Values are out of range, shapes do not fit, or an option is wrong.

    Notes
    -----
    Source: "Local Calibration: Metrics and Recalibration", equations 4 and 5. The paper has no limit on
    neighbours; without it MLCE is 1 for a small gamma, whatever the model.
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
    least_neighbours: float = MIN_NEIGHBOURS,
    max_points: int | None = MAX_POINTS,
    draws: int = 0,
    seed: int | None = None,
) -> LocalCalibration:
    """Compute the calibration error of each event's group, with the kernel 1[same group].

    Parameters
    ----------
    prediction, outcome, weight, bins, least_neighbours, max_points, draws, seed
        As for :func:`local_calibration_error`; n_eff is the number of events of the group in the bin.
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
    kernels = GROUP_KERNEL
    return require_valid(measure_local(prediction, outcome, numbers[:, None], kernels, options)[0])


def mlce_curve(
    predictions: Mapping[str, ArrayLike],
    outcome: ArrayLike,
    phi: ArrayLike,
    gammas: Sequence[float],
    *,
    weight: ArrayLike | None = None,
    max_points: int | None = MAX_POINTS,
    draws: int = 0,
    seed: int | None = None,
) -> dict[str, list[LocalCalibration | None]]:
    """Compute the local calibration of several predictions of the same events at several bandwidths.

    All are evaluated at the same points. The bandwidths of one prediction share distances and draws; different
    predictions have different bins, so they share no distances (the paper's Figures 3 and 5).

    Parameters
    ----------
    predictions
        By name, such as before and after recalibration: each as in :func:`local_calibration_error`.
    outcome, phi, weight, max_points, draws, seed
        As there. The seed, if left out, is made of outcomes and coordinates.
    gammas
        Bandwidths, above 0; may be infinite.

    Returns
    -------
    For each name a list of one :class:`LocalCalibration` per gamma, None where no point has enough neighbours.

    Raises
    ------
    NotEnoughData
        There are no events.
    InputError
        Values are out of range, shapes do not fit, or an option is wrong.
    """
    for gamma in gammas:
        if not gamma > 0.0:
            raise InputError(f"gammas must be above 0, got {gamma}")
    points = feature_table(phi)
    if seed is None:
        seed = xxhash.xxh3_64_intdigest(np.asarray(outcome, "<f8").tobytes() + points.astype("<f8").tobytes())
    options = MeasureOptions(weight, None, MIN_NEIGHBOURS, max_points, draws, seed)
    kernels = laplace_kernels(list(gammas))
    return {
        name: [
            result if result.valid.any() else None
            for result in measure_local(prediction, outcome, points, kernels, options)
        ]
        for name, prediction in predictions.items()
    }


def confidence_and_hit(prediction: ArrayLike, outcome: ArrayLike) -> tuple[Floats, Floats]:
    """Return P(Y = 1) and the outcome, or for many classes the largest probability and whether it was right; (n,) each.

    Raises
    ------
    InputError
        Values are out of range, or shapes do not fit.
    """
    p, y = check_outcomes(prediction, outcome)
    if p.ndim == 1:
        return p, y.astype(np.float64)
    top = np.argmax(p, axis=1)
    return p[np.arange(y.size), top], (top == y).astype(np.float64)


def measure_local(
    prediction: ArrayLike, outcome: ArrayLike, phi: Floats, kernels: Kernels, options: MeasureOptions
) -> list[LocalCalibration]:
    """Compute the local calibration under each of several kernels at the same points and with the same draws.

    Possibly no point has enough neighbours: see :func:`require_valid`.

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
    bins, draws = options.checked(n)
    # Without weights the seed is the same as in versions without weights.
    content = _content(p, y, phi) if w is None else _content(p, y, phi, w)
    rng = np.random.default_rng(content if options.seed is None else options.seed)
    points = np.arange(n)
    if options.max_points is not None and n > options.max_points:
        points = np.sort(rng.choice(n, options.max_points, replace=False))

    means, n_eff = np.empty((kernels.number, points.size, 2 + draws)), np.empty((kernels.number, points.size))
    place = np.searchsorted(np.arange(1, bins) / bins, p, side="right")
    for b in np.unique(place[points]):
        inside = np.flatnonzero(place == b)
        rows_of_points = np.flatnonzero(place[points] == b)

        def columns(rows: slice, inside: Ints = inside) -> Floats:
            """Return predictions, predictions - outcomes, and predictions - outcomes drawn from them."""
            confidence, hit = p[inside[rows], None], y[inside[rows], None]
            drawn = rng.random((confidence.size, draws)) < confidence
            return np.hstack([confidence, confidence - hit, confidence - drawn])

        means[:, rows_of_points], n_eff[:, rows_of_points] = averages(
            kernels,
            np.ascontiguousarray(phi[points[rows_of_points]]),
            np.ascontiguousarray(phi[inside]),
            columns,
            None if w is None else w[inside],
        )
    return [
        _add_level(
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
        for at in range(kernels.number)
    ]


def _add_level(result: LocalCalibration, null: Floats) -> LocalCalibration:
    """Add the level from draws (q, draws) of a calibrated model's errors."""
    if null.shape[1] == 0 or not result.valid.any():
        return result
    drawn = np.abs(null[result.valid])
    mean = drawn.mean(axis=0) if result.point_weight is None else _average(drawn, result.point_weight[result.valid])
    level = LocalLevel(NullLevel.of(drawn.max(axis=0), result.mlce), NullLevel.of(mean, result.mean_lce))
    return replace(result, level=level)


def require_valid(result: LocalCalibration) -> LocalCalibration:
    """Return the result; raise NotEnoughData if no point has enough neighbours."""
    if not result.valid.any():
        raise NotEnoughData(
            f"no event has {result.least_neighbours:g} effective neighbours, the most is {result.n_eff.max():.1f}: "
            "take more events, a larger gamma, fewer bins or fewer dimensions"
        )
    return result


def _average(values: Floats, weight: Floats) -> Floats:
    return np.asarray(np.average(values, axis=0, weights=weight))


def _content(*arrays: Floats) -> int:
    digest = xxhash.xxh3_64()
    for array in arrays:
        digest.update(array.astype("<f8").tobytes())
    return digest.intdigest()
