"""Decisions straight from section 5.4 of the local-calibration paper: one event after the other."""

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


def naive_reward(p: Floats, y: Ints, ratio: float, weight: Floats) -> float:
    total = 0.0
    for prediction, outcome, w in zip(p, y, weight, strict=True):
        confidence = max(prediction, 1.0 - prediction)
        if confidence <= 1.0 - 1.0 / ratio:
            total -= w
        elif (prediction >= 0.5) != (outcome == 1):
            total -= w * ratio
    return total / float(weight.sum())


def naive_rejection_ratio(p: Floats, y: Ints, weight: Floats) -> float | None:
    """Areas under the curves of errors that are left, by trapezoids; confidences differ."""
    confidence = np.maximum(p, 1.0 - p)
    wrong = (p >= 0.5) != (y == 1)
    if wrong.all() or not wrong.any():
        return None

    def area(order: list[int]) -> float:
        errors = float(weight[wrong].sum())
        found = 0.0
        for event in order:
            after = errors - (weight[event] if wrong[event] else 0.0)
            found += weight[event] * (errors + after) / 2.0
            errors = after
        return found / float(weight.sum()) ** 2

    events = range(len(p))
    by_confidence = area(sorted(events, key=lambda each: confidence[each]))
    oracle = area(sorted(events, key=lambda each: not wrong[each]))
    share = float(weight[wrong].sum() / weight.sum())
    chance = share / 2.0
    return (chance - by_confidence) / (chance - oracle)
