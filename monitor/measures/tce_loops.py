"""The blocks of TCE, and the events that the exact binomial test refutes in them, for many draws of outcomes.

The verdicts are those of :mod:`monitor.measures.tce_tests`, and use the same three properties of the test; only the
order of work differs, for the few hypotheses that one bin of one draw has. On either side of the rate the hypotheses
k/n < p_1 < p_2 < ... are decided from single ones: two accepted hypotheses decide all between them if

    P_far(X <= k) + P_near(X >= x_far) > alpha,

two rejected ones if P_near(X <= k) + P_far(X >= x_near) < alpha; undecided ranges are halved. All draws share the
logarithms of the factorials, tails come from a continued fraction, and most need few of its terms, because their sum is
far from alpha.

The few draws in which rounding could decide are reported, and decided by scipy.
"""

import math
from typing import Final

import numpy as np

from monitor.arrays import Bools, Floats, Ints
from monitor.loops import njit
from monitor.measures.binomial_loops import (
    DEPTH,
    FINE,
    LOG_DOUBT,
    LOG_TOLERANCE,
    MARGIN,
    far_start,
    log_mass,
    tail_from,
    towards,
    upper_tail,
)

_ROUGH_MARGIN: Final = 1e-2
"""Relative distance from alpha beyond which few terms of the continued fraction are enough."""

_ROUGH: Final = 1e-4
"""Share by which the last of these terms may change the tail; all others change it by some ten times that."""


@njit()
def pool_adjacent_violators(positives: Ints, counts: Ints, min_size: int, max_size: int) -> Ints:
    """Blocks of the PAVA-BC algorithm; those of isotonic regression with ``min_size = 0`` and ``max_size = n``.

    Parameters
    ----------
    positives, counts
        int64, shape (m,): positives and events a row, rows in ascending order of their score; every count > 0.
    min_size, max_size
        Limits on the events of a block, 0 <= min_size <= max_size.

    Returns
    -------
    int64, shape (blocks,)
        The first row of each block, ascending.

    Notes
    -----
    Source: TCE paper, Algorithm 2, its tail as printed: the last ``min_size`` events join the last block only if the
    block stays within ``max_size``.

    The units are rows, not events as in the paper, so equal predictions share a block and the order of the events does
    not matter. This needs two more rules. A row of more than ``max_size`` events is a block of its own. The tail
    consists of the fewest last rows with ``min_size`` events, unless they hold more than ``max_size``: then its first
    row stays with the others, because the upper limit has priority everywhere in the algorithm. Rates are compared by
    their cross products, which is exact.
    """
    rows = counts.shape[0]
    start = np.empty(rows, np.int64)
    positive = np.empty(rows, np.int64)
    size = np.empty(rows, np.int64)

    tail: int = rows
    tail_size: int = 0
    while tail > 0 and tail_size < min_size:
        tail -= 1
        tail_size += int(counts[tail])
    if tail < rows - 1 and tail_size > max_size:
        tail_size -= int(counts[tail])
        tail += 1

    last = -1
    for row in range(tail):
        last += 1
        start[last], positive[last], size[last] = row, positives[row], counts[row]
        while last > 0:
            together = size[last - 1] + size[last]
            if together > min_size and (
                together > max_size or positive[last - 1] * size[last] < positive[last] * size[last - 1]
            ):
                break
            last -= 1
            positive[last] += positive[last + 1]
            size[last] = together
    if tail < rows and (last < 0 or size[last] + tail_size > max_size):
        last += 1
        start[last] = tail
    return start[: last + 1].copy()


@njit()
def _accepted_deviance(alpha: float) -> float:
    """The deviance D = n KL(k/n || p) below which the near tail alone is above alpha; 0 if it need not be.

    The near tail P(X <= k) is at least Phi(-sqrt(2 D)): Zubkov, Serov, "A complete proof of universal inequalities for
    the distribution function of the binomial law", 2013.
    """
    low, high = 0.0, 750.0
    for _ in range(60):
        middle = 0.5 * (low + high)
        if 0.5 * math.erfc(math.sqrt(middle)) > alpha * (1.0 + MARGIN):
            low = middle
        else:
            high = middle
    return low


@njit()
def _likelihoods(k: int, n: int, alpha: float, accepted_deviance: float) -> tuple[float, float]:
    """Log likelihoods of a hypothesis above which it is accepted, and below which it is rejected, without its tails.

    The second by the bound of `monitor.measures.binomial_loops._surely_rejected`.
    """
    rate = k / n
    own = (k * math.log(rate) if k > 0 else 0.0) + ((n - k) * math.log1p(-rate) if k < n else 0.0)
    spread = k * (n - k) / n
    likeliest = 1.0 if spread == 0.0 else min(1.0, 1.0 / math.sqrt(2.0 * math.pi * spread))
    reach = LOG_TOLERANCE - math.log(alpha * (1.0 - MARGIN) / (1.0 + likeliest * math.sqrt(2.0 * n)))
    return own - accepted_deviance, own - reach


