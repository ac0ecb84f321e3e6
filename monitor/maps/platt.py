"""Platt scaling: a straight line in logits."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Annotated, Any, ClassVar, Final

import numpy as np

from monitor.arrays import Floats
from monitor.inference.cox import logits
from monitor.inference.newton import fit_logistic
from monitor.maps.base import BinaryMap, Method, MethodOption
from monitor.maps.parts import number
from monitor.maps.scales import SLOPE_LIMIT, format_number, format_term, probabilities
from monitor.scores.labelled import LabelledEvents

MIN_EVENTS: Final = 10
_MAX_INTERCEPT: Final = 1e6
"""Larger than any fitted intercept, which stays below 2,000."""


@dataclass(frozen=True)
class Platt(BinaryMap):
    """A straight line in logits.

    Attributes
    ----------
    intercept
        a, in logits.
    slope
        b, from 0 to 100.
    """

    intercept: Annotated[float, partial(number, low=-_MAX_INTERCEPT, high=_MAX_INTERCEPT)]
    slope: Annotated[float, partial(number, low=0.0, high=SLOPE_LIMIT)]
    method: ClassVar[str] = "platt"

    def recalibrate(self, prediction: Floats) -> Floats:
        """Return sigmoid(a + b logit p), with logits limited to [-17, 17]."""
        return probabilities(self.intercept + self.slope * logits(prediction))

    def describe(self) -> str:
        """Describe the map."""
        text = f"takes logit p to {format_number(self.slope)} logit p {format_term(self.intercept)}"
        if self.slope == 0.0:
            return f"{text}: predictions say nothing of the outcomes, or the opposite, so all become equal"
        if self.slope == SLOPE_LIMIT:
            return f"{text}: the slope is at its limit, for predictions separate the outcomes"
        return text


def _fit(events: LabelledEvents, options: Mapping[str, Any]) -> Platt:
    events.require_outcomes(MIN_EVENTS)
    z, hit, weight = logits(events.prediction), events.outcome == 1, events.weight
    target = hit.astype(np.float64)
    if options["smoothing"]:
        positives, negatives = float(weight[hit].sum()), float(weight[~hit].sum())
        target = np.where(hit, (positives + 1.0) / (positives + 2.0), 1.0 / (negatives + 2.0))
    intercept, slope = fit_logistic(
        np.column_stack([np.ones_like(z), z]),
        target,
        weight,
        start=np.array([0.0, 1.0]),
        lower=np.array([-np.inf, 0.0]),
        upper=np.array([np.inf, SLOPE_LIMIT]),
    )
    return Platt(float(intercept), float(slope))


METHOD: Final = Method(
    name="platt",
    title="Platt scaling",
    meaning=(
        "A straight line in logits, found by log loss: for a model that is too sure, or not sure enough, and whose "
        "prior has moved. The order of predictions stays: the slope is never below 0."
    ),
    rank=20,
    fit=_fit,
    load=Platt.from_parts,
    options={
        "smoothing": MethodOption(
            "flag",
            False,
            "Fit to Platt's targets (positives + 1) / (positives + 2) and 1 / (negatives + 2) in place of 1 and 0: "
            "for few events, or predictions that separate the outcomes.",
        )
    },
)
"""Source: Platt, "Probabilistic outputs for support vector machines and comparisons to regularized likelihood methods",
1999. It departs from the paper in that it is a line in logits, not in a margin, which a service does not know."""
