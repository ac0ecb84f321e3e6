"""Loops of sequential evidence over rows of cells."""

import numpy as np

from monitor.arrays import Floats, Ints
from monitor.compiled import njit

_BUMPS = 2


@njit()
def sum_bets(first: Ints, cell: Ints, values: Ints, common: Floats, centred: Floats, region: Ints) -> Floats:
    """Sum the logarithms of bets on the rows of each step.

    Parameters
    ----------
    first
        int64, shape (steps + 1,): the rows of step ``t`` are ``first[t]`` to ``first[t + 1]``.
    cell, values
        int64, shape (rows,) and (rows, 6): see :class:`monitor.scores.GridTable`.
    common
        float64, shape (cells, 4, a): lines of a - 2 alternatives that all models share, and of the two bumps.
    centred
        float64, shape (cells, 4, b): lines of slopes about the model's centre.
    region
        int64, shape (cells,): of the bumps, below 8.

    Returns
    -------
    float64, shape (steps, a - 2 + b + 16)
    """
    steps, shared, own = first.shape[0] - 1, common.shape[2] - _BUMPS, centred.shape[2]
    result = np.zeros((steps, shared + own + 16))
    for step in range(steps):
        for row in range(first[step], first[step + 1]):
            at = cell[row]
            bump = shared + own + _BUMPS * region[at]
            for label in range(2):
                count, above = float(values[row, label]), float(values[row, label + 3])
                if count == 0.0:
                    continue
                for k in range(shared):
                    result[step, k] += count * common[at, 2 * label, k] + above * common[at, 2 * label + 1, k]
                for k in range(own):
                    result[step, shared + k] += (
                        count * centred[at, 2 * label, k] + above * centred[at, 2 * label + 1, k]
                    )
                for k in range(_BUMPS):
                    result[step, bump + k] += (
                        count * common[at, 2 * label, shared + k] + above * common[at, 2 * label + 1, shared + k]
                    )
    return result


@njit()
def accumulate(log_value: Floats, log_weight: Floats, log_bet: Floats) -> Floats:
    """Let the processes of all alternatives grow: ``M <- (M + weight) * e``, in logarithms.

    Parameters
    ----------
    log_value
        float64, shape (alternatives,): log M before the first step; on return, after the last one.
    log_weight
        float64, shape (steps,).
    log_bet
        float64, shape (steps, alternatives): log e.

    Returns
    -------
    float64, shape (steps,): the logarithm of the mean of M over the alternatives, after each step.
    """
    steps, alternatives = log_bet.shape
    result = np.empty(steps)
    for step in range(steps):
        largest = -np.inf
        for k in range(alternatives):
            high, low = max(log_value[k], log_weight[step]), min(log_value[k], log_weight[step])
            log_value[k] = high + np.log1p(np.exp(low - high)) + log_bet[step, k]
            largest = max(largest, log_value[k])
        total = 0.0
        for k in range(alternatives):
            total += np.exp(log_value[k] - largest)
        result[step] = largest + np.log(total / alternatives)
    return result


@njit()
def latest_rise(score: Floats, since_ms: Ints, end_ms: Ints, log_bet: Floats) -> None:
    """Keep, for each alternative, the largest evidence of all data since some step, and since when (CUSUM).

    Parameters
    ----------
    score, since_ms
        float64 and int64, shape (alternatives,): before the first step; on return, after the last one.
    end_ms
        int64, shape (steps,).
    log_bet
        float64, shape (steps, alternatives).
    """
    for step in range(log_bet.shape[0]):
        for k in range(log_bet.shape[1]):
            score[k] += log_bet[step, k]
            if score[k] <= 0.0:
                score[k] = 0.0
                since_ms[k] = end_ms[step]


