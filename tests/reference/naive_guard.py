"""The evidence of section 7 of the mathematics, one bet and one event after the other."""

from typing import Any

import numpy as np
from numpy.typing import NDArray


def naive_e_value(p: NDArray[Any], q: NDArray[Any], y: NDArray[Any], weight: NDArray[Any]) -> float:
    """p is what serves, q the challenger; shape (n,) or (n, K)."""

    def loss(prediction: Any, outcome: int) -> float:
        if np.ndim(prediction) == 0:
            return float((outcome - prediction) ** 2)
        target = np.zeros(len(prediction))
        target[outcome] = 1.0
        return float(((target - prediction) ** 2).sum() / 2.0)

    classes = 2 if p.ndim == 1 else p.shape[1]
    largest = max(weight)
    at_stake = max(w * (loss(b, k) - loss(a, k)) for a, b, w in zip(p, q, weight, strict=True) for k in range(classes))
    total, bets = 0.0, 0
    for unit in (largest, at_stake):
        for share in (0.05, 0.2, 0.5, 0.9):
            product = 1.0
            for a, b, k, w in zip(p, q, y, weight, strict=True):
                product *= 1.0 + share * w / unit * (loss(a, k) - loss(b, k))
            total += product
            bets += 1
    return total / bets
