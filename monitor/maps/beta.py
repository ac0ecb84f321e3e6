"""Beta calibration: a map of three parameters that bends either end on its own."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Annotated, Any, ClassVar, Final

import numpy as np

from monitor.arrays import Floats
from monitor.inference.cox import logits
from monitor.inference.newton import fit_logistic, log_sigmoid
from monitor.maps.base import BinaryMap, Method, MethodOption
from monitor.maps.parts import number
from monitor.maps.scales import SLOPE_LIMIT, format_number, format_term, probabilities
from monitor.scores.labelled import LabelledEvents

MIN_EVENTS: Final = 10
_MAX_INTERCEPT: Final = 1e6
_HALF: Final = np.log(0.5)


@dataclass(frozen=True)
class Beta(BinaryMap):
    """A beta map: sigmoid of a ln p - b ln(1 - p) + c.

    Attributes
    ----------
    a, b
        From 0 to 100: slopes in logits near 0 and near 1.
    c
        In logits.
    """

    a: Annotated[float, partial(number, low=0.0, high=SLOPE_LIMIT)]
    b: Annotated[float, partial(number, low=0.0, high=SLOPE_LIMIT)]
    c: Annotated[float, partial(number, low=-_MAX_INTERCEPT, high=_MAX_INTERCEPT)]
    method: ClassVar[str] = "beta"

    def recalibrate(self, prediction: Floats) -> Floats:
        """Return sigmoid(a ln p - b ln(1 - p) + c), with logits limited to [-17, 17]."""
        z = logits(prediction)
        return probabilities(self.a * log_sigmoid(z) - self.b * log_sigmoid(-z) + self.c)

    def describe(self) -> str:
        """Describe the map."""
        text = (
            f"takes logit p to {format_number(self.a)} ln p - {format_number(self.b)} ln(1 - p) {format_term(self.c)}"
        )
        if self.a == self.b == 0.0:
            return f"{text}: predictions say nothing of the outcomes, or the opposite, so all become equal"
        if SLOPE_LIMIT in {self.a, self.b}:
            return f"{text}: a slope is at its limit, for predictions separate the outcomes"
        return text


def _fit(events: LabelledEvents, options: Mapping[str, Any]) -> Beta:
    events.require_outcomes(MIN_EVENTS)
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
    theta = fit_logistic(
        columns,
        target,
        events.weight,
        start=np.r_[np.ones(slopes), np.zeros(free)],
        lower=np.r_[np.zeros(slopes), np.full(free, -np.inf)],
        upper=np.r_[np.full(slopes, SLOPE_LIMIT), np.full(free, np.inf)],
    )
    a, b = float(theta[0]), float(theta[slopes - 1])
    return Beta(a, b, float((b - a) * _HALF) if form == "ab" else float(theta[-1]))


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
        "parameters": MethodOption(
            "text",
            "abm",
            "Which are free: abm, all three; am, with a = b, which is Platt scaling; ab, with c such that 1/2 stays.",
            choices=("abm", "am", "ab"),
        )
    },
)
"""Source: Kull, Silva Filho, Flach, "Beta calibration: a well-thetaed and easily implemented improvement on logistic
calibration for binary classifiers", 2017. It departs from the authors' code where a or b would be below 0: that drops
the column and fits again, this finds the best of all maps with a, b >= 0."""
