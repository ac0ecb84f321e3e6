"""The measures of many classes straight from their definitions, over single events: the oracle for the kernels."""

import math
from collections.abc import Callable, Sequence

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
