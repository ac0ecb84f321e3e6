"""Local recalibration by obvious loops straight from its paper."""

from math import log

import numpy as np
from numpy.typing import NDArray

from tests.reference.naive_local import bin_of, laplace

Floats = NDArray[np.float64]

Data = tuple[Floats, Floats, Floats, Floats]
"""Confidences (n,), hits (n,), coordinates (n, d) and weights (n,)."""


def recalibrated(
    confidence: float, at: Floats, data: Data, *, gamma: float, bins: int, shrinkage: float, without: int = -1
) -> float:
    """Equation 6 with weights, pulled towards the bin; the event ``without`` left out."""
    c, hit, phi, w = data
    same = [i for i in range(c.size) if bin_of(c[i], bins) == bin_of(confidence, bins) and i != without]
    if not same:
        return confidence
    k = [w[i] * laplace(at, phi[i], gamma) for i in same]
    n_eff = sum(k) ** 2 / sum(one**2 for one in k)
    local = sum(one * hit[i] for one, i in zip(k, same, strict=True)) / sum(k)
    whole = sum(w[i] * hit[i] for i in same) / sum(w[i] for i in same)
    return float((n_eff * local + shrinkage * whole) / (n_eff + shrinkage))


def leave_one_out(data: Data, *, gamma: float, bins: int, shrinkage: float) -> float:
    """Weighted mean log loss of each event that has another in its bin, by the map of all others."""
    c, hit, phi, w = data
    total = counted = 0.0
    for i in range(c.size):
        if sum(bin_of(v, bins) == bin_of(c[i], bins) for v in c) < 2:
            continue
        p = recalibrated(c[i], phi[i], data, gamma=gamma, bins=bins, shrinkage=shrinkage, without=i)
        p = min(max(p, 4.14e-8), 1.0 - 4.14e-8)
        total -= w[i] * log(p if hit[i] == 1.0 else 1.0 - p)
        counted += w[i]
    return total / counted


def by_group(confidence: float, group: str, data: Data, groups: list[str], *, bins: int, shrinkage: float) -> float:
    """Equation 6 with the kernel 1[same group], pulled towards the bin."""
    c, hit, _, w = data
    same = [i for i in range(c.size) if bin_of(c[i], bins) == bin_of(confidence, bins)]
    if not same:
        return confidence
    whole = sum(w[i] * hit[i] for i in same) / sum(w[i] for i in same)
    mine = [i for i in same if groups[i] == group]
    if not mine:
        return float(whole)
    n_eff = sum(w[i] for i in mine) ** 2 / sum(w[i] ** 2 for i in mine)
    local = sum(w[i] * hit[i] for i in mine) / sum(w[i] for i in mine)
    return float((n_eff * local + shrinkage * whole) / (n_eff + shrinkage))
