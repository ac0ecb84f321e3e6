"""Beta calibration: a map of three parameters that bends either end on its own."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar, Final

import numpy as np
from numpy.typing import NDArray

from monitor.inference.logistic import fit_logistic, log_sigmoid
from monitor.maps import reading
from monitor.maps.base import MapParts, Method, Option, OptionValue
from monitor.maps.enough import require_outcomes
from monitor.maps.labelled import LabelledEvents
from monitor.maps.scales import SLOPE_LIMIT, added, in_words, logits, on_positive, probabilities

Floats = NDArray[np.float64]

LEAST_EVENTS: Final = 10
_FARTHEST: Final = 1e6
_HALF: Final = np.log(0.5)


@dataclass(frozen=True)
class Beta:
    """A beta map: sigmoid of a ln p - b ln(1 - p) + c.

    Attributes
    ----------
    a, b
        From 0 to 100: slopes in logits near 0 and near 1.
    c
        In logits.
    """

    a: float
    b: float
    c: float
    method: ClassVar[str] = "beta"
    classes: ClassVar[int] = 2
    feature_count: ClassVar[int | None] = None
    segment_key: ClassVar[str | None] = None

    def apply(
        self,
        prediction: Floats,
        features: Floats | None = None,  # noqa: ARG002
        group: NDArray[np.str_] | None = None,  # noqa: ARG002
    ) -> Floats:
        """Sigmoid of a ln p - b ln(1 - p) + c. Predictions whose logits lie beyond -+17 count as lying there."""

        def recalibrate(p: Floats) -> Floats:
            z = logits(p)
            return probabilities(self.a * log_sigmoid(z) - self.b * log_sigmoid(-z) + self.c)

        return on_positive(prediction, recalibrate)

    def parts(self) -> MapParts:
        """The three parameters."""
        return MapParts({"a": self.a, "b": self.b, "c": self.c})

    @classmethod
    def from_parts(cls, parts: MapParts) -> "Beta":
        """The map of these parts. Raises CorruptMap."""
        return cls(
            reading.number(parts, "a", 0.0, SLOPE_LIMIT),
            reading.number(parts, "b", 0.0, SLOPE_LIMIT),
            reading.number(parts, "c", -_FARTHEST, _FARTHEST),
        )

    def describe(self) -> str:
        """What it does."""
        said = f"takes logit p to {in_words(self.a)} ln p - {in_words(self.b)} ln(1 - p) {added(self.c)}"
        if self.a == self.b == 0.0:
            return f"{said}: predictions say nothing of the outcomes, or the opposite, so all become equal"
        if SLOPE_LIMIT in {self.a, self.b}:
            return f"{said}: a slope is at its limit, for predictions part the outcomes"
        return said


def _fit(events: LabelledEvents, options: Mapping[str, OptionValue]) -> Beta:
    require_outcomes(events, LEAST_EVENTS)
    z, target = logits(events.prediction), events.outcome.astype(np.float64)
    low, high, one = log_sigmoid(z), -log_sigmoid(-z), np.ones_like(z)
    form = options["parameters"]
    if form == "am":
        columns = np.column_stack([z, one])
    elif form == "ab":
        # The map goes through (1/2, 1/2): c = b ln(1/2) - a ln(1/2).
        columns = np.column_stack([low - _HALF, high + _HALF])
    else:
        columns = np.column_stack([low, high, one])
    slopes = 1 if form == "am" else 2
    free = columns.shape[1] - slopes
    found = fit_logistic(
        columns,
        target,
        events.weight,
        start=np.r_[np.ones(slopes), np.zeros(free)],
        lower=np.r_[np.zeros(slopes), np.full(free, -np.inf)],
        upper=np.r_[np.full(slopes, SLOPE_LIMIT), np.full(free, np.inf)],
    )
    a, b = float(found[0]), float(found[slopes - 1])
    return Beta(a, b, float((b - a) * _HALF) if form == "ab" else float(found[-1]))


METHOD: Final = Method(
    name="beta",
    title="Beta calibration",
    meaning=(
        "Sigmoid of a ln p - b ln(1 - p) + c, found by log loss: bends low and high predictions each on its own, and "
        "contains no map, an offset and Platt scaling. The order of predictions stays."
    ),
    rank=25,
    fit=_fit,
    load=Beta.from_parts,
    options={
        "parameters": Option(
            "text",
            "abm",
            "Which are free: abm, all three; am, with a = b, which is Platt scaling; ab, with c such that 1/2 stays.",
            choices=("abm", "am", "ab"),
        )
    },
)
"""Source: Kull, Silva Filho, Flach, "Beta calibration: a well-founded and easily implemented improvement on logistic
calibration for binary classifiers", 2017. It departs from the authors' code where a or b would be below 0: that drops
the column and fits again, this finds the best of all maps with a, b >= 0."""
