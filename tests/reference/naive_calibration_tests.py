"""Tests of calibration with whole matrices and with draws, event by event."""

from collections.abc import Sequence
from math import atan, pi, tan

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import brentq
from scipy.stats import gamma

Floats = NDArray[np.float64]


def kernel_matrix(p: Floats) -> Floats:
    z = np.log(p / (1.0 - p))
    return np.asarray(np.exp(-np.abs(z[:, None] - z[None, :])))


def kernel_p_value_by_matrices(p: Floats, y: Floats) -> float:
    """Mean and variance of the quadratic form of independent residuals, a Bernoulli law's fourth moment with them."""
    kernel, r, v = kernel_matrix(p), y - p, p * (1.0 - p)
    mean = float(np.trace(kernel @ np.diag(v)))
    variance = 0.0
    for i in range(p.size):
        variance += v[i] * ((1.0 - p[i]) ** 3 + p[i] ** 3) - v[i] ** 2
        variance += sum(2.0 * v[i] * v[j] * kernel[i, j] ** 2 for j in range(p.size) if j != i)
    return float(gamma.sf(float(r @ kernel @ r), mean**2 / variance, scale=variance / mean))


def projected_p_value_by_matrices(p: Floats, q: Floats, y: Floats, w: Floats) -> float:
    """``q`` are the predictions p after their best offset."""
    kernel, r = kernel_matrix(p), w * (y - q)
    information = w * q * (1.0 - q)
    project = np.eye(p.size) - np.outer(information / information.sum(), np.ones(p.size))
    both = kernel @ project @ np.diag(w**2 * q * (1.0 - q)) @ project.T
    mean, variance = float(np.trace(both)), 2.0 * float(np.trace(both @ both))
    return float(gamma.sf(float(r @ kernel @ r), mean**2 / variance, scale=variance / mean))


def projected_p_value_by_refits(p: Floats, y: Floats, draws: int, seed: int) -> float:
    """Draw the outcomes anew, and fit each draw an offset of its own."""
    rng, kernel = np.random.default_rng(seed), kernel_matrix(p)

    def after_offset(outcome: Floats) -> tuple[float, Floats]:
        def moved(b: float) -> Floats:
            return np.asarray(p * np.exp(b) / (1.0 - p + p * np.exp(b)))

        q = moved(brentq(lambda b: moved(b).sum() - outcome.sum(), -20.0, 20.0))
        r = outcome - q
        return float(r @ kernel @ r), q

    value, q = after_offset(y)
    null = [after_offset((rng.random(p.size) < q).astype(np.float64))[0] for _ in range(draws)]
    return (1 + sum(each >= value for each in null)) / (1 + draws)


def cauchy_by_formula(p_values: Sequence[float]) -> float:
    return 0.5 - atan(sum(tan((0.5 - p) * pi) for p in p_values) / len(p_values)) / pi
