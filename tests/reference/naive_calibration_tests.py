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
    """The Pearson III law of the first three cumulants of the quadratic form of independent residuals."""
    kernel, r = kernel_matrix(p), y - p
    mean = float(np.trace(kernel @ np.diag(p * (1.0 - p))))
    variance, third = variance_by_loops(p, kernel), third_cumulant_by_loops(p, kernel)
    skewness = third / variance**1.5
    # A Gamma law of shape 4 / skewness^2, scaled and moved so that the mean and the variance are right.
    shape = 4.0 / skewness**2
    return float(
        gamma.sf(float(r @ kernel @ r), shape, loc=mean - 2.0 * variance**0.5 / skewness, scale=third / variance / 2.0)
    )


def moments_of_residual(p: float) -> dict[int, float]:
    """E[(y - p)^k] for k up to 6, y = 1 with probability p."""
    return {k: p * (1.0 - p) ** k + (1.0 - p) * (-p) ** k for k in range(7)}


def variance_by_loops(p: Sequence[float] | Floats, kernel: Floats) -> float:
    """Of sum_ij k_ij r_i r_j."""
    moments = [moments_of_residual(each) for each in p]
    total = 0.0
    for i, a in enumerate(moments):
        total += a[4] - a[2] ** 2
        total += sum(2.0 * kernel[i, j] ** 2 * a[2] * b[2] for j, b in enumerate(moments) if j != i)
    return total


def third_cumulant_by_loops(p: Sequence[float] | Floats, kernel: Floats) -> float:
    """Of sum_ij k_ij r_i r_j: the mean of its cube, over all six indices, about its mean.

    Every index that stands alone among the six makes a term 0, so the six share at most three.
    """
    moments = [moments_of_residual(each) for each in p]
    total = 0.0
    for i, a in enumerate(moments):
        # d_i = r_i^2 - v_i, cubed.
        total += a[6] - 3.0 * a[4] * a[2] + 2.0 * a[2] ** 3
        for j, b in enumerate(moments):
            if j == i:
                continue
            k = kernel[i, j]
            # Two of the diagonal with one pair, one with two pairs alike, three pairs alike.
            total += 6.0 * k * a[3] * b[3] + 12.0 * k**2 * (a[4] - a[2] ** 2) * b[2] + 4.0 * k**3 * a[3] * b[3]
            for h, c in enumerate(moments):
                if h not in (i, j):
                    total += 8.0 * a[2] * b[2] * c[2] * k * kernel[j, h] * kernel[i, h]
    return total


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
