"""The measures of many classes straight from their definitions, over single events: the oracle for the kernels."""

import math
from collections.abc import Callable, Sequence
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Kernel = Callable[[Floats, Floats], float]


def simulated(seed: int, n: int, classes: int, sharpness: float = 1.0, spread: float = 1.5) -> tuple[Floats, Ints]:
    """Predictions softmax(sharpness z) where softmax(z) is true: calibrated at 1, too sure above."""
    rng = np.random.default_rng(seed)
    z = rng.normal(0.0, spread, (n, classes))
    truth, prediction = np.exp(z), np.exp(sharpness * z)
    truth /= truth.sum(axis=1, keepdims=True)
    outcome = (truth.cumsum(axis=1) < rng.random((n, 1))).sum(axis=1)
    return prediction / prediction.sum(axis=1, keepdims=True), np.minimum(outcome, classes - 1).astype(np.int64)


def exponential(lengthscale: float) -> Kernel:
    return lambda p, q: math.exp(-math.sqrt(sum((a - b) ** 2 for a, b in zip(p, q, strict=True))) / lengthscale)


def gaussian(lengthscale: float) -> Kernel:
    return lambda p, q: math.exp(-sum((a - b) ** 2 for a, b in zip(p, q, strict=True)) / (2 * lengthscale**2))


def total_variation_exponential(lengthscale: float) -> Kernel:
    return lambda p, q: math.exp(-sum(abs(a - b) for a, b in zip(p, q, strict=True)) / 2 / lengthscale)


def skce_term(kernel: Kernel, p: Floats, y: int, q: Floats, z: int) -> float:
    """h of two events: Widmann et al. 2019, Lemma 1, with the kernel times the identity."""
    inner = sum(((k == y) - p[k]) * ((k == z) - q[k]) for k in range(p.size))
    return kernel(p, q) * float(inner)


def skce_unbiased(kernel: Kernel, p: Floats, y: Ints) -> float:
    n = y.size
    pairs = [(i, j) for i in range(n) for j in range(n) if i != j]
    return float(np.mean([skce_term(kernel, p[i], y[i], p[j], y[j]) for i, j in pairs]))


def skce_biased(kernel: Kernel, p: Floats, y: Ints) -> float:
    n = y.size
    return float(np.mean([skce_term(kernel, p[i], y[i], p[j], y[j]) for i in range(n) for j in range(n)]))


def skce_block(kernel: Kernel, p: Floats, y: Ints, size: int) -> float:
    blocks = [slice(first, first + size) for first in range(0, y.size - size + 1, size)]
    return float(np.mean([skce_unbiased(kernel, p[block], y[block]) for block in blocks]))


def null_variance(kernel: Kernel, p: Floats) -> float:
    """Variance of the unbiased estimate when every outcome is drawn from its prediction."""
    n = p.shape[0]
    covariance = [np.diag(row) - np.outer(row, row) for row in p]
    total = 0.0
    for i in range(n):
        for j in range(n):
            if i != j:
                total += kernel(p[i], p[j]) ** 2 * float((covariance[i] * covariance[j]).sum())
    return float(2.0 * total / (n * (n - 1)) ** 2)


def null_moments_by_enumeration(kernel: Kernel, p: Floats) -> tuple[float, float]:
    """Mean and variance of the unbiased estimate over every outcome that the predictions allow."""
    n, classes = p.shape
    mean, square = 0.0, 0.0
    for number in range(classes**n):
        y = np.array([number // classes**i % classes for i in range(n)])
        probability = math.prod(float(p[i, y[i]]) for i in range(n))
        value = skce_unbiased(kernel, p, y)
        mean += probability * value
        square += probability * value**2
    return mean, square - mean**2


def sketch_sums(frequencies: Sequence[Floats], p: Floats, y: Ints) -> list[Floats]:
    """For each frequency w: sum of cos(w p) r, and of sin(w p) r."""
    result = []
    for w in frequencies:
        for wave in (math.cos, math.sin):
            total = np.zeros(p.shape[1])
            for i in range(y.size):
                residual = -p[i].copy()
                residual[y[i]] += 1.0
                total += wave(float(w @ p[i])) * residual
            result.append(total)
    return result


def gce_by_loops(
    p: Floats,
    y: Ints,
    bins: str,
    probabilities: str,
    *,
    class_conditional: bool,
    threshold: float,
    norm: int | str,
    size: int,
) -> float:
    """Nixon et al. 2019, section 4, one probability after another."""
    n, classes = p.shape
    errors: list[float] = []
    for group in [[k] for k in range(classes)] if class_conditional else [list(range(classes))]:
        entries = [
            (float(p[i, k]), int(y[i] == k))
            for i in range(n)
            for k in group
            if (probabilities == "all" or k == int(np.argmax(p[i]))) and (p[i, k] > threshold or threshold == 0.0)
        ]
        if not entries:
            continue
        members: list[list[tuple[float, int]]] = [[] for _ in range(size)]
        for value, hit in entries:
            if bins == "even":
                inside = [b for b in range(size) if b / size <= value < (b + 1) / size]
                members[inside[0] if inside else size - 1].append((value, hit))
            else:
                below = sum(other < value for other, _ in entries)
                equal = sum(other == value for other, _ in entries)
                members[math.floor(Fraction(2 * below + equal, 2 * len(entries)) * size)].append((value, hit))
        gaps = [
            (len(member) / len(entries), abs(float(np.mean([hit - value for value, hit in member]))))
            for member in members
            if member
        ]
        if norm == "max":
            errors.append(max(gap for _, gap in gaps))
        else:
            errors.append(float(sum(share * gap ** int(norm) for share, gap in gaps)))
    if norm == "max":
        return float(max(errors))
    return float(np.mean(errors) ** (1 / int(norm)))


def ece_of_vectors(p: Floats, y: Ints, groups: Sequence[Sequence[int]], distance: str) -> float:
    """Weighted mean distance between mean prediction and class frequencies of each group of events."""
    total = 0.0
    for group in groups:
        prediction = np.mean([p[i] for i in group], axis=0)
        frequency = np.mean([np.eye(p.shape[1])[y[i]] for i in group], axis=0)
        gaps = [abs(a - b) for a, b in zip(prediction, frequency, strict=True)]
        if distance == "squared_euclidean":
            total += len(group) * sum(gap**2 for gap in gaps)
        else:
            total += len(group) * sum(gaps) / (2.0 if distance == "total_variation" else 1.0)
    return float(total / y.size)


def median_variance_groups(p: Floats, min_size: int) -> list[list[int]]:
    """Recursively: split at the median of the class of largest variance, while both sides keep enough events."""

    def split(events: list[int]) -> list[list[int]]:
        if len(events) < 2 * min_size:
            return [events]
        variances = [float(np.var([p[i, k] for i in events])) for k in range(p.shape[1])]
        k = next(k for k, variance in enumerate(variances) if variance >= max(variances) * (1 - 1e-9))
        upper_median = sorted(float(p[i, k]) for i in events)[len(events) // 2]
        below = [i for i in events if p[i, k] < upper_median]
        above = [i for i in events if p[i, k] >= upper_median]
        if min(len(below), len(above)) < min_size:
            return [events]
        return split(below) + split(above)

    return split(list(range(p.shape[0])))
