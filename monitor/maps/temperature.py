"""Temperature scaling: one factor for all logits."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Annotated, ClassVar, Final

import numpy as np

from monitor.arrays import Floats
from monitor.inference.logistic import fit_logistic
from monitor.inference.newton import Curved, minimise
from monitor.maps.base import Method, OptionValue, PredictionMap
from monitor.maps.labelled import LabelledEvents
from monitor.maps.parts import number, whole
from monitor.maps.scales import SLOPE_LIMIT, log_probabilities, logits, probabilities, softmax

MIN_EVENTS: Final = 10


@dataclass(frozen=True)
class Temperature(PredictionMap):
    """Logits divided by a temperature.

    Attributes
    ----------
    temperature
        T, from .01 to 100. Above 1 predictions become less sure, below 1 surer.
    classes
        K.
    """

    temperature: Annotated[float, partial(number, low=1.0 / SLOPE_LIMIT, high=SLOPE_LIMIT)]
    classes: Annotated[int, partial(whole, least=2)] = 2
    method: ClassVar[str] = "temperature"

    def recalibrate(self, prediction: Floats) -> Floats:
        """Return sigmoid(logit p / T), or softmax(log p / T) for many classes, with logits limited to [-17, 17]."""
        return scale_logits(prediction, 1.0 / self.temperature)

    def describe(self) -> str:
        """Describe the map."""
        if self.temperature >= SLOPE_LIMIT:
            effect = "the limit: predictions say nothing of the outcomes, or the opposite"
        elif self.temperature <= 1.0 / SLOPE_LIMIT:
            effect = "the limit: predictions part the outcomes, and a smaller one would fit better still"
        elif round(self.temperature, 3) == 1.0:
            effect = "predictions hardly change"
        else:
            effect = "predictions become less sure" if self.temperature > 1.0 else "predictions become surer"
        return f"divides logits by {self.temperature:.4g}; {effect}"


def scale_logits(prediction: Floats, slope: float) -> Floats:
    """Multiply the logits of predictions (n,) or (n, K) by a slope, 1 / T."""
    if prediction.ndim == 1:
        return probabilities(slope * logits(prediction))
    return softmax(slope * log_probabilities(prediction))


def fit_slope(events: LabelledEvents) -> float:
    """Fit the factor of the logits, 1 / T, by log loss; from .01 to 100."""
    bounds = np.array([1.0 / SLOPE_LIMIT]), np.array([SLOPE_LIMIT])
    start = np.ones(1)
    if events.is_binary:
        z = logits(events.prediction)[:, None]
        target = events.outcome.astype(np.float64)
        return float(fit_logistic(z, target, events.weight, start=start, lower=bounds[0], upper=bounds[1])[0])
    z = np.ascontiguousarray(log_probabilities(events.prediction).T)  # (K, n): sums over few columns are slow
    hit = z[events.outcome, np.arange(len(events))]
    if (hit >= z.max(axis=0)).all():
        return SLOPE_LIMIT  # every outcome was the most probable: log loss has no minimum
    share = events.weight / events.weight.sum()

    def objective(slope: Floats) -> Curved:
        eta = slope[0] * z
        highest = eta.max(axis=0)
        odds = np.exp(eta - highest)
        total = odds.sum(axis=0)
        mean = (odds * z).sum(axis=0) / total
        varying = (odds * z**2).sum(axis=0) / total - mean**2
        # Sums instead of dot products, whose threads wait for each other on a busy machine.
        return Curved(
            value=float((share * (highest + np.log(total) - slope[0] * hit)).sum()),
            gradient=np.array([(share * (mean - hit)).sum()]),
            hessian=np.array([[(share * np.maximum(varying, 0.0)).sum()]]),
        )

    return float(minimise(objective, start, *bounds)[0])


def _fit(events: LabelledEvents, options: Mapping[str, OptionValue]) -> Temperature:  # noqa: ARG001
    events.require_outcomes(MIN_EVENTS)
    return Temperature(1.0 / fit_slope(events), events.classes)


METHOD: Final = Method(
    name="temperature",
    title="Temperature scaling",
    meaning=(
        "Divides all logits by one number, found by log loss: for models that are too sure, or not sure enough, of "
        "everything alike. The order of predictions stays, and so does the most probable class."
    ),
    rank=10,
    fit=_fit,
    load=Temperature.from_parts,
    many_classes=True,
)
"""Source: Guo, Pleiss, Sun, Weinberger, "On Calibration of Modern Neural Networks", 2017, section 4.2."""
