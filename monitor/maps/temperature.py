"""Temperature scaling: one factor for all logits, found by log loss or by the kernel calibration error."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Annotated, Any, ClassVar, Final

import numpy as np
import scipy
from scipy.special import logsumexp

from monitor.arrays import Floats
from monitor.inference.cox import logits
from monitor.inference.newton import Curved, fit_logistic, log_sigmoid, minimise
from monitor.maps.base import Method, MethodOption, PredictionMap
from monitor.maps.parts import number, whole
from monitor.maps.scales import SLOPE_LIMIT, log_probabilities, probabilities, softmax
from monitor.measures.kernel_error import MMCE_WIDTH
from monitor.measures.laplace_loops import laplace_quadratic_form
from monitor.roots import brentq
from monitor.scores.labelled import LabelledEvents

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
            effect = "the limit: predictions separate the outcomes, and a smaller one would fit better still"
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


def _fit_by_log_loss(events: LabelledEvents, options: Mapping[str, Any]) -> Temperature:  # noqa: ARG001
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
    fit=_fit_by_log_loss,
    load=Temperature.from_parts,
    many_classes=True,
)
"""Source: Guo, Pleiss, Sun, Weinberger, "On Calibration of Modern Neural Networks", 2017, section 4.2."""


_GRID: Final = 41
"""Slopes that are tried before the best one is refined: the error can have several minima."""


@dataclass(frozen=True)
class MmceTemperature(Temperature):
    """Logits divided by the temperature of the least kernel calibration error."""

    method: ClassVar[str] = "mmce_temperature"

    def describe(self) -> str:
        """Describe the map."""
        return f"{super().describe()} (the temperature of the least kernel calibration error)"


def kernel_error(events: LabelledEvents, slope: float, width: float) -> float:
    """Compute the weighted kCE of P(y = 1), or MMCE of many classes, after multiplying logits by the slope."""
    p = scale_logits(events.prediction, slope)
    if events.is_binary:
        residual = events.outcome - p
    else:
        top = np.argmax(p, axis=1)
        p = p[np.arange(len(events)), top]
        residual = (top == events.outcome) - p
    order = np.argsort(p, kind="stable")
    square = float(laplace_quadratic_form(p[order], (events.weight * residual)[order], width))
    return math.sqrt(max(0.0, square)) / float(events.weight.sum())


def _log_loss(events: LabelledEvents, slope: float) -> float:
    if events.is_binary:
        eta = slope * logits(events.prediction)
        loss = -log_sigmoid(np.where(events.outcome == 1, eta, -eta))
    else:
        eta = slope * log_probabilities(events.prediction)
        loss = logsumexp(eta, axis=1) - eta[np.arange(len(events)), events.outcome]
    return float(np.average(loss, weights=events.weight))


def _allowed_slopes(events: LabelledEvents, best: float, keep: float) -> tuple[float, float]:
    """Return the range of slopes that keep this share of the best slope's gain in log loss over a uniform guess."""
    floor = _log_loss(events, best)
    ceiling = math.log(events.classes) - keep * (math.log(events.classes) - floor)

    # Log loss is convex in the slope, so there is one crossing on each side of the best.
    def excess(slope: float) -> float:
        return _log_loss(events, slope) - ceiling

    if excess(best) >= 0.0:
        return best, best  # there is no gain, or all of it must be kept
    low, high = 1.0 / SLOPE_LIMIT, SLOPE_LIMIT
    if excess(low) > 0.0:
        low = brentq(excess, low, best)
    if excess(high) > 0.0:
        high = brentq(excess, best, high)
    return low, high


def _fit_by_mmce(events: LabelledEvents, options: Mapping[str, Any]) -> MmceTemperature:
    events.require_outcomes(MIN_EVENTS)
    width, keep = options["width"], options["keep"]
    best = fit_slope(events)
    # Sorted, because temperatures (nearly) keep the order and sorting sorted values again is cheap.
    order = np.argsort(events.prediction if events.is_binary else events.prediction.max(axis=1), kind="stable")
    events = replace(
        events,
        prediction=events.prediction[order],
        outcome=events.outcome[order],
        weight=events.weight[order],
        features=None,
        segments={},
    )
    least, most = _allowed_slopes(events, best, keep)
    # Includes the slope of least log loss, and 1. Of equal errors, the first slope wins.
    slopes = np.unique(np.r_[best, np.clip(1.0, least, most), np.geomspace(least, most, _GRID)])
    errors = np.array([kernel_error(events, float(slope), width) for slope in slopes])
    place = int(np.argmin(errors))
    slope, error = float(slopes[place]), float(errors[place])
    low, high = slopes[max(0, place - 1)], slopes[min(slopes.size - 1, place + 1)]
    if low < high:
        refined = scipy.optimize.minimize_scalar(
            lambda log_slope: kernel_error(events, math.exp(log_slope), width),
            bounds=(math.log(low), math.log(high)),
            method="bounded",
            options={"xatol": 1e-9},
        )
        if refined.fun < error:
            slope = math.exp(refined.x)
    return MmceTemperature(min(max(1.0 / slope, 1.0 / SLOPE_LIMIT), SLOPE_LIMIT), events.classes)


_BY_MMCE: Final = Method(
    name="mmce_temperature",
    title="Temperature by MMCE",
    meaning=(
        "Divides all logits by the number that makes the kernel calibration error least: of P(y = 1), or of the most "
        "probable class. Where one temperature cannot be right everywhere it spreads the error as this measure sees it."
    ),
    rank=15,
    fit=_fit_by_mmce,
    load=MmceTemperature.from_parts,
    options={
        "width": MethodOption(
            "number", MMCE_WIDTH, "Width of the Laplace kernel, in units of probability.", above=0.0, at_most=100.0
        ),
        "keep": MethodOption(
            "number",
            0.9,
            "Which share of the log loss that the best temperature gains on a flat guess must be kept. At 0 a "
            "temperature without end can win, for it is calibrated where classes are balanced.",
            at_least=0.0,
            at_most=1.0,
        ),
    },
    many_classes=True,
)
"""Source: Kumar, Sarawagi, Jain, "Trainable Calibration Measures For Neural Networks From Kernel Mean Embeddings",
2018. It departs from the paper, which trains a network on log loss plus a multiple of MMCE: which multiple is right
depends on the number of events, a share of the log loss' gain does not."""

METHODS: Final = (_BY_MMCE,)
