"""Recalibration maps straight from their definitions, over single events: the oracle for the fits."""

import math
from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize

Floats = NDArray[np.float64]


def sigmoid(eta: float) -> float:
    return 1.0 / (1.0 + math.exp(-eta))


def mean_log_loss(p: Sequence[float], y: Sequence[int], w: Sequence[float]) -> float:
    total = 0.0
    for each, came, weight in zip(p, y, w, strict=True):
        total -= weight * math.log(each if came else 1.0 - each)
    return total / sum(w)


def mean_log_loss_of_classes(p: Floats, y: Sequence[int], w: Sequence[float]) -> float:
    total = 0.0
    for row, came, weight in zip(p, y, w, strict=True):
        total -= weight * math.log(row[came])
    return total / sum(w)


def least(loss: Callable[[Floats], float], start: Sequence[float]) -> Floats:
    """The minimum by a search that knows no derivatives, started again until it stays."""
    point = np.asarray(start, np.float64)
    for _ in range(20):
        found = minimize(loss, point, method="Nelder-Mead", options={"xatol": 1e-10, "fatol": 1e-15, "maxfev": 20_000})
        if np.abs(found.x - point).max() < 1e-9:
            break
        point = found.x
    return np.asarray(found.x)


def platt_map(a: float, b: float, p: Sequence[float]) -> list[float]:
    return [sigmoid(a + b * math.log(each / (1.0 - each))) for each in p]


def beta_map(a: float, b: float, c: float, p: Sequence[float]) -> list[float]:
    """The published formula, odds and all: 1 / (1 + 1 / (e^c p^a / (1 - p)^b))."""
    return [1.0 / (1.0 + 1.0 / (math.exp(c) * each**a / (1.0 - each) ** b)) for each in p]


def softmax_rows(eta: Floats) -> Floats:
    rows = []
    for row in eta:
        odds = [math.exp(value) for value in row]
        rows.append([value / sum(odds) for value in odds])
    return np.array(rows)


def isotonic_by_max_min(p: Sequence[float], y: Sequence[int], w: Sequence[float]) -> dict[float, float]:
    """At each distinct prediction the largest, over starts to its left, of the least mean over ends to its right."""
    scores = sorted(set(p))
    weight = {score: sum(v for each, v in zip(p, w, strict=True) if each == score) for score in scores}
    hits = {score: sum(v * c for each, c, v in zip(p, y, w, strict=True) if each == score) for score in scores}

    def mean(first: int, last: int) -> float:
        inside = scores[first : last + 1]
        return sum(hits[score] for score in inside) / sum(weight[score] for score in inside)

    m = len(scores)
    return {scores[i]: max(min(mean(first, last) for last in range(i, m)) for first in range(i + 1)) for i in range(m)}


def histogram_by_loops(
    p: Sequence[float], y: Sequence[int], w: Sequence[float], edges: Sequence[float], shrinkage: float
) -> Callable[[float], float]:
    """The map: a prediction's bin is the number of inner edges that it reaches."""

    def place(each: float) -> int:
        return sum(each >= edge for edge in edges)

    def recalibrate(each: float) -> float:
        inside = [i for i in range(len(p)) if place(p[i]) == place(each)]
        if not inside:
            return each
        total = sum(w[i] for i in inside)
        worth = total**2 / sum(w[i] ** 2 for i in inside)
        frequency = sum(w[i] * y[i] for i in inside) / total
        mean = sum(w[i] * p[i] for i in inside) / total
        return (worth * frequency + shrinkage * mean) / (worth + shrinkage)

    return recalibrate


def kernel_error_by_double_sum(p: Floats, residual: Floats, w: Floats, width: float) -> float:
    total = 0.0
    for i in range(p.size):
        for j in range(p.size):
            total += w[i] * w[j] * residual[i] * residual[j] * math.exp(-abs(p[i] - p[j]) / width)
    return math.sqrt(max(0.0, total)) / float(w.sum())
