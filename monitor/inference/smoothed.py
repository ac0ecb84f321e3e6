"""How often the events of each row come true, smoothed over the predictions: a calibration curve to draw from."""

from typing import Final

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit, logit

from monitor.scores import ScoreTable

_KNOTS: Final = (0.05, 0.35, 0.65, 0.95)
"""Quantiles of the predictions at which the pieces of the curve meet, as usual for four knots (Harrell, "Regression
Modeling Strategies", 2015, table 2.3)."""

FARTHEST: Final = 17.0
"""Logits beyond are brought there: where the shared grid ends, too."""

_PRIOR: Final = 0.1
"""Precision of each coefficient about that of the calibrated model, in units of one standardised coefficient: it keeps
the curve finite where all outcomes are alike, and weighs nothing beside some events."""

_STEPS: Final = 50
_TOLERANCE: Final = 1e-8


def smoothed_rates(table: ScoreTable) -> NDArray[np.float64]:
    """Rates of positives by a logistic regression on a natural cubic spline of logit p.

    It holds Cox's recalibration (an offset and a slope) and two more degrees of freedom for what is neither.

    Parameters
    ----------
    table
        m rows, m >= 1.

    Returns
    -------
    float64, shape (m,)
        Each in (0, 1), but for predictions of exactly 0 and 1, which stay what they are where no outcome contradicts.
    """
    positives, counts = table.positives, table.counts
    certain = ((table.score == 0.0) & (positives == 0.0)) | ((table.score == 1.0) & (table.negatives == 0.0))
    with np.errstate(divide="ignore"):
        z = np.clip(logit(table.score), -FARTHEST, FARTHEST)
    basis, calibrated = _spline(z, counts)
    # Information is in events that count alike; of weights there are fewer than their sum says, or more.
    squares = table.positive_squares + table.negative_squares
    alike = counts.sum() / squares.sum()
    coefficients = _fit(basis, calibrated, positives * alike, counts * alike)
    return np.where(certain, table.score, expit(basis @ coefficients))


def _spline(z: NDArray[np.float64], counts: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Columns of a natural cubic spline of z, standardised; and the coefficients of the line z itself."""
    share = counts / counts.sum()
    centre = float(share @ z)
    spread = float(np.sqrt(share @ (z - centre) ** 2)) or 1.0
    line = (z - centre) / spread
    knots = np.unique(np.interp(_KNOTS, np.cumsum(share), line))
    columns = [np.ones_like(line), line]
    if knots.size > 2:
        # Natural: each column is linear beyond the outer knots (Hastie, Tibshirani, Friedman, 2009, equation 5.4).
        pieces = [
            (np.maximum(line - knot, 0.0) ** 3 - np.maximum(line - knots[-1], 0.0) ** 3) / (knots[-1] - knot)
            for knot in knots[:-1]
        ]
        for piece in pieces[:-1]:
            bend = piece - pieces[-1]
            # What the line explains is taken out, so that the prior is on the bend alone.
            bend -= float(share @ bend) + float(share @ (bend * line)) * line
            size = float(np.sqrt(share @ bend**2))
            if size > _TOLERANCE:
                columns.append(bend / size)
    calibrated = np.zeros(len(columns))
    calibrated[:2] = centre, spread
    return np.stack(columns, axis=1), calibrated


def _fit(
    basis: NDArray[np.float64],
    prior_mean: NDArray[np.float64],
    positives: NDArray[np.float64],
    counts: NDArray[np.float64],
) -> NDArray[np.float64]:
    """Logistic regression with a Gaussian prior, by Newton's method with halved steps; basis (m, k) -> (k,)."""

    def loss(coefficients: NDArray[np.float64]) -> float:
        eta = basis @ coefficients
        away = coefficients - prior_mean
        return float((counts * np.logaddexp(0.0, eta) - positives * eta).sum() + 0.5 * _PRIOR * away @ away)

    coefficients = prior_mean.copy()
    reached = loss(coefficients)
    for _ in range(_STEPS):
        rate = expit(basis @ coefficients)
        slope = basis.T @ (positives - counts * rate) - _PRIOR * (coefficients - prior_mean)
        information = basis.T @ ((counts * rate * (1.0 - rate))[:, None] * basis) + _PRIOR * np.eye(prior_mean.size)
        step = np.linalg.solve(information, slope)
        following = loss(coefficients + step)
        while following > reached + _TOLERANCE * abs(reached) and np.abs(step).max() > _TOLERANCE:
            step = step / 2.0
            following = loss(coefficients + step)
        coefficients = coefficients + step
        reached = following
        if np.abs(step).max() <= _TOLERANCE:
            break
    return coefficients
