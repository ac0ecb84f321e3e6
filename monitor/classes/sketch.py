"""The kernel calibration error of many classes, of the events in a sketch."""

import math
from dataclasses import dataclass

from monitor.classes.base import gamma_q95
from monitor.errors import NotEnoughData
from monitor.inference.calibration_tests import gamma_tail
from monitor.scores.sketch import SkceSketch


@dataclass(frozen=True, slots=True)
class SketchNull:
    """The distribution of a sketch's value for a calibrated model with the same predictions; its mean is 0.

    Attributes
    ----------
    deviation
        Standard deviation.
    q95
        95% point.
    p_value
        Probability that a calibrated model does as badly.
    """

    deviation: float
    q95: float
    p_value: float


def sketched_skce(sketch: SkceSketch) -> float:
    """The unbiased estimate U of the squared error; around 0, and as often below as above, if calibrated.

    It is the *exact* unbiased SKCE under the kernel k^ of the sketch. So with any number of frequencies it is 0 on
    average for a calibrated model, and its null distribution is that of k^: see :func:`sketched_null`.

    Raises
    ------
    NotEnoughData
        Fewer than two events.
    """
    n = _require_events(sketch, 2)
    return (sketch.squared_norm - sketch.squared) / (n * (n - 1.0))


def biased_skce(sketch: SkceSketch) -> float:
    """The biased estimate V >= 0 of the squared error, the sum over all i, j divided by n^2."""
    n = _require_events(sketch, 1)
    return sketch.squared_norm / n**2


def sketched_null(sketch: SkceSketch) -> SketchNull:
    r"""Compute the distribution of the value for a calibrated model from the sketch alone.

    .. math:: \mathrm{Var}_0(U) = \frac{2}{(n (n - 1))^2} \sum_{i \ne j} k(p_i, p_j)^2 \, \mathrm{tr}(S_i S_j)

    The square of an exponential kernel is one of half the lengthscale, so it has Fourier features too: the sketch
    has sums for 32 frequencies, each with a vector b of its own, E[b b'] S = S, for the trace. The standard
    deviation is right within some 5%; of a hundred classes or of few events it is up to 20% too large. A Gamma
    law with the mean sum tr S and this variance, less that mean, is the law of n (n - 1) U.

    Raises
    ------
    NotEnoughData
        Fewer than two events.
    """
    n = _require_events(sketch, 2)
    pairs = n * (n - 1.0)
    mean, variance = sketch.expected, sketch.null_variance
    return SketchNull(
        deviation=math.sqrt(variance) / pairs,
        q95=(gamma_q95(mean, variance) - mean) / pairs,
        p_value=gamma_tail(sketched_skce(sketch) * pairs + mean, mean, variance),
    )


def sketched_interval(sketch: SkceSketch) -> tuple[float, float]:
    r"""A 95% confidence interval of the squared error.

    The root of the biased estimate is a norm of the residuals, so the error's root is no farther from it than the
    norm of the deviation, whose square has the mean sum \|r\|^2 / n^2 in a Poisson bootstrap of the events; its law
    is taken to be a Gamma law of the relative variance of :func:`sketched_null`.

    Raises
    ------
    NotEnoughData
        Fewer than two events.
    """
    n = _require_events(sketch, 2)
    squared, expected = sketch.squared, sketch.expected
    variance = sketch.null_variance * (squared / expected) ** 2 if expected > 0.0 else 0.0
    root, radius = math.sqrt(biased_skce(sketch)), math.sqrt(gamma_q95(squared, variance)) / n
    return max(0.0, root - radius) ** 2, (root + radius) ** 2


def _require_events(sketch: SkceSketch, least: int) -> float:
    if sketch.events < least:
        raise NotEnoughData(f"SKCE needs at least {least} event{'s'[: least > 1]}, got {sketch.events}")
    return float(sketch.events)