@njit()
def shuffle(cell: Ints, positive: Ints, seed: int) -> None:
    """Shuffle events in place (Fisher and Yates), in an order that the seed alone determines (SplitMix64)."""
    state = np.uint64(seed)
    for at in range(cell.shape[0] - 1, 0, -1):
        state += np.uint64(0x9E3779B97F4A7C15)
        word = (state ^ (state >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        word = (word ^ (word >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        word ^= word >> np.uint64(31)
        other = np.int64((word >> np.uint64(11)) % np.uint64(at + 1))
        cell[at], cell[other] = cell[other], cell[at]
        positive[at], positive[other] = positive[other], positive[at]


@njit()
def expand(first: Ints, cell: Ints, values: Ints, seed: Ints) -> tuple[Ints, Ints]:
    """List the labelled events of each step in an order that a seed determines, and that does not depend on outcomes.

    Parameters
    ----------
    first, cell, values
        See :class:`monitor.sequential.steps.Steps`.
    seed
        int64, shape (steps,).

    Returns
    -------
    tuple
        The cell of each event and whether it is positive, int64, shape (events,) each.
    """
    events = 0
    for row in range(cell.shape[0]):
        events += values[row, 0] + values[row, 1]
    at_cell, positive = np.empty(events, np.int64), np.empty(events, np.int64)
    at = 0
    for step in range(first.shape[0] - 1):
        begin = at
        for row in range(first[step], first[step + 1]):
            count = values[row, 0] + values[row, 1]
            at_cell[at : at + count] = cell[row]
            positive[at : at + values[row, 0]] = 1
            positive[at + values[row, 0] : at + count] = 0
            at += count
        shuffle(at_cell[begin:at], positive[begin:at], seed[step])
    return at_cell, positive


@njit(fastmath={"contract", "nsz"})
def conditional_bets(
    cell: Ints, positive: Ints, width: int, logit: Floats, shift: Floats, region: Ints, bump: Floats
) -> Floats:
    """Compute likelihood ratios of blocks of events, given how many of each block are positive.

    Given their number, an offset of all logits cancels. The probability of the number is that of a sum over subsets, which
    is symmetric in the events: an elementary symmetric polynomial of their odds.

    Parameters
    ----------
    cell, positive
        int64, shape (blocks * width,).
    width
        Events of a block.
    logit
        float64, shape (cells,): of the predictions.
    shift
        float64, shape (cells, a): shifts of the alternatives, in logits.
    region
        int64, shape (cells,): of the bumps, below 8.
    bump
        float64, shape (2,): shifts of the bumps in their region.

    Returns
    -------
    float64, shape (blocks, a + 16): logarithms. Blocks with equal outcomes count as 0.
    """
    own = shift.shape[1]
    alternatives = own + 16
    # exp(shift) and exp(-shift), as the rarer label is the positive one or the negative one.
    ratio, bump_ratio = np.empty((2, *shift.shape)), np.empty((2, 2))
    ratio[0], bump_ratio[0] = np.exp(shift), np.exp(bump)
    ratio[1], bump_ratio[1] = 1.0 / ratio[0], 1.0 / bump_ratio[0]
    blocks = cell.shape[0] // width
    result = np.zeros((blocks, alternatives))
    sums = np.empty((width // 2 + 1, alternatives + 1))  # the last column is of the predictions themselves
    odds = np.empty(alternatives + 1)
    for block in range(blocks):
        begin = block * width
        positives, mean = 0, 0.0
        for at in range(begin, begin + width):
            positives += positive[at]
            mean += logit[cell[at]] / width
        if positives == 0 or positives == width:
            continue
        # Of the rarer label; odds are scaled so that the largest terms have the order of 1.
        side = 0 if 2 * positives <= width else 1
        sign = 1.0 - 2.0 * side
        chosen = min(positives, width - positives)
        scale = np.log(chosen / (width - chosen))
        sums[:] = 0.0
        sums[0] = 1.0
        for at in range(begin, begin + width):
            c = cell[at]
            odds[:] = np.exp(sign * (logit[c] - mean) + scale)
            for k in range(own):
                odds[k] *= ratio[side, c, k]
            for k in range(2):
                odds[own + 2 * region[c] + k] *= bump_ratio[side, k]
            for j in range(min(at - begin + 1, chosen), 0, -1):
                for k in range(alternatives + 1):
                    sums[j, k] += odds[k] * sums[j - 1, k]
            if positive[at] != side:
                for k in range(own):
                    result[block, k] += sign * shift[c, k]
                for k in range(2):
                    result[block, own + 2 * region[c] + k] += sign * bump[k]
        expected = np.log(sums[chosen, alternatives])
        for k in range(alternatives):
            result[block, k] += expected - np.log(sums[chosen, k])
            if not np.isfinite(result[block, k]):
                # Sums overflow where logits of a block spread widely: no bet, which outcomes do not decide on.
                result[block, k] = 0.0
    return result
