"""Tails of binomial laws, and the verdicts of the exact two-sided test; see :mod:`monitor.measures.tce_tests`."""

import math
from functools import cache
from typing import Final

import numpy as np
from numpy.typing import NDArray
from scipy.special import gammaln

from monitor.arrays import Bools, Floats, Ints
from monitor.loops import njit

LOG_TOLERANCE: Final = math.log1p(1e-7)
"""scipy's relative tolerance for counting an outcome as no likelier than the observed one."""

LOG_DOUBT: Final = 1e-9
"""Probabilities this close to the tolerance may be rounded to either side of it, here or in scipy."""

MARGIN: Final = 1e-9
"""Relative distance from alpha within which rounding might decide; the tails below are good to some 1e-10."""

_TABLE_SIZE: Final = 1 << 15
"""Number of trials up to which sums of tabulated logarithms are well within LOG_DOUBT; beyond, Loader's form serves."""

FINE: Final = 1e-15
"""Share of a tail by which the last term may change it, if the tail must be exact."""

ACCEPTED: Final = 0
REJECTED: Final = 1
OPEN: Final = 2
"""Verdicts: open where rounding, or the place of a prediction inside its cell, could decide."""

_MAX_HALVINGS: Final = 16
"""Limit on halving the range of hypotheses inside one cell."""

_LEAST: Final = 5e-324
_LARGEST: Final = 1.0 - 2.0**-53

DEPTH: Final = 64
"""Largest number of open halvings of a range of rows; more than an int64 has bits."""

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


@cache
def log_factorials() -> Floats:
    """Logarithms of 0!, 1!, ..., float64, shape (32768,)."""
    result = np.asarray(gammaln(np.arange(1.0, _TABLE_SIZE + 1.0)), np.float64)
    result.flags.writeable = False
    return result


@njit()
def log_mass(x: int, n: int, p: float, log_p: float, log_q: float, log_factorial: Floats) -> float:
    """Log of the probability of x successes in n trials, 0 < p < 1."""
    if n < log_factorial.shape[0]:
        return float(log_factorial[n] - log_factorial[x] - log_factorial[n - x] + x * log_p + (n - x) * log_q)
    return float(log_pmf(x, n, p))


@njit()
def upper_tail(x: int, n: int, p: float, q: float, log_mass: float, tolerance: float) -> float:
    """P(X >= x) for x above the mean n p, from the log of P(X = x).

    The continued fraction of the incomplete beta function (DiDonato and Morris, "Algorithm 708", 1992, equation 9), of
    a = x and b = n - x + 1, evaluated until a term changes it by a share of ``tolerance`` at most; nan, which decides
    nothing, if it takes too many terms.
    """
    if x > n:
        return 0.0
    if x == n:  # also where p is so close to 1 that the mean rounds to n
        return math.exp(log_mass)
    a, b = float(x), float(n - x + 1)
    base = (x - n * p) + q
    # Numerators and denominators of two successive convergents, scaled so that the last denominator is 1.
    numerator_before, denominator_before = 0.0, 1.0
    beta = a / (a + 1.0) * base
    numerator, denominator_before = 1.0 / beta, denominator_before / beta
    share = 1.0 / (a + 1.0)
    for term in range(1, 10_000):
        m = float(term)
        ahead = 1.0 / (a + 2.0 * m + 1.0)
        step = m * (b - m) * p * share
        alpha = (a + m - 1.0) * (a + b + m - 1.0) * p * share * step
        beta = m + step + (a + m) * ahead * (base + m * (1.0 + q))
        share = ahead
        numerator_next = beta * numerator + alpha * numerator_before
        denominator = beta + alpha * denominator_before
        inverse = 1.0 / denominator
        following = numerator_next * inverse
        change = abs(following - numerator)
        numerator_before, denominator_before = numerator * inverse, inverse
        numerator = following
        if change <= tolerance * following:
            return float(math.exp(log_mass) * q * a * numerator)
    return math.nan