@njit()
def _first_below(
    likelihood: float,
    k: int,
    n: int,
    score: Floats,
    log_score: Floats,
    log_rest: Floats,
    first: int,
    direction: int,
    low: int,
    high: int,
) -> int:
    """The first hypothesis from ``low`` to ``high``, as in :func:`_refuted_on_one_side`, less likely than that."""
    while low < high:
        middle = (low + high) // 2
        row = first + direction * middle
        certain = score[row] == (1.0 if direction > 0 else 0.0)
        if not certain:
            _, _, log_p, log_q = towards(score[row], log_score[row], log_rest[row], direction)
        if certain or k * log_p + (n - k) * log_q < likelihood:
            high = middle
        else:
            low = middle + 1
    return low


@njit()
def _refuted_on_one_side(
    k: int,
    n: int,
    score: Floats,
    log_score: Floats,
    log_rest: Floats,
    first: int,
    direction: int,
    rows: int,
    before: Ints,
    alpha: float,
    likelihoods: tuple[float, float],
    log_factorial: Floats,
    stack: tuple[Ints, Ints, Ints, Bools],
    near: Floats,
) -> tuple[int, bool]:
    """Events of the ``rows`` hypotheses above k/n that are rejected, and whether each verdict is beyond doubt.

    Hypothesis t, counted from the rate outwards, is in row ``first + direction * t``. ``before``, shape (m + 1,), is
    the number of events in the rows before each; ``likelihoods`` are those of :func:`_likelihoods`. ``stack`` and
    ``near``, each of DEPTH, are room to work in.
    """
    likely, unlikely = likelihoods
    sure = _first_below(likely, k, n, score, log_score, log_rest, first, direction, int(np.int64(0)), rows)
    low = _first_below(unlikely, k, n, score, log_score, log_rest, first, direction, sure, rows)
    refuted = 0
    if low < rows:
        one, other = first + direction * low, first + direction * (rows - 1)
        refuted = before[max(one, other) + 1] - before[min(one, other)]
    if low == sure:
        return refuted, True

    # The left end of the current range, at first the last that is surely accepted, or the rate itself; and a stack of
    # right ends. Each hypothesis has its near tail, two candidates for the first outcome of its far tail (see
    # `far_start`), and its verdict.
    left, left_near, left_wide, left_rejected = sure - 1, 1.0, int(np.int64(0)), False
    at, wide, narrow, is_rejected = stack
    top = -1
    following = low - 1
    while True:
        # Evaluate one hypothesis.
        top += 1
        at[top] = following
        row = first + direction * following
        p, q, log_p, log_q = towards(score[row], log_score[row], log_rest[row], direction)
        mass = log_mass(k, n, p, log_p, log_q, log_factorial)
        near[top] = upper_tail(n - k, n, q, p, mass, _ROUGH)
        wide[top] = narrow[top] = int(np.int64(-1))
        is_rejected[top] = False
        # Where the near tail alone accepts, it does so for all before, and no far tail is needed.
        if near[top] <= alpha * (1.0 + _ROUGH_MARGIN):
            wide[top] = narrow[top] = far_start(k, n, p, log_p, log_q, LOG_DOUBT, log_factorial)
            surely = mass + LOG_TOLERANCE - LOG_DOUBT
            if wide[top] <= n and log_mass(wide[top], n, p, log_p, log_q, log_factorial) > surely:
                narrow[top] = far_start(k, n, p, log_p, log_q, -LOG_DOUBT, log_factorial)
            tolerance, margin = _ROUGH, _ROUGH_MARGIN
            while True:
                at_most = at_least = near[top] + tail_from(wide[top], n, p, q, log_p, log_q, tolerance, log_factorial)
                if narrow[top] != wide[top]:
                    at_least = near[top] + tail_from(narrow[top], n, p, q, log_p, log_q, tolerance, log_factorial)
                if at_least > alpha * (1.0 + margin):
                    break
                if at_most < alpha * (1.0 - margin):
                    is_rejected[top] = True
                    refuted += before[row + 1] - before[row]
                    break
                if tolerance == FINE:
                    return 0, False
                tolerance, margin = FINE, MARGIN
                near[top] = upper_tail(n - k, n, q, p, mass, tolerance)

        # Decide ranges from the left until one has to be halved.
        while top >= 0:
            right = at[top]
            decided = right - left <= 1
            if not decided and left_rejected == is_rejected[top]:
                if left_rejected:
                    row = first + direction * right
                    p, q, log_p, log_q = towards(score[row], log_score[row], log_rest[row], direction)
                    far = tail_from(left_wide, n, p, q, log_p, log_q, _ROUGH, log_factorial)
                    decided = left_near + far < alpha * (1.0 - _ROUGH_MARGIN)
                    if decided:
                        one, other = first + direction * (left + 1), first + direction * (right - 1)
                        refuted += before[max(one, other) + 1] - before[min(one, other)]
                else:
                    decided = near[top] > alpha * (1.0 + _ROUGH_MARGIN)
                    if not decided and left >= 0:
                        row = first + direction * left
                        p, q, log_p, log_q = towards(score[row], log_score[row], log_rest[row], direction)
                        far = tail_from(narrow[top], n, p, q, log_p, log_q, _ROUGH, log_factorial)
                        decided = near[top] + far > alpha * (1.0 + _ROUGH_MARGIN)
            if not decided:
                break
            left, left_near, left_wide, left_rejected = right, near[top], wide[top], is_rejected[top]
            top -= 1
        if top < 0:
            return refuted, True
        following = (left + at[top]) // 2


