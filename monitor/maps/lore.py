"""LoRe: the share of hits among stored events that are similar in confidence and features."""

import os
from collections import Counter
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from typing import Annotated, Any, ClassVar, Final, NamedTuple

import numpy as np
import xxhash
from numpy.typing import NDArray

from monitor.arrays import Floats, Ints
from monitor.errors import CorruptMap, InputError, NotEnoughData
from monitor.local import Embedding, PrincipalComponents, Standardised
from monitor.local.calibration import default_bins
from monitor.local.features import DEFAULT_DIMENSIONS, TSNE_DIMENSIONS
from monitor.local.neighbour_loops import laplace_sums
from monitor.maps.base import FieldMap, Groups, Method, MethodOption
from monitor.maps.parts import MapParts, choice, column, flag, matrix, number, whole
from monitor.scores.grid import LOGIT_BOUND
from monitor.scores.labelled import LabelledEvents
from monitor.scores.table import effective_number

Singles = NDArray[np.float32]

Space = Standardised | PrincipalComponents | Embedding

SPACES: Final = ("pca", "standardised", "tsne")

MAX_COORDINATE: Final = 1e30
"""Larger coordinates are limited to this, so that sums of differences stay within float32."""

MAX_EVENTS: Final = 1e15
"""Limit for the sums of a map that is read; weights have the mean 1."""

MIN_EVENTS: Final = 50
MIN_HITS: Final = 5
"""Number of hits, and of misses, that a fit needs."""

_MIN_PROBABILITY: Final = float(np.exp(-LOGIT_BOUND))

_MIN_GAMMA: Final = 1e-6
_MAX_GAMMA: Final = 1e12

WHOLE_BIN: Final = 1e6
"""A gamma at which all events of a bin count equally: histogram binning."""

GAMMAS: Final = (*np.geomspace(0.0125, 6.4, 19).round(5).tolist(), WHOLE_BIN)
"""The candidates: steps of the square root of 2 around the paper's .2 and .4, and whole bins."""

EVENTS_PER_BIN: Final = 10_000
"""How many events of a bin the loss is computed for; their neighbours are all events of the bin. With 1,500, where
outcomes are rare, gamma varied with the sample by factors up to 4 (docs/lore.md)."""

_PAIRS_PER_THREAD: Final = 5_000_000
"""Work for one thread, about 10 ms for each gamma."""

_MAX_THREADS: Final = 4

_DOMINANT_SHARE: Final = 1.0 - 1e-12
"""Share of a bin's squared weights above which the rest of the bin is rounding error."""

BIN_OPTIONS: Final = {
    "bins": MethodOption(
        "whole",
        None,
        "Number of bins of equal width of the confidence; null: 15, and 5 for fewer than 1,000 events.",
        at_least=1,
        at_most=1000,
    ),
    "shrinkage": MethodOption(
        "number",
        5.0,
        "How many events of the whole bin count beside the neighbours; 0: none, which is the paper's formula.",
        at_least=0.0,
        at_most=1e6,
    ),
    "prior": MethodOption(
        "number",
        1.0,
        "How many events that agree with the bin's mean confidence are added to it, so that a bin of few events "
        "does not become 0 or 1; 0: none, which is the paper's formula.",
        at_least=0.0,
        at_most=1e6,
    ),
}
"""Options of both LoRe methods."""


