"""Isotonic regression: the best of all non-decreasing maps."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Annotated, Any, ClassVar, Final

import numpy as np

from monitor.arrays import Floats
from monitor.errors import CorruptMap
from monitor.isotonic_loops import isotonic_regression
from monitor.maps.base import BinaryMap, Method, MethodOption
from monitor.maps.parts import choice, column
from monitor.scores.labelled import LabelledEvents
from monitor.scores.table import effective_number

MIN_EVENTS: Final = 20
_SHAPES: Final = ("linear", "steps")


@dataclass(frozen=True, eq=False)
class Isotonic(BinaryMap):
    """Non-decreasing frequencies over blocks of predictions.

    Attributes
    ----------
    first, last
        float64, shape (m,): the least and the largest prediction of each block, ascending; last[i] < first[i + 1].
    value
        float64, shape (m,), in [0, 1], non-decreasing: the recalibrated prediction of each block.
    shape
        ``linear``: a straight line from one block to the next. ``steps``: each block keeps its value up to the middle.
    """

    first: Annotated[Floats, partial(column, low=0.0, high=1.0, least=1, rising=True)]
    last: Annotated[Floats, partial(column, low=0.0, high=1.0, least=1, rising=True)]
    value: Annotated[Floats, partial(column, low=0.0, high=1.0, least=1)]
    shape: Annotated[str, partial(choice, allowed=_SHAPES)]
    method: ClassVar[str] = "isotonic"

    def recalibrate(self, prediction: Floats) -> Floats:
        """Return the value of each prediction's block, or a value between those of its neighbours."""
        if self.shape == "steps":
            # Between neighbouring numbers the middle is rounded, maybe to the upper one, which must keep its block.
            middle = (self.last[:-1] + self.first[1:]) / 2.0
            end = np.minimum(middle, np.nextafter(self.first[1:], -np.inf))
            return np.asarray(self.value[np.searchsorted(end, prediction, side="left")])
        knots = np.column_stack([self.first, self.last]).ravel()
        values = np.repeat(self.value, 2)
        # np.interp may use either of two equal knots, so a block of one prediction gets one knot.
        single = np.r_[True, np.diff(knots) > 0.0]
        # Rounding can put a point of the line between two values outside [0, 1].
        return np.asarray(np.clip(np.interp(prediction, knots[single], values[single]), 0.0, 1.0))

    def check(self) -> None:
        """Raise CorruptMap if blocks overlap or values fall."""
        if not self.first.size == self.last.size == self.value.size:
            raise CorruptMap(
                f"first, last and value must be equally long, "
                f"got {self.first.size}, {self.last.size}, {self.value.size}"
            )
        if (self.first > self.last).any() or (self.last[:-1] >= self.first[1:]).any():
            raise CorruptMap("blocks must not overlap: first <= last < the next first")
        if (np.diff(self.value) < 0.0).any():
            raise CorruptMap("value must not fall")

    def describe(self) -> str:
        """Describe the map."""
        between = "joined by straight lines" if self.shape == "linear" else "in steps"
        blocks = f"{self.value.size} block{'s'[: self.value.size != 1]}"
        return (
            f"takes predictions to the frequencies of {blocks}, {between}: {self.value[0]:.4g} to {self.value[-1]:.4g}"
        )


def _fit(events: LabelledEvents, options: Mapping[str, Any]) -> Isotonic:
    events.require_outcomes(MIN_EVENTS)
    score, row = np.unique(events.prediction, return_inverse=True)
    weight = np.bincount(row, events.weight).astype(np.float64, copy=False)
    hits = np.bincount(row, events.weight * events.outcome)
    fitted = isotonic_regression(hits / weight, weight)
    start = np.flatnonzero(np.diff(fitted, prepend=-np.inf) > 0.0)
    end = np.r_[start[1:], fitted.size]
    value = np.clip(fitted[start], 0.0, 1.0)  # rounding can put a mean outside [0, 1]
    if options["ends"] == "smoothed":
        squares = np.add.reduceat(np.bincount(row, events.squares), start)
        value = _smoothed(value, effective_number(np.add.reduceat(weight, start), squares))
    # Neighbouring blocks with equal values become one.
    begins = np.r_[True, np.diff(value) > 0.0]
    ends = np.r_[begins[1:], True]
    return Isotonic(score[start[begins]], score[end[ends] - 1], value[begins], options["shape"])


def _smoothed(value: Floats, events: Floats) -> Floats:
    """Add half an event with the other outcome to blocks with frequency 0 or 1."""
    little = 0.5 / (events + 1.0)
    inner = value[(value > 0.0) & (value < 1.0)]
    smoothed = np.where(value <= 0.0, little, np.where(value >= 1.0, 1.0 - little, value))
    if inner.size:
        # With few events, the smoothed value could pass its neighbour.
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
        "shape": MethodOption(
            "text",
            "linear",
            "Between blocks: linear, a straight line; steps, each block's value half the way.",
            choices=_SHAPES,
        ),
        "ends": MethodOption(
            "text",
            "smoothed",
            "Blocks at the ends in which all outcomes are equal: smoothed, half an event of the other kind is added, "
            "so that no prediction becomes 0 or 1; fitted, the frequency as it is.",
            choices=("smoothed", "fitted"),
        ),
    },
)
"""Source: Zadrozny, Elkan, "Transforming classifier scores into accurate multiclass probability estimates", 2002."""
