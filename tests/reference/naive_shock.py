"""DerSimonian and Laird's estimate of the variance of offsets between periods, in obvious loops over events."""

import math
from collections.abc import Mapping, Sequence


def sigmoid(z: float) -> float:
    return 1.0 / (1.0 + math.exp(-z))


def variance_between(periods: Mapping[int, Sequence[tuple[float, int]]]) -> tuple[float, float]:
    """From (p, y) of each period: the estimate, below 0 if offsets vary less than chance explains; and its bend.

    A shock of variance s is estimated as s + bend s^2, up to higher orders.
    """
    events = [event for period in periods.values() for event in period]

    def surplus(offset: float) -> float:
        return math.fsum(sigmoid(math.log(p / (1 - p)) + offset) - y for p, y in events)

    low, high = -60.0, 60.0
    for _ in range(200):
        middle = (low + high) / 2
        low, high = (low, middle) if surplus(middle) > 0 else (middle, high)
    offsets, weights = [], []
    for period in periods.values():
        q = [(sigmoid(math.log(p / (1 - p)) + low), y) for p, y in period]
        weight = math.fsum(p * (1 - p) for p, _ in q)
        weights.append(weight)
        offsets.append(math.fsum(y - p for p, y in q) / weight)
    total = math.fsum(weights)
    mean = math.fsum(w * b for w, b in zip(weights, offsets, strict=True)) / total
    q_statistic = math.fsum(w * (b - mean) ** 2 for w, b in zip(weights, offsets, strict=True))
    every = [sigmoid(math.log(p / (1 - p)) + low) for p, _ in events]
    first = math.fsum(p * (1 - p) * (1 - 2 * p) for p in every) / total
    second = math.fsum(p * (1 - p) * (1 - 6 * p * (1 - p)) for p in every) / total
    estimate = (q_statistic - (len(weights) - 1)) / (total - math.fsum(w * w for w in weights) / total)
    return estimate, second - first**2 / 2
