"""Local calibration by obvious loops straight from its paper."""

from math import exp

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]


def bin_of(p: float, bins: int) -> int:
    return max(b for b in range(bins) if b / bins <= p)


def laplace(a: Floats, b: Floats, gamma: float) -> float:
    return exp(-sum(abs(x - z) for x, z in zip(a.tolist(), b.tolist(), strict=True)) / (len(a) * gamma))


Data = tuple[Floats, Floats, Floats]
"""Predictions (n,), outcomes (n,) and coordinates (n, d)."""


def local_error(x: int, data: Data, gamma: float, bins: int) -> tuple[float, float]:
    """Equation 4 without its absolute value, and the n_eff of the neighbourhood."""
    p, y, phi = data
    same_bin = [i for i in range(p.size) if bin_of(p[i], bins) == bin_of(p[x], bins)]
    k = [laplace(phi[x], phi[i], gamma) for i in same_bin]
    error = sum((p[i] - y[i]) * w for i, w in zip(same_bin, k, strict=True)) / sum(k)
    return float(error), sum(k) ** 2 / sum(w**2 for w in k)


def bin_gaps(p: Floats, y: Floats, bins: int) -> Floats:
    """|conf - acc| of each event's bin (equation 3)."""
    place = np.array([bin_of(v, bins) for v in p])
    return np.array([abs((p[place == b] - y[place == b]).mean()) for b in place])
