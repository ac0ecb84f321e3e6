"""Platt scaling: a straight line in logits."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar, Final

import numpy as np
from numpy.typing import NDArray

from monitor.inference.logistic import fit_logistic
from monitor.maps import reading
from monitor.maps.base import MapParts, Method, Option, OptionValue
from monitor.maps.enough import require_outcomes
from monitor.maps.labelled import LabelledEvents
from monitor.maps.scales import SLOPE_LIMIT, added, in_words, logits, on_positive, probabilities

Floats = NDArray[np.float64]

LEAST_EVENTS: Final = 10
_FARTHEST: Final = 1e6
"""More than any intercept: the slope's limit times the largest logit, and what prevalence can add, is below 2,000."""


@dataclass(frozen=True)
class Platt:
    """A straight line in logits.

    Attributes
    ----------
    intercept
        a, in logits.
    slope
        b, from 0 to 100.
    """

    intercept: float
    slope: float
    method: ClassVar[str] = "platt"
    classes: ClassVar[int] = 2
    feature_count: ClassVar[int | None] = None
    segment_key: ClassVar[str | None] = None

    def apply(
        self,
        prediction: Floats,
        features: Floats | None = None,  # noqa: ARG002
        group: NDArray[np.str_] | None = None,  # noqa: ARG002
    ) -> Floats:
        """Sigmoid of a + b logit p. Logits count as -+17 beyond."""
        return on_positive(prediction, lambda p: probabilities(self.intercept + self.slope * logits(p)))

    def parts(self) -> MapParts:
        """Intercept and slope."""
        return MapParts({"intercept": self.intercept, "slope": self.slope})

    @classmethod
    def from_parts(cls, parts: MapParts) -> "Platt":
        """The map of these parts. Raises CorruptMap."""
        return cls(
            reading.number(parts, "intercept", -_FARTHEST, _FARTHEST), reading.number(parts, "slope", 0.0, SLOPE_LIMIT)
        )

    def describe(self) -> str:
        """What it does."""
        said = f"takes logit p to {in_words(self.slope)} logit p {added(self.intercept)}"
        if self.slope == 0.0:
            return f"{said}: predictions say nothing of the outcomes, or the opposite, so all become equal"
        if self.slope == SLOPE_LIMIT:
            return f"{said}: the slope is at its limit, for predictions part the outcomes"
        return said


def _fit(events: LabelledEvents, options: Mapping[str, OptionValue]) -> Platt:
    require_outcomes(events, LEAST_EVENTS)
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
        "smoothing": Option(
            "flag",
            False,
            "Fit to Platt's targets (positives + 1) / (positives + 2) and 1 / (negatives + 2) in place of 1 and 0: "
            "for few events, or predictions that part the outcomes.",
        )
    },
)
"""Source: Platt, "Probabilistic outputs for support vector machines and comparisons to regularized likelihood methods",
1999. It departs from the paper in that it is a line in logits, not in a margin, which a service does not know."""
