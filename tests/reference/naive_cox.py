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


def errors_by_loops(p: Floats, y: Floats, w: Floats, intercept: float, slope: float) -> tuple[float, float]:
    """Robust standard errors of intercept and slope: A^-1 B A^-1, B the sum of the outer products of the scores."""
    bread, filling = np.zeros((2, 2)), np.zeros((2, 2))
    for prediction, outcome, weight in zip(p, y, w, strict=True):
        x = np.array([1.0, log(prediction / (1.0 - prediction))])
        q = 1.0 / (1.0 + exp(-intercept - slope * x[1]))
        bread += weight * q * (1.0 - q) * np.outer(x, x)
        filling += (weight * (outcome - q)) ** 2 * np.outer(x, x)
    covariance = np.linalg.inv(bread) @ filling @ np.linalg.inv(bread)
    return sqrt(covariance[0, 0]), sqrt(covariance[1, 1])


def offset_error_by_loops(p: Floats, y: Floats, w: Floats, offset: float) -> float:
    """Robust standard error of the offset alone."""
    bread = filling = 0.0
    for prediction, outcome, weight in zip(p, y, w, strict=True):
        q = 1.0 / (1.0 + exp(-offset) * (1.0 - prediction) / prediction)
        bread += weight * q * (1.0 - q)
        filling += (weight * (outcome - q)) ** 2
    return sqrt(filling) / bread