@dataclass(frozen=True, eq=False, slots=True)
class Bins:
    """Bins of equal width of the confidence (the last is closed on the right), with sums over their events.

    Attributes
    ----------
    mean
        float64, shape (B,): weighted share of hits; 0 in an empty bin.
    confidence
        float64, shape (B,): weighted mean confidence; 0 in an empty bin.
    events, squares
        float64, shape (B,): sums of the events' weights and of their squares; 0 in an empty bin.
    """

    mean: Floats
    confidence: Floats
    events: Floats
    squares: Floats

    @classmethod
    def of(cls, count: int, confidence: Floats, hit: Floats, weight: Floats) -> "Bins":
        """Sum events in ``count`` bins."""
        place = bin_indices(count, confidence)

        def summed(values: Floats) -> Floats:
            return np.bincount(place, values, count).astype(np.float64)

        events = summed(weight)

        def mean(values: Floats) -> Floats:
            return np.divide(summed(weight * values), events, out=np.zeros(count), where=events > 0.0).clip(0.0, 1.0)

        return cls(mean(hit), mean(confidence), events, summed(weight**2))

    @classmethod
    def from_parts(cls, parts: MapParts, key: str) -> "Bins":
        """Read what :meth:`parts` returned. Raises CorruptMap."""
        count = whole(parts, key, 1)
        bins = cls(
            column(parts, "bin_mean", low=0.0, high=1.0),
            column(parts, "bin_confidence", low=0.0, high=1.0),
            column(parts, "bin_events", low=0.0, high=MAX_EVENTS),
            column(parts, "bin_squares", low=0.0, high=MAX_EVENTS**2),
        )
        for name, array in bins.parts().arrays.items():
            if array.size != count:
                raise CorruptMap(f"{name} must be of {count} bins, got {array.size}")
        if ((bins.events > 0.0) != (bins.squares > 0.0)).any():
            raise CorruptMap("bin_events and bin_squares must be above 0 in the same bins")
        # Of the weights of events, the square of the sum is at least the sum of squares. Rounding aside.
        if (
            not (0.999 * bins.squares <= bins.events**2).all()
            or not (bins.events**2 <= MAX_EVENTS * bins.squares).all()
        ):
            raise CorruptMap(f"bin_events and bin_squares must be sums over at most {MAX_EVENTS:g} events")
        return bins

    def parts(self) -> MapParts:
        """Return the bins as parts of a map."""
        arrays = {
            "bin_mean": self.mean,
            "bin_confidence": self.confidence,
            "bin_events": self.events,
            "bin_squares": self.squares,
        }
        return MapParts({"bins": self.count}, arrays)

    @property
    def count(self) -> int:
        """Number B of bins."""
        return int(self.mean.size)

    def add_prior(self, p: Floats, bin_index: int | Ints, prior: float) -> Floats:
        """Call :func:`add_prior` with the sums of these bins."""
        events, squares = self.events[bin_index], self.squares[bin_index]
        return add_prior(p, events, squares, self.confidence[bin_index], prior)


def bin_indices(count: int, confidence: Floats) -> Ints:
    """Return the index of each confidence among ``count`` bins, int64."""
    return np.asarray(np.searchsorted(np.arange(1, count) / count, confidence, side="right"), np.int64)


def confidence_of(prediction: Floats) -> Floats:
    """Return P(y = 1) for predictions (n,) or (n, 2), and the largest probability for more classes; shape (n,)."""
    if prediction.ndim == 1:
        return prediction
    if prediction.shape[1] == 2:
        return np.ascontiguousarray(prediction[:, 1])
    return np.asarray(prediction.max(axis=1))


def hits_of(events: LabelledEvents) -> Floats:
    """Return the outcomes; for more than two classes, whether the most probable one came true; float64, shape (n,)."""
    if events.classes == 2:
        return events.outcome.astype(np.float64)
    return np.asarray(np.argmax(events.prediction, axis=1) == events.outcome, np.float64)


def replace_confidence(prediction: Floats, confidence: Floats) -> Floats:
    """Replace the confidence of predictions (n,) or (n, K).

    For more than two classes the most probable one gets the new confidence, and the others share the rest in the same
    proportions as before, or equally if all were 0. So another class may become the most probable one.
    """
    if prediction.ndim == 1:
        return confidence
    if prediction.shape[1] == 2:
        return np.stack([1.0 - confidence, confidence], axis=1)
    rows, top = np.arange(prediction.shape[0]), np.argmax(prediction, axis=1)
    others = prediction.copy()
    others[rows, top] = 0.0
    left = others.sum(axis=1)
    others[left == 0.0] = 1.0
    others[rows, top] = 0.0
    result = others * ((1.0 - confidence) / others.sum(axis=1))[:, None]
    result[rows, top] = confidence
    return np.asarray(result)