@njit()
def refuted_events(
    score: Floats, counts: Ints, positives: Floats, min_size: int, max_size: int, alpha: float, log_factorial: Floats
) -> tuple[Ints, Bools]:
    """Events whose prediction the test refutes in the blocks of PAVA-BC, for many drawn outcomes of the same events.

    Parameters
    ----------
    score
        float64, shape (m,), strictly ascending, in [0, 1].
    counts
        int64, shape (m,), every value > 0: events a row.
    positives
        float64, shape (draws, m), whole numbers: positives a row, in each draw.
    min_size, max_size
        Limits on the events of a block.
    alpha
        Level of the test, in (0, 1).
    log_factorial
        :func:`log_factorials`.

    Returns
    -------
    refuted
        int64, shape (draws,).
    sure
        bool, shape (draws,): False if rounding could decide a verdict; ``refuted`` is then not valid.
    """
    draws, m = positives.shape
    refuted = np.zeros(draws, np.int64)
    sure = np.ones(draws, np.bool_)
    before = np.zeros(m + 1, np.int64)
    for row in range(m):
        before[row + 1] = before[row] + counts[row]
    log_score, log_rest = np.empty(m), np.empty(m)
    for row in range(m):
        log_score[row] = math.log(score[row]) if score[row] > 0.0 else -math.inf
        log_rest[row] = math.log1p(-score[row]) if score[row] < 1.0 else -math.inf
    # Made once: to make them for every block takes as long as the block's tails.
    stack = (
        np.empty(DEPTH, np.int64),
        np.empty(DEPTH, np.int64),
        np.empty(DEPTH, np.int64),
        np.empty(DEPTH, np.bool_),
    )
    near = np.empty(DEPTH)
    drawn = np.empty(m, np.int64)
    accepted_deviance = _accepted_deviance(alpha)
    for draw in range(draws):
        for row in range(m):
            drawn[row] = np.int64(positives[draw, row])
        starts = pool_adjacent_violators(drawn, counts, min_size, max_size)
        for block in range(starts.shape[0]):
            start = starts[block]
            end = starts[block + 1] if block + 1 < starts.shape[0] else m
            k = int(np.int64(0))  # no literal: numba would compile the called functions once more
            for row in range(start, end):
                k += drawn[row]
            n = before[end] - before[start]
            likelihoods = _likelihoods(k, n, alpha, accepted_deviance)
            # Like scipy, compare k with the rounded product p * n; equal ones are accepted.
            low, high = start, end
            while low < high:
                middle = (low + high) // 2
                if score[middle] * n < k:
                    low = middle + 1
                else:
                    high = middle
            below = low
            above = low
            while above < end and score[above] * n <= k:
                above += 1
            if above < end:
                events, certain = _refuted_on_one_side(
                    k,
                    n,
                    score,
                    log_score,
                    log_rest,
                    above,
                    int(np.int64(1)),
                    end - above,
                    before,
                    alpha,
                    likelihoods,
                    log_factorial,
                    stack,
                    near,
                )
                refuted[draw] += events
                sure[draw] &= certain
            if below > start:
                events, certain = _refuted_on_one_side(
                    n - k,
                    n,
                    score,
                    log_score,
                    log_rest,
                    below - 1,
                    int(np.int64(-1)),
                    below - start,
                    before,
                    alpha,
                    likelihoods,
                    log_factorial,
                    stack,
                    near,
                )
                refuted[draw] += events
                sure[draw] &= certain
    return refuted, sure
