"""Local recalibration by obvious loops straight from its paper."""

from math import log

import numpy as np
from numpy.typing import NDArray

from tests.reference.naive_local import bin_of, laplace

Floats = NDArray[np.float64]


def weighted_mean(values: Floats, w: Floats, rows: list[int]) -> float:
    return float(sum(w[i] * values[i] for i in rows) / sum(w[i] for i in rows))


def effective(w: list[float]) -> float:
    return sum(w) ** 2 / sum(one**2 for one in w)


Data = tuple[Floats, Floats, Floats, Floats]
"""Confidences (n,), hits (n,), coordinates (n, d) and weights (n,)."""


def recalibrated(
    confidence: float,
    at: Floats,
    data: Data,
    *,
    gamma: float,
    bins: int,
    shrinkage: float,
    prior: float = 0.0,
    without: int = -1,
) -> float:
    """Equation 6 with weights, pulled towards the bin, some events added; the event ``without`` left out."""
    c, hit, phi, w = data
    everyone = [i for i in range(c.size) if bin_of(c[i], bins) == bin_of(confidence, bins)]
    same = [i for i in everyone if i != without]
    if not same:
        return confidence
    k = [w[i] * laplace(at, phi[i], gamma) for i in same]
    local = sum(one * hit[i] for one, i in zip(k, same, strict=True)) / sum(k)
    pulled = (effective(k) * local + shrinkage * weighted_mean(hit, w, same)) / (effective(k) + shrinkage)
    n = effective([float(w[i]) for i in same])
    return float((n * pulled + prior * weighted_mean(c, w, everyone)) / (n + prior))


def leave_one_out(data: Data, *, gamma: float, bins: int, shrinkage: float, prior: float) -> float:
    """Weighted mean log loss of each event that has another in its bin, by the map of all others."""
    c, hit, phi, w = data
    total = counted = 0.0
    for i in range(c.size):
        if sum(bin_of(v, bins) == bin_of(c[i], bins) for v in c) < 2:
            continue
        p = recalibrated(c[i], phi[i], data, gamma=gamma, bins=bins, shrinkage=shrinkage, prior=prior, without=i)
        p = min(max(p, 4.14e-8), 1.0 - 4.14e-8)
        total -= w[i] * log(p if hit[i] == 1.0 else 1.0 - p)
        counted += w[i]
    return total / counted


def by_group(
    confidence: float, group: str, data: Data, groups: list[str], *, bins: int, shrinkage: float, prior: float
) -> float:
    """Equation 6 with the kernel 1[same group], pulled towards the bin, some events added."""
    c, hit, _, w = data
    same = [i for i in range(c.size) if bin_of(c[i], bins) == bin_of(confidence, bins)]
    if not same:
        return confidence
    mine = [i for i in same if groups[i] == group]
    found = whole = weighted_mean(hit, w, same)
    if mine:
        n_eff = effective([float(w[i]) for i in mine])
        found = (n_eff * weighted_mean(hit, w, mine) + shrinkage * whole) / (n_eff + shrinkage)
    n = effective([float(w[i]) for i in same])
    return (n * found + prior * weighted_mean(c, w, same)) / (n + prior)
