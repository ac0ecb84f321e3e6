"""Loops of the bets that outcomes changed."""

import math

import numpy as np

from monitor.arrays import Floats, Ints
from monitor.compiled import njit
from monitor.sequential.prevalence_loops import split_mix


@njit()
def uniform(seed: int, end_ms: int, group: int) -> float:
    """Return a number in (0, 1) that looks random and depends on the arguments alone."""
    step = np.uint64(0x9E3779B97F4A7C15)
    word = split_mix(split_mix(np.uint64(seed) + step * np.uint64(end_ms)) + step * np.uint64(group + 1))
    return (float(word >> np.uint64(12)) + 0.5) / 4503599627370496.0


@njit()
def log_tail(k: int, population: int, successes: int, draws: int, share: float) -> tuple[float, bool]:
    """Return the logarithm of a tail of the hypergeometric law at k, and whether it is the lower one.

    The lower tail is F(k - 1) + share * f(k), which is uniform if share is, and the upper one is 1 less that. It is the
    tail on the side of the mode on which k lies, so that it keeps its precision however small it is.
    """
    least, most = max(0, draws - (population - successes)), min(draws, successes)
    log_f = (
        math.lgamma(successes + 1)
        - math.lgamma(k + 1)
        - math.lgamma(successes - k + 1)
        + math.lgamma(population - successes + 1)
        - math.lgamma(draws - k + 1)
        - math.lgamma(population - successes - draws + k + 1)
        - math.lgamma(population + 1)
        + math.lgamma(draws + 1)
        + math.lgamma(population - draws + 1)
    )
    lower = k * (population + 2) <= (draws + 1) * (successes + 1)
    total, term, j = share if lower else 1.0 - share, 1.0, k
    while (j > least) if lower else (j < most):
        if lower:
            term *= j * float(population - successes - draws + j) / (float(successes - j + 1) * (draws - j + 1))
            j -= 1
        else:
            term *= float(successes - j) * (draws - j) / ((j + 1.0) * (population - successes - draws + j + 1))
            j += 1
        total += term
        if term <= 1e-17 * total:
            break
    return min(log_f + np.log(total), -1e-16), lower


@njit()
def rank_blocks(
    first: Ints,
    end_ms: Ints,
    cell: Ints,
    values: Ints,
    group: Ints,
    middle: Floats,
    seed: int,
    least: float,
    held: bool,
    before: Ints,
    block: Ints,
    expected: Floats,
) -> tuple[Ints, Floats, Floats, Floats]:
    """Rank the positive events of each block, group by group, among all that came before and those of the block.

    Consecutive steps are one block until at least so many positive events, and negative ones, are expected.

    Parameters
    ----------
    first, end_ms, cell, values
        See :class:`monitor.sequential.steps.Steps`.
    group
        int64, shape (cells,): of the predictions, below ``groups``.
    middle
        float64, shape (cells,): a prediction in the middle of each cell.
    seed
        Of the series.
    least
        Events that are expected of the rarer label of a block.
    held
        Whether the events of finished blocks are left out of ``before``.
    before
        int64, shape (groups, 2): earlier events and the positive ones among them; on return, with those of the blocks.
    block, expected
        int64, shape (groups, 2), and float64, shape (groups,): the same of the unfinished block, and the sum of its
        predictions; on return, of the one that the steps leave unfinished.

    Returns
    -------
    tuple
        Of each finished block: its last step, int64, shape (blocks,). Then, float64, shape (blocks, groups) each: the
        logarithm of the smaller tail; 1 if it is the lower one and -1 if it is the upper one; and the standard
        deviation of the positive events if predictions are right, reduced by what ``before`` is uncertain by; 0
        without events.
    """
    steps, groups = first.shape[0] - 1, before.shape[0]
    last = np.empty(steps, np.int64)
    tail, sign, scale = np.full((steps, groups), -1.0), np.ones((steps, groups)), np.zeros((steps, groups))
    blocks = 0
    for step in range(steps):
        for row in range(first[step], first[step + 1]):
            g = group[cell[row]]
            n = values[row, 0] + values[row, 1]
            block[g, 0] += n
            block[g, 1] += values[row, 0]
            expected[g] += n * middle[cell[row]]
        positive, events = 0.0, 0
        for g in range(groups):
            positive += expected[g]
            events += block[g, 0]
        if min(positive, events - positive) < least:
            continue
        for g in range(groups):
            n, known = block[g, 0], before[g, 0]
            if n > 0 and known > 0:
                share = uniform(seed, end_ms[step], g)
                log_p, lower = log_tail(block[g, 1], known + n, before[g, 1] + block[g, 1], n, share)
                p = expected[g] / n
                tail[blocks, g], sign[blocks, g] = log_p, 1.0 if lower else -1.0
                scale[blocks, g] = np.sqrt(n * p * (1.0 - p) * known / (known + n))
            if not held:
                before[g] += block[g]
        block[:], expected[:] = 0, 0.0
        last[blocks] = step
        blocks += 1
    return last[:blocks], tail[:blocks], sign[:blocks], scale[:blocks]


@njit()
def sum_bets(z: Floats, scale: Floats, shift: Floats) -> Floats:
    """Sum the logarithms of bets on normal ranks over groups: d z - d d / 2 with d = shift * scale.

    Parameters
    ----------
    z, scale
        float64, shape (blocks, groups).
    shift
        float64, shape (groups, alternatives): in logits.

    Returns
    -------
    float64, shape (blocks, alternatives)
    """
    result = np.zeros((z.shape[0], shift.shape[1]))
    for block in range(z.shape[0]):
        for g in range(z.shape[1]):
            if scale[block, g] == 0.0:
                continue
            for k in range(shift.shape[1]):
                d = shift[g, k] * scale[block, g]
                result[block, k] += d * z[block, g] - d * d / 2.0
    return result