def shrink(sums: Floats, mean: Floats, shrinkage: float) -> Floats:
    """Shrink means of neighbourhoods towards the means of their bins.

    Parameters
    ----------
    sums
        float64, shape (..., 3): sums over neighbours of weight k, of weight k hit, and of (weight k)^2.
    mean
        float64, shape (...) or less of it: share of hits in the bin.
    shrinkage
        How many events of the bin are added to the n_eff = (sum weight k)^2 / sum (weight k)^2 neighbours.

    Returns
    -------
    float64, shape (...); the bin's share where there are no neighbours.
    """
    total, hits, squares = sums[..., 0], sums[..., 1], sums[..., 2]
    n_eff = effective_number(total, squares)
    local = np.divide(hits, total, out=np.zeros_like(total), where=squares > 0.0)
    wide = np.broadcast_to(mean, total.shape)
    denominator = n_eff + shrinkage
    return np.divide(n_eff * local + shrinkage * wide, denominator, out=np.array(wide), where=denominator > 0.0)


def add_prior(p: Floats, events: Any, squares: Any, confidence: Any, prior: float) -> Floats:
    """Add ``prior`` events that agree with the bin's mean confidence to shares of hits.

    The fewer events a bin has, the closer the result is to its mean confidence.

    Parameters
    ----------
    p
        float64, shape (...).
    events, squares, confidence
        Of the bin: sums of weights, at least 0, and of their squares, and mean confidence; shape (...) or less of it.
    prior
        Number of events to add.

    Returns
    -------
    float64, shape (...), at least 4e-8 away from 0 and 1, so that no log loss is infinite.
    """
    n_eff = effective_number(events, squares)
    return np.asarray(
        np.clip((n_eff * p + prior * confidence) / (n_eff + prior), _MIN_PROBABILITY, 1.0 - _MIN_PROBABILITY)
    )


def require_hits(events: LabelledEvents, hit: Floats) -> None:
    """Raise NotEnoughData unless there are at least 50 events, 5 hits and 5 misses."""
    events.require_events(MIN_EVENTS)
    hits = int(hit.sum())
    if min(hits, len(events) - hits) < MIN_HITS:
        what = "outcomes of 1" if events.classes == 2 else "hits of the most probable class"
        raise NotEnoughData(
            f"{hits} of {len(events)} labelled events are {what}: "
            f"at least {MIN_HITS} are needed, and as many that are not"
        )


def fit_space(name: str, features: Floats, weight: Floats, dimensions: int | None) -> Space:
    """Fit the space of this name to features (n, D) with weights (n,).

    Raises
    ------
    NotEnoughData
        There are too few events.
    InputError
        The dimensions are not allowed, or a package is not installed.
    """
    if name == "standardised":
        if dimensions is not None:
            raise InputError(
                f"option dimensions must be null for the space standardised, which has those of the features, "
                f"got {dimensions}"
            )
        return Standardised.fit(features, weight)
    if name == "tsne":
        return Embedding.fit(features, TSNE_DIMENSIONS if dimensions is None else dimensions, weight)
    return PrincipalComponents.fit(features, DEFAULT_DIMENSIONS if dimensions is None else dimensions, weight)


def coordinates(space: Space, features: Floats) -> Singles:
    """Map features (n, D) to coordinates, float32, shape (n, d)."""
    # Infinite ones are limited, too; of events with nan no other event is a neighbour.
    with np.errstate(over="ignore", invalid="ignore"):
        return np.clip(space.apply(features), -MAX_COORDINATE, MAX_COORDINATE).astype(np.float32)


def _describe_space(space: Space) -> str:
    """Describe the space for people."""
    features = _standardised(space).mean.size
    if isinstance(space, Standardised):
        return f"{features} standardised feature{'s' if features > 1 else ''}"
    if isinstance(space, PrincipalComponents):
        count = space.dimensions
        parts = "one principal component" if count == 1 else f"{count} principal components"
        return f"{parts} of {features} feature{'s' if features > 1 else ''}"
    return f"a t-SNE embedding of {features} features in {space.dimensions} dimensions"


