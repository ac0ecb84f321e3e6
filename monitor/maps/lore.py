"""LoRe: the share of hits among events that are alike in confidence and features."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Final

import numpy as np
import xxhash
from numpy.typing import NDArray

from monitor.errors import CorruptMap, InputError
from monitor.maps.base import MapParts, Method, Option, OptionValue
from monitor.maps.labelled import LabelledEvents
from monitor.maps.lore_bins import (
    BINS,
    PRIOR,
    SHRINKAGE,
    Bins,
    confidence_of,
    hits_of,
    number_of_bins,
    places,
    require_hits,
    shrunk,
    with_confidence,
    with_prior,
)
from monitor.maps.lore_gamma import WHOLE_BIN, StoredPoints, choose_gamma, neighbour_sums
from monitor.maps.lore_space import (
    DIMENSIONS,
    LARGEST_COORDINATE,
    SPACE,
    Space,
    coordinates,
    describe,
    feature_count,
    fit_space,
    name_of,
    space_arrays,
    space_from_parts,
)
from monitor.maps.reading import column, number, setting, whole

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

_LEAST_GAMMA: Final = 1e-6
_LARGEST_GAMMA: Final = 1e12


@dataclass(frozen=True, eq=False)
class Lore:
    r"""Local recalibration (equation 6), shrunk towards the bin.

    .. math::

        p'(x) = \frac{n_{\mathrm{eff}}\, \bar y_K + m_0\, \bar y_{\mathrm{bin}}}{n_{\mathrm{eff}} + m_0}, \qquad
        \bar y_K = \frac{\sum_{i \in \beta(x)} w_i k(x, x_i)\, \mathrm{hit}_i}{\sum_{i \in \beta(x)} w_i k(x, x_i)},
        \qquad k(x, x') = \exp\left(-\frac{\|\phi(x) - \phi(x')\|_1}{d \gamma}\right)

    with beta(x) the stored events in the bin of x's confidence, and
    n_eff = (sum w k)^2 / sum (w k)^2, how many events of equal weight they are worth.

    To a bin some events are added that agree with its mean confidence c: p'' = (n p' + a c) / (n + a), n being how many
    events of equal weight the bin has, and a the ``prior``, which the paper's formula has not. In an empty bin p' = p.

    Of many classes the confidence is the largest probability, and a hit is that its class came true; the others share
    what is left as before.

    Attributes
    ----------
    space
        phi.
    bins
        Bins of the confidence; their shares of hits are those of all events, kept or not.
    stored
        The events that are kept, as coordinates.
    gamma, shrinkage, prior
        The bandwidth, m0, and a.
    gamma_found
        Whether gamma was found by leaving events out, and not told.
    classes
        Number of classes of the predictions.
    """

    space: Space
    bins: Bins
    stored: StoredPoints
    gamma: float
    shrinkage: float
    prior: float
    gamma_found: bool
    classes: int
    method: ClassVar[str] = "lore"
    segment_key: ClassVar[str | None] = None

    @property
    def feature_count(self) -> int | None:
        """Number D of features of an event."""
        return feature_count(self.space)

    def apply(
        self,
        prediction: Floats,
        features: Floats | None = None,
        group: NDArray[np.str_] | None = None,  # noqa: ARG002
    ) -> Floats:
        """Recalibrated predictions, of the shape of ``prediction``; features (n, D)."""
        if features is None:
            raise InputError(f"the map needs {self.feature_count} features an event, and there are none")
        before = confidence_of(prediction)
        confidence = np.array(before)
        place = self.bins.places(confidence)
        points = coordinates(self.space, features)
        rate = np.array([1.0 / (points.shape[1] * self.gamma)])
        for b in np.unique(place).tolist():
            if self.stored.first[b] == self.stored.first[b + 1]:
                continue
            asked = np.flatnonzero(place == b)
            sums = neighbour_sums(points[asked], self.stored, np.full(asked.size, -1), rate, b)
            bins = self.bins
            local = shrunk(sums[:, 0], bins.mean[b], self.shrinkage)
            confidence[asked] = with_prior(local, bins.events[b], bins.squares[b], bins.confidence[b], self.prior)
        return with_confidence(prediction, confidence)

    def parts(self) -> MapParts:
        """The map taken apart: ``points`` (m, d), ``hit``, ``weight`` and ``first`` are the stored events."""
        arrays: dict[str, NDArray[Any]] = {
            "points": np.ascontiguousarray(self.stored.points.T),
            "hit": self.stored.hit.astype(np.int32),
            "weight": self.stored.weight,
            "first": self.stored.first,
            **self.bins.arrays(),
            **space_arrays(self.space),
        }
        settings = {
            "classes": self.classes,
            "bins": self.bins.count,
            "space": name_of(self.space),
            "gamma": self.gamma,
            "gamma_found": self.gamma_found,
            "shrinkage": self.shrinkage,
            "prior": self.prior,
        }
        return MapParts(settings, arrays)

    @classmethod
    def from_parts(cls, parts: MapParts) -> "Lore":
        """The map of these parts. Raises CorruptMap."""
        found = setting(parts, "gamma_found")
        if not isinstance(found, bool):
            raise CorruptMap(f"gamma_found must be true or false, got {found!r}")
        space, bins = space_from_parts(parts), Bins.from_parts(parts)
        return cls(
            space=space,
            bins=bins,
            stored=_stored_from(parts, bins, space.dimensions),
            gamma=number(parts, "gamma", _LEAST_GAMMA, _LARGEST_GAMMA),
            shrinkage=number(parts, "shrinkage", 0.0, 1e6),
            prior=number(parts, "prior", 0.0, 1e6),
            gamma_found=found,
            classes=whole(parts, "classes", 2),
        )

    def describe(self) -> str:
        """What it does, with its numbers."""
        bandwidth = "all events of a bin alike" if self.gamma >= WHOLE_BIN else f"gamma {self.gamma:g}"
        return (
            f"share of hits among events alike in {describe(self.space)}, within {self.bins.count} bins of confidence; "
            f"{bandwidth} ({'found by leaving each event out' if self.gamma_found else 'as told'}), "
            f"{self.stored.hit.size:,} events kept, shrunk towards the bin by {self.shrinkage:g} events"
        )


def _fit(events: LabelledEvents, options: Mapping[str, OptionValue]) -> Lore:
    if events.features is None:
        raise InputError("lore needs features, and these events have none")
    hit = hits_of(events)
    require_hits(events, hit)
    # In the order of their content, so that the map is the same for the same events in any order.
    confidence = confidence_of(events.prediction)
    order = _content_order(confidence, hit, events.weight, events.features)
    confidence, hit, weight = confidence[order], hit[order], events.weight[order]
    features = events.features[order]
    space = fit_space(str(options["space"]), features, weight, _whole_or_none(options["dimensions"]))
    count = number_of_bins(options["bins"], len(events))
    place, bins = places(count, confidence), Bins.of(count, confidence, hit, weight)
    kept = _kept(place, count, _whole_or_none(options["max_points"]) or len(events))
    stored = StoredPoints(
        points=np.ascontiguousarray(coordinates(space, features[kept]).T),
        hit=hit[kept],
        weight=weight[kept],
        first=np.searchsorted(place[kept], np.arange(count + 1)).astype(np.int64),
    )
    gamma, shrinkage, prior = options["gamma"], float(options["shrinkage"] or 0.0), float(options["prior"] or 0.0)
    return Lore(
        space=space,
        bins=bins,
        stored=stored,
        gamma=choose_gamma(stored, bins, shrinkage, prior) if gamma is None else float(gamma),
        shrinkage=shrinkage,
        prior=prior,
        gamma_found=gamma is None,
        classes=events.classes,
    )


def _content_order(confidence: Floats, hit: Floats, weight: Floats, features: Floats) -> Ints:
    """Sort rows by a hash of their content and of their number among equal rows.

    Any order of the events gives the same rows in the same order, and the first rows of a bin are a random sample of
    it. Without the number equal rows would have equal hashes: a sample would hold all of them or none.
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


def _kept(place: Ints, bins: int, most: int) -> Ints:
    """At most so many rows, those of a bin together: the first of each, in proportion, and at least one."""
    by_bin = np.argsort(place, kind="stable")
    if place.size <= most:
        return by_bin
    size = np.bincount(place, minlength=bins)
    quota = np.minimum(size, np.maximum(1, size * most // place.size))
    start = np.cumsum(size) - size
    rank = np.arange(place.size) - start[place[by_bin]]
    return by_bin[rank < quota[place[by_bin]]]


def _stored_from(parts: MapParts, bins: Bins, dimensions: int) -> StoredPoints:
    points = parts.arrays.get("points")
    hit, weight = column(parts, "hit", low=0.0, high=1.0), column(parts, "weight", low=5e-324)
    wanted = (hit.size, dimensions)
    if points is None or points.dtype != np.float32 or points.shape != wanted:
        raise CorruptMap(f"points must be float32 of the shape {wanted}, got {getattr(points, 'shape', None)}")
    if not (np.abs(points) <= LARGEST_COORDINATE).all():
        raise CorruptMap(f"points must be within {LARGEST_COORDINATE:g} in size")
    if weight.size != hit.size or not np.isin(hit, (0.0, 1.0)).all():
        raise CorruptMap("hit must be 0 or 1, and weight as long")
    first = column(parts, "first", low=0.0, high=hit.size).astype(np.int64)
    if first.size != bins.count + 1 or first[0] != 0 or first[-1] != hit.size:
        raise CorruptMap(f"first must tell of {bins.count} bins from 0 to {hit.size}")
    if (np.diff(first) < 0).any() or ((np.diff(first) > 0) != (bins.events > 0.0)).any():
        raise CorruptMap("first must ascend, and only bins that had events may have points")
    # Copies: what a file gave is read-only, for which the kernel would be compiled once more.
    return StoredPoints(points.T.copy(), hit.copy(), weight.copy(), first)


def _whole_or_none(value: OptionValue) -> int | None:
    return None if value is None else int(value)


METHOD: Final = Method(
    name="lore",
    title="LoRe",
    meaning="Local recalibration: the share of hits among past events of like confidence and like features. Takes away "
    "errors of parts of the population that nobody named; needs features and some thousand events.",
    rank=90,
    fit=_fit,
    load=Lore.from_parts,
    options={
        "space": SPACE,
        "dimensions": DIMENSIONS,
        "gamma": Option(
            kind="number",
            default=None,
            at_least=_LEAST_GAMMA,
            at_most=_LARGEST_GAMMA,
            meaning="How far neighbours reach: the larger, the farther. Null: that of the least log loss when each "
            "event is left out. The paper takes .4 for principal components and .2 for t-SNE.",
        ),
        "bins": BINS,
        "shrinkage": SHRINKAGE,
        "prior": PRIOR,
        "max_points": Option(
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
