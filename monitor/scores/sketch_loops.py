"""Sums of Fourier features of probability vectors, from which the SKCE of many classes follows."""

import math
from typing import Final

import numpy as np

from monitor.arrays import Floats, Ints
from monitor.loops import njit

UNIT: Final = 2.0**32
"""Sums are integers in units of 2^-32, so that they add exactly in any order."""

PAIRS: Final = 32
"""Number of frequencies of the squared kernel, from which the null variance follows."""

TOTALS: Final = 3
"""Last three sums: events, squared residuals, and variances of the outcomes (their expectation)."""


@njit()
def add_to_sketch(prediction: Floats, outcome: Ints, tables: Floats, sums: Ints) -> None:
    r"""Add events in place.

    With r = e_y - p and S = diag(p) - p p', the covariance of the outcome, the sums are over events of

    - cos(w p) r and sin(w p) r for each frequency w of the kernel,
    - cos(v p) S b and sin(v p) S b for each frequency v of the squared kernel, b a vector of its own,
    - 1, \|r\|^2 and tr S.

    Every term is rounded to an integer, so sums do not depend on the order of the events.

    Parameters
    ----------
    prediction
        float64, shape (n, K), rows of sum 1.
    outcome
        int64, shape (n,): the class that came true, in [0, K).
    tables
        float64, shape (M + 2 PAIRS, K): the M frequencies w, then the v, then the b.
    sums
        int64, shape (2 (M + PAIRS) K + TOTALS,).
    """
    classes = prediction.shape[1]
    frequencies = tables.shape[0] - 2 * PAIRS
    residual = np.empty(classes)
    for event in range(outcome.shape[0]):
        p = prediction[event]
        squared = 0.0
        variance = 1.0
        for k in range(classes):
            residual[k] = (1.0 if k == outcome[event] else 0.0) - p[k]
            squared += residual[k] * residual[k]
            variance -= p[k] * p[k]
        at = 0
        for row in range(frequencies + PAIRS):
            phase = 0.0
            for k in range(classes):
                phase += tables[row, k] * p[k]
            cosine, sine = math.cos(phase) * UNIT, math.sin(phase) * UNIT
            if row < frequencies:
                for k in range(classes):
                    sums[at + k] += math.floor(cosine * residual[k] + 0.5)
                    sums[at + classes + k] += math.floor(sine * residual[k] + 0.5)
            else:
                mean = 0.0
                for k in range(classes):
                    mean += tables[row + PAIRS, k] * p[k]
                for k in range(classes):
                    spread = p[k] * (tables[row + PAIRS, k] - mean)
                    sums[at + k] += math.floor(cosine * spread + 0.5)
                    sums[at + classes + k] += math.floor(sine * spread + 0.5)
            at += 2 * classes
        sums[at] += 1
        sums[at + 1] += math.floor(squared * UNIT + 0.5)
        sums[at + 2] += math.floor(variance * UNIT + 0.5)