def space_parts(space: Space) -> MapParts:
    """Return the space as parts of a map."""
    standardised = _standardised(space)
    arrays = {"feature_mean": standardised.mean, "feature_scale": standardised.scale}
    if isinstance(space, Standardised):
        return MapParts({"space": "standardised"}, arrays)
    if isinstance(space, PrincipalComponents):
        return MapParts({"space": "pca"}, arrays | {"axes": space.axes})
    arrays |= {"axes": space.components.axes, "landmarks": space.landmarks, "places": space.places}
    return MapParts({"space": "tsne"}, arrays)


def read_space(parts: MapParts, key: str) -> Space:
    """Read what :func:`space_parts` returned. Raises CorruptMap."""
    name = choice(parts, key, SPACES)
    mean, scale = column(parts, "feature_mean", least=1), column(parts, "feature_scale", low=5e-324)
    if mean.size != scale.size:
        raise CorruptMap(f"feature_mean and feature_scale must be equally long, got {mean.size} and {scale.size}")
    standardised = Standardised(mean, scale)
    if name == "standardised":
        return standardised
    axes = matrix(parts, "axes", shape=(mean.size, None))
    if axes.shape[1] > mean.size:
        raise CorruptMap(f"axes must be at most as many as the {mean.size} features, got {axes.shape[1]}")
    components = PrincipalComponents(standardised, axes)
    if name == "pca":
        return components
    landmarks = matrix(parts, "landmarks", shape=(None, axes.shape[1]))
    return Embedding(components, landmarks, matrix(parts, "places", shape=(landmarks.shape[0], None)))


def _standardised(space: Space) -> Standardised:
    if isinstance(space, Standardised):
        return space
    return space.standardised if isinstance(space, PrincipalComponents) else space.components.standardised


class StoredPoints(NamedTuple):
    """Events that a map stores, ordered by bin."""

    points: Singles
    """float32, shape (d, m): one coordinate a row."""
    hit: Floats
    """float64, shape (m,): 0 or 1."""
    weight: Floats
    """float64, shape (m,)."""
    first: Ints
    """int64, shape (B + 1,): bin b has the events ``first[b] : first[b + 1]``."""

    def parts(self) -> MapParts:
        """Return the events as parts of a map; there, ``points`` has the shape (m, d)."""
        points, hit = np.ascontiguousarray(self.points.T), self.hit.astype(np.int32)
        return MapParts(arrays={"points": points, "hit": hit, "weight": self.weight, "first": self.first})


def _read_points(parts: MapParts, name: str) -> StoredPoints:  # noqa: ARG001
    """Read what :meth:`StoredPoints.parts` returned. Raises CorruptMap."""
    points = parts.arrays.get("points")
    hit, weight = column(parts, "hit", low=0.0, high=1.0), column(parts, "weight", low=5e-324, high=MAX_EVENTS)
    if points is None or points.dtype != np.float32 or points.ndim != 2 or points.shape[0] != hit.size:
        raise CorruptMap(f"points must be float32, one for each hit, got {getattr(points, 'shape', None)}")
    if not (np.abs(points) <= MAX_COORDINATE).all():
        raise CorruptMap(f"points must be within {MAX_COORDINATE:g} in size")
    if weight.size != hit.size or not np.isin(hit, (0.0, 1.0)).all():
        raise CorruptMap("hit must be 0 or 1, and weight as long")
    # Copies, because arrays from a file are read-only, for which numba would compile the loop again.
    first = column(parts, "first", low=0.0, high=hit.size).astype(np.int64)
    return StoredPoints(points.T.copy(), hit.copy(), weight.copy(), first)


