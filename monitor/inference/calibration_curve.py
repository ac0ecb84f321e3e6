"""Rates of positives at each prediction, estimated by a smooth calibration curve: what resampling draws from."""

from typing import Final

import numpy as np
from scipy.special import chdtrc, expit, gammaincinv, logit, xlogy

from monitor.arrays import Floats, Ints
from monitor.inference.cox import logits
from monitor.inference.newton import Curved, log_sigmoid, minimise
from monitor.scores import ScoreTable

_KNOTS: Final = (0.05, 0.35, 0.65, 0.95)
"""Quantiles of the predictions at which the pieces of the curve meet, as usual for four knots (Harrell, "Regression
Modeling Strategies", 2015, table 2.3)."""

"""Logits are cut off here, at the end of the shared grid."""

_PRIOR: Final = 0.1
"""Precision of each coefficient about that of the calibrated model, in units of one standardised coefficient. It keeps
the curve finite if all outcomes are equal, and has no weight beside a few events."""

_NEGLIGIBLE: Final = 1e-8
"""Size of a bend that is rounding."""

_FREEDOM: Final = 4
"""Largest number of the curve's coefficients."""

_CRITICAL_RATIO: Final = float(2.0 * gammaincinv(_FREEDOM / 2.0, 0.95))
"""95% point of the curve's likelihood ratio if the model is calibrated."""

_STRETCHES: Final = 8
"""Stretches of the predictions in which the curve is shrunk by its own evidence: an error in one of them bends the
curve beside it, too."""

_TEST_STRETCHES: Final = 16
_REFUTED: Final = 0.1
"""p-value at or below which the outcomes do not follow the curve. A wrong rejection costs little: the rates are then
the predictions."""


def smoothed_rates(table: ScoreTable) -> Floats:
    """Rates of positives by a logistic regression on a natural cubic spline of logit p.

    It contains Cox's recalibration (an offset and a slope) and has two more degrees of freedom.

    Parameters
    ----------
    table
        m rows, m >= 1.

    Returns
    -------
    float64, shape (m,)
        Each in (0, 1). Predictions of exactly 0 and 1 that no outcome contradicts stay what they are.
    """
    positives, counts = table.positives, table.counts
    certain = ((table.score == 0.0) & (positives == 0.0)) | ((table.score == 1.0) & (table.negatives == 0.0))
    basis, calibrated = _spline(logits(table.score), counts)
    # Information counts equal events; the sum of weights is not their number.
    per_weight = table.events_per_weight
    coefficients = _fit(basis, calibrated, positives * per_weight, counts * per_weight)
    return np.where(certain, table.score, expit(basis @ coefficients))


def shrunken_rates(table: ScoreTable, curve: Floats | None = None) -> Floats:
    r"""Rates between the predictions and the calibration curve, as far towards the curve as it is significant.

    With :math:`\Lambda` the likelihood ratio of the curve and c its 95% point under calibration, logits go the part
    :math:`\sqrt{1 - c / \Lambda}` of the way from the predictions to the curve, 0 if that is no number. Then likewise
    in each stretch that holds an eighth of the information, by the ratio expected there. If the outcomes of sixteen
    stretches refute the curve, the rates are the predictions themselves.

    Outcomes drawn at the curve itself have too large an error: that of the data, and the noise of the fit on top. And
    the curve spreads an error of a narrow range, as if the model were wrong beside it.

    Parameters
    ----------
    table
        m rows, m >= 1.
    curve
        Its :func:`smoothed_rates`, (m,), if already computed.

    Returns
    -------
    float64, shape (m,)
        Each in [0, 1].

    Notes
    -----
    The part is that of a positive-part shrinkage (James, Stein, "Estimation with Quadratic Loss", 1961), with c in
    place of the number of coefficients.
    """
    if curve is None:
        curve = smoothed_rates(table)
    # As many equal events as have the same variance.
    per_weight = table.events_per_weight
    positives, counts = table.positives * per_weight, table.counts * per_weight
    if _refuted(curve, positives, counts):
        return table.score.copy()
    model = expit(logits(table.score))
    certain = (curve == 0.0) | (curve == 1.0)
    observed, expected = (
        np.where(certain, 0.0, xlogy(hits, curve / model) + xlogy(counts - hits, (1.0 - curve) / (1.0 - model)))
        for hits in (positives, counts * curve)
    )
    stretch = _stretches(counts * curve * (1.0 - curve), _STRETCHES)
    part = _significant_part(
        2.0 * np.asarray(np.bincount(stretch, expected), np.float64), _CRITICAL_RATIO / _STRETCHES
    )[stretch]
    part *= _significant_part(np.full(1, 2.0 * float(observed.sum())), _CRITICAL_RATIO)
    rates = expit((1.0 - part) * logit(model) + part * logit(np.where(certain, model, curve)))
    return np.where(certain, curve, np.where(part == 0.0, table.score, rates))


def _spline(z: Floats, counts: Floats) -> tuple[Floats, Floats]:
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
            # Orthogonal to the line, so that the prior is on the bend alone.
            bend -= float(share @ bend) + float(share @ (bend * line)) * line
            size = float(np.sqrt(share @ bend**2))
            if size > _NEGLIGIBLE:
                columns.append(bend / size)
    calibrated = np.zeros(len(columns))
    calibrated[:2] = centre, spread
    return np.stack(columns, axis=1), calibrated


def _fit(basis: Floats, prior_mean: Floats, positives: Floats, counts: Floats) -> Floats:
    """Logistic regression with a Gaussian prior; basis (m, k) -> (k,)."""

    def loss(coefficients: Floats) -> Curved:
        eta, away = basis @ coefficients, coefficients - prior_mean
        rate = expit(eta)
        return Curved(
            value=float(-(counts @ log_sigmoid(-eta)) - positives @ eta + 0.5 * _PRIOR * away @ away),
            gradient=basis.T @ (counts * rate - positives) + _PRIOR * away,
            hessian=(basis.T * (counts * rate * (1.0 - rate))) @ basis + _PRIOR * np.eye(prior_mean.size),
        )

    free = np.full(prior_mean.size, np.inf)
    return minimise(loss, prior_mean, -free, free)


def _significant_part(ratio: Floats, critical: float) -> Floats:
    """The part of the way to a curve that its likelihood ratio justifies."""
    return np.asarray(np.sqrt(1.0 - critical / np.maximum(ratio, critical)), np.float64)


def _stretches(information: Floats, number: int) -> Ints:
    """Assign rows to this many stretches of equal information, (m,)."""
    total = float(information.sum())
    if total <= 0.0:
        return np.zeros(information.size, np.int64)
    middle = (np.cumsum(information) - information / 2.0) / total
    return np.minimum((number * middle).astype(np.int64), number - 1)


def _refuted(curve: Floats, positives: Floats, counts: Floats) -> bool:
    """Whether Pearson's test rejects that the outcomes follow the curve."""
    information = counts * curve * (1.0 - curve)
    stretch = _stretches(information, _TEST_STRETCHES)
    missed = np.bincount(stretch, positives - counts * curve)
    variance = np.bincount(stretch, information)
    held = variance > 0.0
    freedom = int(held.sum()) - _FREEDOM
    if freedom < 1:
        return False
    return float(chdtrc(freedom, (missed[held] ** 2 / variance[held]).sum())) <= _REFUTED
