"""Proper scores, their decomposition and Spiegelhalter's z, event by event."""

from math import inf, log, sqrt

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]


def brier_by_loop(p: Floats, y: Floats, w: Floats) -> float:
    return float(sum(weight * (y_ - p_) ** 2 for p_, y_, weight in zip(p, y, w, strict=True)) / w.sum())


def log_loss_by_loop(p: Floats, y: Floats, w: Floats) -> float:
    total = 0.0
    for p_, y_, weight in zip(p, y, w, strict=True):
        said = p_ if y_ == 1.0 else 1.0 - p_
        total += weight * (-log(said) if said > 0.0 else inf)
    return total / float(w.sum())


def spiegelhalter_by_loop(p: Floats, y: Floats, w: Floats) -> float:
    above = sum(weight * (y_ - p_) * (1.0 - 2.0 * p_) for p_, y_, weight in zip(p, y, w, strict=True))
    below = sum(weight**2 * (1.0 - 2.0 * p_) ** 2 * p_ * (1.0 - p_) for p_, weight in zip(p, w, strict=True))
    return float(above / sqrt(below))


def isotonic_by_min_max(p: Floats, y: Floats, w: Floats) -> Floats:
    """Isotonic regression by its min-max formula, ties together: the largest over starts of the smallest over ends."""
    score = np.unique(p)
    fitted = np.empty(p.size)
    for place, at in enumerate(score):
        largest = -inf
        for first in score[: place + 1]:
            smallest = inf
            for last in score[place:]:
                inside = (p >= first) & (p <= last)
                smallest = min(smallest, float((w * y)[inside].sum() / w[inside].sum()))
            largest = max(largest, smallest)
        fitted[p == at] = largest
    return fitted