@dataclass(frozen=True, eq=False)
class Lore(FieldMap):
    r"""Local recalibration (equation 6), shrunk towards the bin.

    .. math::

        p'(x) = \frac{n_{\mathrm{eff}}\, \bar y_K + m_0\, \bar y_{\mathrm{bin}}}{n_{\mathrm{eff}} + m_0}, \qquad
        \bar y_K = \frac{\sum_{i \in \beta(x)} w_i k(x, x_i)\, \mathrm{hit}_i}{\sum_{i \in \beta(x)} w_i k(x, x_i)},
        \qquad k(x, x') = \exp\left(-\frac{\|\phi(x) - \phi(x')\|_1}{d \gamma}\right)

    with beta(x) the stored events in the bin of x's confidence, and the effective number of events
    n_eff = (sum w k)^2 / sum (w k)^2.

    Then ``prior`` events that agree with the bin's mean confidence c are added to each bin, unlike in the paper:
    p'' = (n p' + a c) / (n + a), with n the bin's effective number of events and a the prior. In an empty bin p' = p.

    With many classes the confidence is the largest probability, a hit means that its class came true, and the other
    classes share the rest in the same proportions as before.

    Attributes
    ----------
    space
        phi.
    bins
        Bins of the confidence; their shares of hits include events that are not stored.
    stored
        Coordinates of the stored events.
    gamma, shrinkage, prior
        The bandwidth, m0, and a.
    gamma_found
        Whether gamma was chosen by leave-one-out, not given as an option.
    classes
        Number of classes of the predictions.
    """

    space: Annotated[Space, read_space, space_parts]
    bins: Annotated[Bins, Bins.from_parts, Bins.parts]
    stored: Annotated[StoredPoints, _read_points, StoredPoints.parts]
    gamma: Annotated[float, partial(number, low=_MIN_GAMMA, high=_MAX_GAMMA)]
    shrinkage: Annotated[float, partial(number, low=0.0, high=1e6)]
    prior: Annotated[float, partial(number, low=0.0, high=1e6)]
    gamma_found: Annotated[bool, flag]
    classes: Annotated[int, partial(whole, least=2)]
    method: ClassVar[str] = "lore"
    segment_key: ClassVar[str | None] = None

    @property
    def feature_count(self) -> int | None:
        """Number D of features of an event."""
        return int(_standardised(self.space).mean.size)

    def apply(self, prediction: Floats, features: Floats | None = None, group: Groups | None = None) -> Floats:  # noqa: ARG002
        """Recalibrate predictions; features have the shape (n, D)."""
        if features is None:
            raise InputError(f"the map needs {self.feature_count} features an event, and there are none")
        confidence = np.array(confidence_of(prediction))
        place = bin_indices(self.bins.count, confidence)
        points = coordinates(self.space, features)
        rate = np.array([1.0 / (points.shape[1] * self.gamma)])
        for b in np.unique(place).tolist():
            if self.stored.first[b] == self.stored.first[b + 1]:
                continue
            rows = np.flatnonzero(place == b)
            sums = neighbour_sums(points[rows], self.stored, np.full(rows.size, -1), rate, b)
            local = shrink(sums[:, 0], self.bins.mean[b], self.shrinkage)
            confidence[rows] = self.bins.add_prior(local, b, self.prior)
        return replace_confidence(prediction, confidence)

    def check(self) -> None:
        """Raise CorruptMap if points do not fit the space or the bins."""
        first, (d, count) = self.stored.first, self.stored.points.shape
        if d != self.space.dimensions:
            raise CorruptMap(f"points must be float32 of the shape {(count, self.space.dimensions)}, got {(count, d)}")
        if first.size != self.bins.count + 1 or first[0] != 0 or first[-1] != count:
            raise CorruptMap(f"first must list {self.bins.count} bins from 0 to {count}")
        if (np.diff(first) < 0).any() or ((np.diff(first) > 0) != (self.bins.events > 0.0)).any():
            raise CorruptMap("first must ascend, and only bins that had events may have points")

    def describe(self) -> str:
        """Describe the map."""
        bandwidth = "all events of a bin alike" if self.gamma >= WHOLE_BIN else f"gamma {self.gamma:g}"
        return (
            f"share of hits among events alike in {_describe_space(self.space)}, within {self.bins.count} bins of "
            f"confidence; "
            f"{bandwidth} ({'chosen by leave-one-out' if self.gamma_found else 'as given'}), "
            f"{self.stored.hit.size:,} events kept, shrunk towards the bin by {self.shrinkage:g} events"
        )


