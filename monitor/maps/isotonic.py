"""Isotonic regression: the best of all maps that do not fall."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar, Final

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import isotonic_regression

from monitor.errors import CorruptMap
from monitor.maps import reading
from monitor.maps.base import MapParts, Method, Option, OptionValue
from monitor.maps.enough import require_outcomes
from monitor.maps.labelled import LabelledEvents
from monitor.maps.scales import on_positive

Floats = NDArray[np.float64]

LEAST_EVENTS: Final = 20
_SHAPES: Final = ("linear", "steps")


@dataclass(frozen=True, eq=False)
class Isotonic:
    """Frequencies that do not fall, over blocks of predictions.

    Attributes
    ----------
    first, last
        float64, shape (m,): the least and the largest prediction of each block, ascending; last[i] < first[i + 1].
    value
        float64, shape (m,), in [0, 1], not falling: what its predictions become.
    shape
        ``linear``: a straight line from one block to the next. ``steps``: half the way each keeps its value.
    """

    first: Floats
    last: Floats
    value: Floats
    shape: str
    method: ClassVar[str] = "isotonic"
    classes: ClassVar[int] = 2
    feature_count: ClassVar[int | None] = None
    segment_key: ClassVar[str | None] = None

    def apply(
        self,
        prediction: Floats,
        features: Floats | None = None,  # noqa: ARG002
        group: NDArray[np.str_] | None = None,  # noqa: ARG002
    ) -> Floats:
        """The value of the block that a prediction lies in, or between those of its neighbours; the ends go on."""
        return on_positive(prediction, self._recalibrate)

    def _recalibrate(self, p: Floats) -> Floats:
        if self.shape == "steps":
            # Between neighbouring numbers the middle is rounded, maybe to the upper one, which must keep its block.
            middle = (self.last[:-1] + self.first[1:]) / 2.0
            end = np.minimum(middle, np.nextafter(self.first[1:], -np.inf))
            return np.asarray(self.value[np.searchsorted(end, p, side="left")])
        knots = np.column_stack([self.first, self.last]).ravel()
        values = np.repeat(self.value, 2)
        # np.interp takes neither of two equal knots for certain; a block of one prediction needs one alone.
        single = np.r_[True, np.diff(knots) > 0.0]
        # A line between two values can pass them by its last bit.
        return np.asarray(np.clip(np.interp(p, knots[single], values[single]), 0.0, 1.0))

    def parts(self) -> MapParts:
        """Blocks and shape."""
        return MapParts({"shape": self.shape}, {"first": self.first, "last": self.last, "value": self.value})

    @classmethod
    def from_parts(cls, parts: MapParts) -> "Isotonic":
        """The map of these parts. Raises CorruptMap."""
        first = reading.column(parts, "first", low=0.0, high=1.0, least=1, rising=True)
        last = reading.column(parts, "last", low=0.0, high=1.0, least=1, rising=True)
        value = reading.column(parts, "value", low=0.0, high=1.0, least=1)
        if not first.size == last.size == value.size:
            raise CorruptMap(f"first, last and value must be equally long, got {first.size}, {last.size}, {value.size}")
        if (first > last).any() or (last[:-1] >= first[1:]).any():
            raise CorruptMap("blocks must not overlap: first <= last < the next first")
        if (np.diff(value) < 0.0).any():
            raise CorruptMap("value must not fall")
        return cls(first, last, value, reading.choice(parts, "shape", _SHAPES))

    def describe(self) -> str:
        """What it does."""
        between = "joined by straight lines" if self.shape == "linear" else "in steps"
        blocks = f"{self.value.size} block{'s'[: self.value.size != 1]}"
        return (
            f"takes predictions to the frequencies of {blocks}, {between}: {self.value[0]:.4g} to {self.value[-1]:.4g}"
        )


def _fit(events: LabelledEvents, options: Mapping[str, OptionValue]) -> Isotonic:
    require_outcomes(events, LEAST_EVENTS)
    score, row = np.unique(events.prediction, return_inverse=True)
    weight = np.bincount(row, events.weight)
    hits = np.bincount(row, events.weight * events.outcome)
    found = isotonic_regression(hits / weight, weights=weight)
    start, end = found.blocks[:-1], found.blocks[1:]
    value = np.clip(found.x[start], 0.0, 1.0)  # a mean of frequencies can pass them by its last bit
    if options["ends"] == "smoothed":
        squares = np.add.reduceat(np.bincount(row, events.weight**2), start)
        value = _smoothed(value, np.add.reduceat(weight, start) ** 2 / squares)
    # Blocks that chance made equal are one.
    fresh = np.r_[True, np.diff(value) > 0.0]
    closing = np.r_[fresh[1:], True]
    return Isotonic(score[start[fresh]], score[end[closing] - 1], value[fresh], str(options["shape"]))


def _smoothed(value: Floats, events: Floats) -> Floats:
    """Values in which frequencies of 0 and 1, of so many events, have half an event of the other kind added."""
    little = 0.5 / (events + 1.0)
    inner = value[(value > 0.0) & (value < 1.0)]
    smoothed = np.where(value <= 0.0, little, np.where(value >= 1.0, 1.0 - little, value))
    if inner.size:
        # Few events at an end must not lift it above its neighbour.
        smoothed = np.where(value <= 0.0, np.minimum(smoothed, inner[0]), smoothed)
        smoothed = np.where(value >= 1.0, np.maximum(smoothed, inner[-1]), smoothed)
    return np.asarray(smoothed)


METHOD: Final = Method(
    name="isotonic",
    title="Isotonic regression",
    meaning=(
        "Of all maps that do not fall, the one of the least Brier score: for faults of any shape, where there are "
        "thousands of events. Predictions within a block become equal."
    ),
    rank=30,
    fit=_fit,
    load=Isotonic.from_parts,
    options={
        "shape": Option(
            "text",
            "linear",
            "Between blocks: linear, a straight line; steps, each block's value half the way.",
            choices=_SHAPES,
        ),
        "ends": Option(
            "text",
            "smoothed",
            "Blocks at the ends in which all outcomes are equal: smoothed, half an event of the other kind is added, "
            "so that no prediction becomes 0 or 1; fitted, the frequency as it is.",
            choices=("smoothed", "fitted"),
        ),
    },
)
"""Source: Zadrozny, Elkan, "Transforming classifier scores into accurate multiclass probability estimates", 2002."""