@njit()
def tail_from(
    x: int, n: int, p: float, q: float, log_p: float, log_q: float, tolerance: float, log_factorial: Floats
) -> float:
    """P(X >= x), 0 < p < 1."""
    if x <= 0:
        return 1.0
    if x > n:
        return 0.0
    if x > n * p:
        return upper_tail(x, n, p, q, log_mass(x, n, p, log_p, log_q, log_factorial), tolerance)
    below = log_mass(x - 1, n, p, log_p, log_q, log_factorial)
    return 1.0 - upper_tail(n - x + 1, n, q, p, below, tolerance)


@njit()
def first_at_most(
    level: float, n: int, p: float, log_p: float, log_q: float, start: int, guess: int, log_factorial: Floats
) -> int:
    """The first x in [start, n] whose log probability is at most ``level``, n + 1 if there is none.

    From ``start``, at or above the mode, the probabilities fall. The search widens about the guess.
    """
    x = min(max(guess, start), n)
    step = 1
    if log_mass(x, n, p, log_p, log_q, log_factorial) <= level:
        high = x
        low = start - 1
        while high > start:
            x = max(high - step, start)
            if log_mass(x, n, p, log_p, log_q, log_factorial) > level:
                low = x
                break
            high = x
            step *= 2
    else:
        low = x
        high = n + 1
        while low < n:
            x = min(low + step, n)
            if log_mass(x, n, p, log_p, log_q, log_factorial) <= level:
                high = x
                break
            low = x
            step *= 2
    while high - low > 1:
        x = (low + high) // 2
        if log_mass(x, n, p, log_p, log_q, log_factorial) <= level:
            high = x
        else:
            low = x
    return high


@njit()
def towards(score: float, log_score: float, log_rest: float, direction: int) -> tuple[float, float, float, float]:
    """p, 1 - p, and their logarithms; with the classes swapped for p below the rate (``direction`` -1)."""
    if direction > 0:
        return score, 1.0 - score, log_score, log_rest
    return 1.0 - score, score, log_rest, log_score


@njit()
def far_start(k: int, n: int, p: float, log_p: float, log_q: float, doubt: float, log_factorial: Floats) -> int:
    """The first outcome beyond the mode that is no likelier than k < n p, n + 1 if there is none.

    ``doubt``, in logarithms, is added to scipy's tolerance.
    """
    level = log_mass(k, n, p, log_p, log_q, log_factorial) + LOG_TOLERANCE + doubt
    mean = n * p
    return int(first_at_most(level, n, p, log_p, log_q, math.ceil(mean), math.ceil(2.0 * mean - k), log_factorial))


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
def _decide(k: int, n: int, above: bool, near: float, far: float, alpha: float, log_factorial: Floats) -> int:
    """The verdict of all hypotheses from ``near`` to ``far``, which lie on one side of the rate k/n; else OPEN."""
    direction = 1 if above else -1
    hits = k if above else n - k
    # A prediction of 0 or 1 is decided by its distance alone, or is the rate: here it may be the next float.
    near, far = min(max(near, _LEAST), _LARGEST), min(max(far, _LEAST), _LARGEST)
    p_near, q_near, log_p_near, log_q_near = towards(near, math.log(near), math.log1p(-near), direction)
    p_far, q_far, log_p_far, log_q_far = towards(far, math.log(far), math.log1p(-far), direction)
    # The outermost outcome that may belong to the near one's far tail, and the innermost that the far one's holds.
    wide = far_start(hits, n, p_near, log_p_near, log_q_near, LOG_DOUBT, log_factorial)
    narrow = far_start(hits, n, p_far, log_p_far, log_q_far, -LOG_DOUBT, log_factorial)
    least = tail_from(n - hits, n, q_far, p_far, log_q_far, log_p_far, FINE, log_factorial)
    least += tail_from(narrow, n, p_near, q_near, log_p_near, log_q_near, FINE, log_factorial)
    if least > alpha * (1.0 + MARGIN):
        return ACCEPTED
    largest = tail_from(n - hits, n, q_near, p_near, log_q_near, log_p_near, FINE, log_factorial)
    largest += tail_from(wide, n, p_far, q_far, log_p_far, log_q_far, FINE, log_factorial)
    return REJECTED if largest < alpha * (1.0 - MARGIN) else OPEN