def _fit(events: LabelledEvents, options: Mapping[str, Any]) -> Lore:
    if events.features is None:
        raise InputError("lore needs features, and these events have none")
    hit = hits_of(events)
    require_hits(events, hit)
    # Sorted by content, so that the same events in any order give the same map.
    confidence = confidence_of(events.prediction)
    order = _content_order(confidence, hit, events.weight, events.features)
    confidence, hit, weight = confidence[order], hit[order], events.weight[order]
    features = events.features[order]
    space = fit_space(options["space"], features, weight, options["dimensions"])
    count = options["bins"] or default_bins(len(events))
    place, bins = bin_indices(count, confidence), Bins.of(count, confidence, hit, weight)
    kept = _sample(place, count, options["max_points"])
    stored = StoredPoints(
        points=np.ascontiguousarray(coordinates(space, features[kept]).T),
        hit=hit[kept],
        weight=weight[kept],
        first=np.searchsorted(place[kept], np.arange(count + 1)).astype(np.int64),
    )
    gamma, shrinkage, prior = options["gamma"], options["shrinkage"], options["prior"]
    return Lore(
        space=space,
        bins=bins,
        stored=stored,
        gamma=choose_gamma(stored, bins, shrinkage, prior) if gamma is None else gamma,
        shrinkage=shrinkage,
        prior=prior,
        gamma_found=gamma is None,
        classes=events.classes,
    )


