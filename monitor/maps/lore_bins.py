"""Bins of confidence, which both LoRe methods use, and the conversion between predictions and confidences."""

from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from monitor.arrays import Floats, Ints
from monitor.errors import CorruptMap, NotEnoughData
from monitor.inference.cox import LOGIT_BOUND
from monitor.local.calibration import default_bins
from monitor.maps.base import Option
from monitor.maps.labelled import LabelledEvents
from monitor.maps.parts import MapParts, column, whole

MIN_EVENTS: Final = 50
MIN_HITS: Final = 5
"""Number of hits, and of misses, that a fit needs."""

_MIN_PROBABILITY: Final = float(np.exp(-LOGIT_BOUND))

BINS: Final = Option(
    kind="whole",
    default=None,
    at_least=1,
    at_most=1000,
    meaning="Number of bins of equal width of the confidence; null: 15, and 5 for fewer than 1,000 events.",
)
SHRINKAGE: Final = Option(
    kind="number",
    default=5.0,
    at_least=0.0,
    at_most=1e6,
    meaning="How many events of the whole bin count beside the neighbours; 0: none, which is the paper's formula.",
)
PRIOR: Final = Option(
    kind="number",
    default=1.0,
    at_least=0.0,
    at_most=1e6,
    meaning="How many events that agree with the bin's mean confidence are added to it, so that a bin of few events "
    "does not become 0 or 1; 0: none, which is the paper's formula.",
)


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
            column(parts, "bin_events", low=0.0),
            column(parts, "bin_squares", low=0.0),
        )
        for name, array in bins.parts().arrays.items():
            if array.size != count:
                raise CorruptMap(f"{name} must be of {count} bins, got {array.size}")
        if ((bins.events > 0.0) != (bins.squares > 0.0)).any():
            raise CorruptMap("bin_events and bin_squares must be above 0 in the same bins")
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

    def indices(self, confidence: Floats) -> Ints:
        """Return the index of the bin of each confidence."""
        return bin_indices(self.count, confidence)

    def add_prior(self, p: Floats, bin_index: int | Ints, prior: float) -> Floats:
        """Call :func:`add_prior` with the sums of these bins."""
        events, squares = self.events[bin_index], self.squares[bin_index]
        return add_prior(p, events, squares, self.confidence[bin_index], prior)


def bin_indices(count: int, confidence: Floats) -> Ints:
    """Return the index of each confidence among ``count`` bins, int64."""
    return np.asarray(np.searchsorted(np.arange(1, count) / count, confidence, side="right"), np.int64)


def number_of_bins(option: object, events: int) -> int:
    """Return the option ``bins``, or the default for this number of events."""
    return option if isinstance(option, int) else default_bins(events)


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
    some = squares > 0.0
    n_eff = np.divide(total**2, squares, out=np.zeros_like(total), where=some)
    local = np.divide(hits, total, out=np.zeros_like(total), where=some)
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
    n_eff = events**2 / squares
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
