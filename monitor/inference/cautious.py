"""Rates that a calibration curve says for certain: what to draw from where an error must not be taken for granted."""

from typing import Final

import numpy as np
import scipy
from numpy.typing import NDArray
from scipy.special import expit, gammaincinv, logit, xlogy

from monitor.inference.smoothed import FARTHEST, smoothed_rates
from monitor.scores import ScoreTable

_FREEDOM: Final = 4
"""Coefficients of the curve at most."""

_CHANCE: Final = float(2.0 * gammaincinv(_FREEDOM / 2.0, 0.95))
"""The likelihood ratio that the curve of a calibrated model stays below in 95% of samples."""

_STRETCHES: Final = 8
"""The curve is believed stretch by stretch: where the model is off in one of them, the curve is off beside it, too."""

_CHANCE_IN_STRETCH: Final = _CHANCE / _STRETCHES
"""A stretch's even share of that."""

_CHECKED_STRETCHES: Final = 16
_REFUTED: Final = 0.1
"""p-value up to which the curve is not what the outcomes follow. Where it is refuted wrongly, rates are but calibrated
ones, so many a curve may be."""

Floats = NDArray[np.float64]


def cautious_rates(table: ScoreTable) -> Floats:
    r"""Rates between the predictions and the smoothed calibration curve: as far from the former as is beyond chance.

    With :math:`\Lambda` the likelihood ratio of the curve and c the 95% point of its law under calibration, logits go
    the part :math:`\sqrt{1 - c / \Lambda}` of the way from the predictions to the curve, 0 where that is no number.
    Then likewise in each stretch that holds an eighth of the information, by the ratio that is to be expected there.
    Where the outcomes of sixteen stretches refute the curve, the rates are the predictions themselves.

    What is drawn at the curve itself has too large an error: that of the data with the noise of the fit on top. And
    an error of a narrow range is spread by the curve, as if there were none where the model is right.

    Parameters
    ----------
    table
        m rows, m >= 1.

    Returns
    -------
    float64, shape (m,)
        Each in [0, 1].

    Notes
    -----
    The part is that of a positive-part shrinkage (James, Stein, "Estimation with Quadratic Loss", 1961), with c in
    place of the number of coefficients.
    """
    curve = smoothed_rates(table)
    # Events that count alike, as many as vary as these do.
    alike = table.counts.sum() / float((table.positive_squares + table.negative_squares).sum())
    positives, counts = table.positives * alike, table.counts * alike
    if _refuted(curve, positives, counts):
        return table.score.copy()
    model = expit(np.clip(_logit(table.score), -FARTHEST, FARTHEST))
    certain = (curve == 0.0) | (curve == 1.0)
    found, expected = (
        np.where(certain, 0.0, xlogy(hits, curve / model) + xlogy(counts - hits, (1.0 - curve) / (1.0 - model)))
        for hits in (positives, counts * curve)
    )
    stretch = _stretches(counts * curve * (1.0 - curve), _STRETCHES)
    part = _part(2.0 * np.asarray(np.bincount(stretch, expected), np.float64), _CHANCE_IN_STRETCH)[stretch]
    part *= _part(np.full(1, 2.0 * float(found.sum())), _CHANCE)
    rates = expit((1.0 - part) * _logit(model) + part * _logit(np.where(certain, model, curve)))
    return np.where(certain, curve, np.where(part == 0.0, table.score, rates))


def _part(ratio: Floats, chance: float) -> Floats:
    """How much of a curve is beyond chance, by its likelihood ratio."""
    least = np.maximum(ratio, chance)
    return np.asarray(np.sqrt(1.0 - chance / least), np.float64)


def _logit(rate: Floats) -> Floats:
    with np.errstate(divide="ignore"):
        return np.asarray(logit(rate), np.float64)


def _stretches(information: Floats, number: int) -> NDArray[np.int64]:
    """Which of so many stretches of equal information each row is in, (m,)."""
    total = float(information.sum())
    if total <= 0.0:
        return np.zeros(information.size, np.int64)
    middle = (np.cumsum(information) - information / 2.0) / total
    return np.minimum((number * middle).astype(np.int64), number - 1)


def _refuted(curve: Floats, positives: Floats, counts: Floats) -> bool:
    """Whether Pearson's test finds that the outcomes do not follow the curve."""
    information = counts * curve * (1.0 - curve)
    stretch = _stretches(information, _CHECKED_STRETCHES)
    missed = np.bincount(stretch, positives - counts * curve)
    variance = np.bincount(stretch, information)
    held = variance > 0.0
    freedom = int(held.sum()) - _FREEDOM
    if freedom < 1:
        return False
    return float(scipy.stats.chi2.sf((missed[held] ** 2 / variance[held]).sum(), freedom)) <= _REFUTED