def neighbour_sums(points: Singles, stored: StoredPoints, own: Ints, rates: Floats, b: int) -> Floats:
    """Sum over the stored points of bin b around each of the points (q, d); float64, shape (q, g, 3).

    Calls :func:`~monitor.local.neighbour_loops.laplace_sums` in several threads if there are many points: where
    outcomes are rare, one bin holds nearly all events.
    """
    start, stop = int(stored.first[b]), int(stored.first[b + 1])
    threads = min(_MAX_THREADS, os.cpu_count() or 1, 1 + points.shape[0] * (stop - start) // _PAIRS_PER_THREAD)

    def sums(part: Singles, own: Ints) -> Floats:
        return laplace_sums(part, stored.points, stored.weight, stored.hit, own, rates, start, stop)

    if threads == 1:
        return sums(points, own)
    # Points are independent, so results do not depend on the number of threads.
    with ThreadPoolExecutor(threads) as pool:
        return np.concatenate(list(pool.map(sums, np.array_split(points, threads), np.array_split(own, threads))))


def leave_one_out_losses(stored: StoredPoints, bins: Bins, shrinkage: float, prior: float, gammas: Floats) -> Floats:
    r"""Return the mean leave-one-out log loss for each gamma, float64, shape (g,).

    Closed form: the event's own term is left out of the sums over neighbours and of its bin's sums, so no map is fitted
    again. Only the bin's mean confidence, which does not depend on outcomes, keeps it.

    The first 10,000 events of a bin are evaluated and count for all of it, so they must be a random sample. Events with
    equal features are neighbours like any others, as later events with these features will be.
    """
    rates = 1.0 / (stored.points.shape[0] * gammas)
    loss, counted = np.zeros(gammas.size), 0.0
    for b in range(bins.count):
        start, stop = int(stored.first[b]), int(stored.first[b + 1])
        if stop - start < 2:
            continue  # no event has a neighbour
        rows = np.arange(start, min(start + EVENTS_PER_BIN, stop))
        # Of an event that outweighs the rest of its bin a million times, the neighbours are rounding error.
        rows = rows[stored.weight[rows] ** 2 < bins.squares[b] * _DOMINANT_SHARE]
        if not rows.size:
            continue
        points = np.ascontiguousarray(stored.points[:, rows].T)
        sums = neighbour_sums(points, stored, rows, rates, b)
        hit, weight = stored.hit[rows], stored.weight[rows]
        events, squares = bins.events[b] - weight, bins.squares[b] - weight**2
        mean = (bins.events[b] * bins.mean[b] - weight * hit) / events
        p = shrink(sums, mean.clip(0.0, 1.0)[:, None], shrinkage)
        p = add_prior(p, events[:, None], squares[:, None], bins.confidence[b], prior)
        losses = -np.log(np.where(hit[:, None] == 1.0, p, 1.0 - p))
        loss += bins.events[b] * np.average(losses, axis=0, weights=weight)
        counted += bins.events[b]
    return loss / counted if counted else loss


def choose_gamma(stored: StoredPoints, bins: Bins, shrinkage: float, prior: float) -> float:
    """Return the gamma of the least leave-one-out log loss; of equal losses, the largest gamma."""
    gammas = np.array(GAMMAS)
    losses = leave_one_out_losses(stored, bins, shrinkage, prior, gammas)
    return float(gammas[np.flatnonzero(losses <= losses.min() + 1e-12)[-1]])


def _content_order(confidence: Floats, hit: Floats, weight: Floats, features: Floats) -> Ints:
    """Sort rows by a hash of their content and of their number among equal rows.

    Any order of the events gives the same result, and the first rows of a bin are a random sample of it. Without the
    number, equal rows would have equal hashes, and a sample would hold all of them or none.
    """
    rows = np.column_stack([confidence, hit, weight, features]) + 0.0  # no -0
    width = rows.shape[1] * rows.itemsize
    raw = memoryview(rows.tobytes())
    equal_before = Counter[int]()
    keys = np.empty(rows.shape[0], np.uint64)
    for i in range(rows.shape[0]):
        row = raw[i * width : (i + 1) * width]
        content = xxhash.xxh3_64_intdigest(row)
        keys[i] = xxhash.xxh3_64_intdigest(row, seed=equal_before[content])
        equal_before[content] += 1
    return np.argsort(keys, kind="stable")


def _sample(place: Ints, bins: int, limit: int) -> Ints:
    """Return at most ``limit`` rows ordered by bin: the first of each bin, in proportion, and at least one."""
    by_bin = np.argsort(place, kind="stable")
    if place.size <= limit:
        return by_bin
    size = np.bincount(place, minlength=bins)
    quota = np.minimum(size, np.maximum(1, size * limit // place.size))
    start = np.cumsum(size) - size
    rank = np.arange(place.size) - start[place[by_bin]]
    return by_bin[rank < quota[place[by_bin]]]


METHOD: Final = Method(
    name="lore",
    title="LoRe",
    meaning="Local recalibration: the share of hits among past events of like confidence and like features. Takes away "
    "errors in parts of the population that were not declared as segments; needs features and some thousand events.",
    rank=90,
    fit=_fit,
    load=Lore.from_parts,
    options={
        "space": MethodOption(
            "text",
            "pca",
            "Where events are compared: principal components of the features, the features as they are but "
            "standardised, or a frozen t-SNE embedding, whose fit needs the extra tsne.",
            choices=SPACES,
        ),
        "dimensions": MethodOption(
            "whole",
            None,
            "Of the space; null: 20 principal components, or as many as there are features; 2 of t-SNE, which may have "
            "2 or 3. Not for standardised features.",
            at_least=1,
            at_most=1000,
        ),
        "gamma": MethodOption(
            kind="number",
            default=None,
            at_least=_MIN_GAMMA,
            at_most=_MAX_GAMMA,
            meaning="How far neighbours reach: the larger, the farther. Null: that of the least log loss when each "
            "event is left out. The paper takes .4 for principal components and .2 for t-SNE.",
        ),
        **BIN_OPTIONS,
        "max_points": MethodOption(
            kind="whole",
            default=50_000,
            at_least=100,
            at_most=10_000_000,
            meaning="How many events the map keeps at most; applying it takes time in proportion.",
        ),
    },
    many_classes=True,
    needs_features=True,
)
