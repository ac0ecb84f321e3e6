"""The far tail of the exact two-sided binomial test."""

import math
from typing import Final

import numpy as np
from numpy.typing import NDArray

from monitor.arrays import Bools, Floats, Ints
from monitor.compiled import njit

LOG_TOLERANCE: Final = math.log1p(1e-7)
"""scipy's relative tolerance for counting an outcome as no likelier than the observed one."""

LOG_DOUBT: Final = 1e-9
"""Probabilities this close to the tolerance may be rounded to either side of it, here or in scipy."""

_LOG_SQRT_2PI: Final = 0.5 * math.log(2.0 * math.pi)
_STIRLING: Final = np.array([math.lgamma(m + 1.0) - (m + 0.5) * math.log(m) + m - _LOG_SQRT_2PI for m in range(1, 16)])


@njit()
def _stirling_error(m: float) -> float:
    """Difference between log m! and Stirling's formula, for a whole m >= 1."""
    if m < 16.0:
        return float(_STIRLING[int(m) - 1])
    square = m * m
    return float((1 / 12 - (1 / 360 - (1 / 1260 - (1 / 1680 - 1 / (1188 * square)) / square) / square) / square) / m)


@njit()
def _deviance(x: float, mean: float) -> float:
    """Value of x log(x / mean) + mean - x, without cancellation where x is close to the mean."""
    if x == 0.0:
        return mean
    if abs(x - mean) < 0.1 * (x + mean):
        v = (x - mean) / (x + mean)
        total = (x - mean) * v
        term = 2.0 * x * v
        square = v * v
        for j in range(1, 1000):
            term *= square
            following = total + term / (2 * j + 1)
            if following == total:
                break
            total = following
        return total
    return x * math.log(x / mean) + mean - x


@njit()
def log_pmf(x: int, n: int, p: float) -> float:
    """Log of the probability of x successes in n trials.

    Loader's saddle-point form ("Fast and Accurate Computation of Binomial Probabilities", 2000): no difference of
    large logarithms of factorials, so no loss of digits for any n.
    """
    if x < 0 or x > n:
        return -math.inf
    if p <= 0.0:
        return 0.0 if x == 0 else -math.inf
    if p >= 1.0:
        return 0.0 if x == n else -math.inf
    if x == 0:
        return n * math.log1p(-p)
    if x == n:
        return n * math.log(p)
    hits, misses, trials = float(x), float(n - x), float(n)
    return (
        _stirling_error(trials)
        - _stirling_error(hits)
        - _stirling_error(misses)
        - _deviance(hits, trials * p)
        - _deviance(misses, trials * (1.0 - p))
        + 0.5 * math.log(trials / hits / misses)
        - _LOG_SQRT_2PI
    )


@njit()
def _first_unlikely(start: int, n: int, p: float, level: float) -> int:
    """The first x in [start, n] whose log probability is at most ``level``, n + 1 if there is none.

    ``start`` lies at or above the mode, beyond which the probabilities fall.
    """
    low, high = start, n + 1
    while low < high:
        middle = (low + high) // 2
        if log_pmf(middle, n, p) <= level:
            high = middle
        else:
            low = middle + 1
    return low


@njit()
def _last_unlikely(stop: int, n: int, p: float, level: float) -> int:
    """The last x in [0, stop] whose log probability is at most ``level``, -1 if there is none."""
    low, high = -1, stop
    while low < high:
        middle = (low + high + 1) // 2
        if log_pmf(middle, n, p) <= level:
            low = middle
        else:
            high = middle - 1
    return low


@njit()
def far_tail(successes: Ints, trials: Ints, above: Bools, p: Floats) -> tuple[Ints, Ints]:
    """Start of the tail on the far side of the mode: the outcomes there that are no likelier than the observed one.

    Parameters
    ----------
    successes, trials
        int64, shape (m,): the observation.
    above
        bool, shape (m,): whether p lies above successes / trials, so that the far tail is the upper one.
    p
        float64, shape (m,): the hypothesis.

    Returns
    -------
    wide, narrow : int64, shape (m,)
        The tail's outcome closest to the mode, n + 1 or -1 if the tail is empty; ``wide`` includes outcomes in doubt,
        ``narrow`` does not. They are nearly always equal.
    """
    rows = p.shape[0]
    wide = np.empty(rows, np.int64)
    narrow = np.empty(rows, np.int64)
    for row in range(rows):
        k, n, hypothesis = successes[row], trials[row], p[row]
        level = log_pmf(k, n, hypothesis) + LOG_TOLERANCE
        sure = level - LOG_DOUBT
        if above[row]:
            x = _first_unlikely(math.ceil(n * hypothesis), n, hypothesis, level + LOG_DOUBT)
            wide[row] = x
            narrow[row] = x if log_pmf(x, n, hypothesis) <= sure else _first_unlikely(x, n, hypothesis, sure)
        else:
            x = _last_unlikely(math.floor(n * hypothesis), n, hypothesis, level + LOG_DOUBT)
            wide[row] = x
            narrow[row] = x if log_pmf(x, n, hypothesis) <= sure else _last_unlikely(x, n, hypothesis, sure)
    return wide, narrow


