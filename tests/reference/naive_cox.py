"""The Cox fit event by event: the likelihood as it is written down, and an optimiser that knows nothing of it."""

from math import exp, log, sqrt

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize

Floats = NDArray[np.float64]


def minus_log_likelihood(p: Floats, y: Floats, w: Floats, intercept: float, slope: float) -> float:
    total = 0.0
    for prediction, outcome, weight in zip(p, y, w, strict=True):
        eta = intercept + slope * log(prediction / (1.0 - prediction))
        # log(1 + exp(x)) of whichever sign does not overflow.
        miss = -eta if outcome == 1.0 else eta
        total += weight * (max(miss, 0.0) + log(1.0 + exp(-abs(miss))))
    return total


def fit_by_optimiser(p: Floats, y: Floats, w: Floats | None = None) -> tuple[float, float, float]:
    """Offset with slope 1; intercept and slope together."""
    w = np.ones(p.size) if w is None else w
    offset = minimize(lambda b: minus_log_likelihood(p, y, w, b[0], 1.0), [0.0], method="Nelder-Mead", tol=1e-10).x[0]
    both = minimize(lambda x: minus_log_likelihood(p, y, w, x[0], x[1]), [0.0, 1.0], method="Nelder-Mead", tol=1e-10).x
    return float(offset), float(both[0]), float(both[1])


def errors_by_differences(
    p: Floats, y: Floats, intercept: float, slope: float, step: float = 1e-3
) -> tuple[float, float]:
    """Standard errors of intercept and slope, from the likelihood's second differences."""
    w = np.ones(p.size)

    def at(i: int, j: int) -> float:
        return minus_log_likelihood(p, y, w, intercept + i * step, slope + j * step)

    info = np.empty((2, 2))
    info[0, 0] = at(1, 0) - 2 * at(0, 0) + at(-1, 0)
    info[1, 1] = at(0, 1) - 2 * at(0, 0) + at(0, -1)
    info[0, 1] = info[1, 0] = (at(1, 1) - at(1, -1) - at(-1, 1) + at(-1, -1)) / 4.0
    covariance = np.linalg.inv(info / step**2)
    return sqrt(covariance[0, 0]), sqrt(covariance[1, 1])