@njit()
def _decide_rows(
    verdict: NDArray[np.int8],
    lower: Floats,
    upper: Floats,
    from_row: int,
    to_row: int,
    k: int,
    n: int,
    above: bool,
    alpha: float,
    log_factorial: Floats,
) -> None:
    """Write the verdicts, unless open, of the rows from ``from_row`` to before ``to_row`` on one side of the rate."""
    first, last = np.empty(DEPTH, np.int64), np.empty(DEPTH, np.int64)
    first[0], last[0] = from_row, to_row - 1
    top = 0 if from_row < to_row else -1
    while top >= 0:
        one, other = first[top], last[top]
        top -= 1
        near, far = (lower[one], upper[other]) if above else (upper[other], lower[one])
        decision = _decide(k, n, above, near, far, alpha, log_factorial)
        if decision != OPEN:
            verdict[one : other + 1] = decision
        elif one < other:
            middle = (one + other) // 2
            first[top + 1], last[top + 1] = one, middle
            first[top + 2], last[top + 2] = middle + 1, other
            top += 2


@njit()
def verdicts(
    lower: Floats, upper: Floats, starts: Ints, successes: Ints, trials: Ints, alpha: float, log_factorial: Floats
) -> NDArray[np.int8]:
    """The verdicts of the test on the predictions of each row.

    Parameters
    ----------
    lower, upper, starts, successes, trials
        As in :func:`split_at_rate`.
    alpha
        Level of the test, in (0, 1).
    log_factorial
        :func:`log_factorials`.

    Returns
    -------
    int8, shape (m,)
        ACCEPTED or REJECTED if all of [lower, upper] certainly is, else OPEN.
    """
    verdict = np.full(lower.shape[0], OPEN, np.int8)
    below, above = split_at_rate(lower, upper, starts, successes, trials)
    low_end, high_start = cut_far(lower, upper, starts, below, above, successes, trials, alpha * (1.0 - MARGIN))
    for b in range(successes.shape[0]):
        k, n = successes[b], trials[b]
        verdict[starts[b] : low_end[b]] = REJECTED
        verdict[high_start[b] : starts[b + 1]] = REJECTED
        _decide_rows(verdict, lower, upper, low_end[b], below[b], k, n, False, alpha, log_factorial)
        _decide_rows(verdict, lower, upper, above[b], high_start[b], k, n, True, alpha, log_factorial)
    return verdict


@njit()
def holds_both(lower: float, upper: float, k: int, n: int, alpha: float, log_factorial: Floats) -> bool:
    """Whether [lower, upper] holds, or could hold, both accepted and rejected hypotheses."""
    rate = min(max(k / n, lower), upper)
    near, far = np.empty(2 * _MAX_HALVINGS + 2), np.empty(2 * _MAX_HALVINGS + 2)
    halvings = np.zeros(2 * _MAX_HALVINGS + 2, np.int64)
    # A piece on either side of the rate; the rate itself is always accepted.
    near[0] = near[1] = rate
    far[0], far[1] = lower, upper
    accepted, rejected = lower < rate < upper, False
    top = 1
    while top >= 0:
        one, other, halved = near[top], far[top], halvings[top]
        top -= 1
        if one == other:
            continue
        decision = _decide(k, n, other > one, one, other, alpha, log_factorial)
        accepted |= decision == ACCEPTED
        rejected |= decision == REJECTED
        if (accepted and rejected) or (decision == OPEN and halved + 1 == _MAX_HALVINGS):
            return True
        if decision == OPEN:
            middle = 0.5 * (one + other)
            near[top + 1], far[top + 1] = one, middle
            near[top + 2], far[top + 2] = middle, other
            halvings[top + 1] = halvings[top + 2] = halved + 1
            top += 2
    return False


@njit()
def straddling(
    lower: Floats, upper: Floats, starts: Ints, successes: Ints, trials: Ints, alpha: float, log_factorial: Floats
) -> Bools:
    """Whether the predictions of each row could differ in their verdicts, (m,); parameters as of :func:`verdicts`."""
    verdict = verdicts(lower, upper, starts, successes, trials, alpha, log_factorial)
    result = np.zeros(lower.shape[0], np.bool_)
    for b in range(successes.shape[0]):
        for row in range(starts[b], starts[b + 1]):
            if verdict[row] == OPEN and lower[row] < upper[row]:
                result[row] = holds_both(lower[row], upper[row], successes[b], trials[b], alpha, log_factorial)
    return result