@njit()
def split_at_rate(lower: Floats, upper: Floats, starts: Ints, successes: Ints, trials: Ints) -> tuple[Ints, Ints]:
    """Split the rows of each bin at the bin's rate.

    Parameters
    ----------
    lower, upper
        float64, shape (m,): the predictions a row may hold, rows ascending and disjoint.
    starts
        int64, shape (bins + 1,): first row of each bin, then m.
    successes, trials
        int64, shape (bins,).

    Returns
    -------
    below, above : int64, shape (bins,)
        Rows ``starts[b] : below[b]`` lie at or below the rate, rows ``above[b] : starts[b + 1]`` at or above it; the
        rows between hold it inside.
    """
    bins = successes.shape[0]
    below = np.empty(bins, np.int64)
    above = np.empty(bins, np.int64)
    for b in range(bins):
        k, n = successes[b], trials[b]
        # Like scipy, compare k with the rounded product p * n.
        low, high = starts[b], starts[b + 1]
        while low < high:
            middle = (low + high) // 2
            if upper[middle] * n <= k:
                low = middle + 1
            else:
                high = middle
        below[b] = low
        high = starts[b + 1]
        while low < high:
            middle = (low + high) // 2
            if lower[middle] * n < k:
                low = middle + 1
            else:
                high = middle
        above[b] = low
    return below, above


@njit()
def _surely_rejected(k: int, n: int, p: float, alpha: float) -> bool:
    """Whether a cheap upper bound of the p-value is below alpha, for p on either side of k/n.

    With D = n KL(k/n || p), Chernoff bounds the near tail by exp(-D) and the far tail, which starts at an outcome x,
    by exp(-n KL(x/n || p)) = pmf(x) / b(x), where b(x) is the probability of x if x/n were the hypothesis. As
    pmf(x) <= pmf(k) = b(k) exp(-D) up to the tolerance, b(x) >= 1 / sqrt(2 n), and b(k) <= 1 / sqrt(2 pi n r (1 - r))
    with r = k/n (1 where r is 0 or 1), the p-value is at most exp(-D) (1 + b(k) sqrt(2 n)). It falls as p moves away.
    """
    if p <= 0.0 or p >= 1.0:
        return p * n != k
    distance = _deviance(float(k), n * p) + _deviance(float(n - k), n * (1.0 - p))
    spread = k * (n - k) / n
    likeliest = 1.0 if spread == 0.0 else min(1.0, 1.0 / math.sqrt(2.0 * math.pi * spread))
    return math.exp(LOG_TOLERANCE - distance) * (1.0 + likeliest * math.sqrt(2.0 * n)) < alpha


@njit()
def cut_far(
    lower: Floats, upper: Floats, starts: Ints, below: Ints, above: Ints, successes: Ints, trials: Ints, alpha: float
) -> tuple[Ints, Ints]:
    """Find the rows that are so far from their bin's rate that a cheap bound rejects them.

    Parameters
    ----------
    lower, upper, starts, successes, trials
        As in :func:`split_at_rate`.
    below, above
        Its result.
    alpha
        Level of the test.

    Returns
    -------
    low_end, high_start : int64, shape (bins,)
        Rows ``starts[b] : low_end[b]`` and ``high_start[b] : starts[b + 1]`` are certainly rejected.
    """
    bins = successes.shape[0]
    low_end = np.empty(bins, np.int64)
    high_start = np.empty(bins, np.int64)
    for b in range(bins):
        k, n = successes[b], trials[b]
        low, high = starts[b], below[b]
        while low < high:
            middle = (low + high) // 2
            if _surely_rejected(k, n, upper[middle], alpha):
                low = middle + 1
            else:
                high = middle
        low_end[b] = low
        low, high = above[b], starts[b + 1]
        while low < high:
            middle = (low + high) // 2
            if _surely_rejected(k, n, lower[middle], alpha):
                high = middle
            else:
                low = middle + 1
        high_start[b] = low
    return low_end, high_start


@njit()
def fill_ranges(values: NDArray[np.int8], first: Ints, last: Ints, value: NDArray[np.int8]) -> None:
    """Set ``values[first[i] : last[i] + 1] = value[i]`` for every i, in place."""
    for i in range(first.shape[0]):
        for row in range(first[i], last[i] + 1):
            values[row] = value[i]
