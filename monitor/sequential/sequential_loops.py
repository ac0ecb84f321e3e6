"""Loops of sequential evidence over rows of cells."""

import numpy as np

from monitor.arrays import Floats, Ints
from monitor.compiled import njit


@njit()
def sum_bets(first: Ints, cell: Ints, values: Floats, bets: Floats) -> Floats:
    """Sum the logarithms of bets on the rows of each step.

    Parameters
    ----------
    first
        int64, shape (steps + 1,): the rows of step ``t`` are ``first[t]`` to ``first[t + 1]``.
    cell
        int64, shape (rows,): row of ``bets``.
    values
        float64, shape (rows, 4): what the bets are linear in.
    bets
        float64, shape (cells, 4, alternatives).

    Returns
    -------
    float64, shape (steps, alternatives)
    """
    steps, alternatives = first.shape[0] - 1, bets.shape[2]
    result = np.zeros((steps, alternatives))
    for step in range(steps):
        for row in range(first[step], first[step + 1]):
            at = cell[row]
            for column in range(4):
                value = values[row, column]
                if value != 0.0:
                    for k in range(alternatives):
                        result[step, k] += value * bets[at, column, k]
    return result


@njit()
def accumulate(log_value: Floats, log_weight: Floats, log_bet: Floats) -> Floats:
    """Shiryaev-Roberts of each alternative, ``M <- (M + weight) * e``, in logarithms.

    Parameters
    ----------
    log_value
        float64, shape (alternatives,): log M before the first step; holds log M after the last one on return.
    log_weight
        float64, shape (steps,).
    log_bet
        float64, shape (steps, alternatives): log e.

    Returns
    -------
    float64, shape (steps,): log of the mean of M over the alternatives, after each step.
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
def shuffle(cell: Ints, positive: Ints, seed: int) -> None:
    """Shuffle events in place (Fisher and Yates), in an order that the seed alone determines."""
    state = np.uint64(seed)
    for at in range(cell.shape[0] - 1, 0, -1):
        state += np.uint64(0x9E3779B97F4A7C15)
        word = (state ^ (state >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        word = (word ^ (word >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        word ^= word >> np.uint64(31)
        other = np.int64((word >> np.uint64(11)) % np.uint64(at + 1))
        cell[at], cell[other] = cell[other], cell[at]
        positive[at], positive[other] = positive[other], positive[at]


@njit(fastmath={"contract", "reassoc", "nsz"})
def conditional_bets(cell: Ints, positive: Ints, odds: Floats, ratio: Floats, log_ratio: Floats, width: int) -> Floats:
    """Likelihood ratios of blocks of events given how many of them are positive: free of any offset of the log odds.

    Parameters
    ----------
    cell, positive
        int64, shape (blocks * width,).
    odds
        float64, shape (cells,): of the predictions.
    ratio, log_ratio
        float64, shape (cells, alternatives): the odds of each alternative, divided by those of the prediction. The first is 1.
    width
        Events of a block.

    Returns
    -------
    float64, shape (blocks, alternatives): logarithms.
    """
    blocks, alternatives = cell.shape[0] // width, ratio.shape[1]
    result = np.zeros((blocks, alternatives))
    sums = np.empty((width + 1, alternatives))
    for block in range(blocks):
        first = block * width
        s = 0
        for at in range(first, first + width):
            s += positive[at]
        if s == 0 or s == width:
            continue
        flip = 2 * s > width
        r = width - s if flip else s
        # Scaled so that the sum of the tilted probabilities is near r: no sum overflows.
        mean = 0.0
        for at in range(first, first + width):
            mean += np.log(odds[cell[at]])
        tilt = np.exp(-mean / width) * s / (width - s)
        sums[:] = 0.0
        sums[0] = 1.0
        done = 0
        for at in range(first, first + width):
            c = cell[at]
            o = odds[c] * tilt
            done += 1
            top = min(done, r)
            for k in range(alternatives):
                x = o * ratio[c, k]
                if positive[at] == 1:
                    result[block, k] += log_ratio[c, k]
                pi = 1.0 / (1.0 + x) if flip else x / (1.0 + x)
                if flip:
                    result[block, k] += 0.0
                for j in range(top, 0, -1):
                    sums[j, k] = sums[j, k] * (1.0 - pi) + sums[j - 1, k] * pi
                sums[0, k] *= 1.0 - pi
                result[block, k] -= np.log1p(x)
        for k in range(alternatives):
            result[block, k] -= np.log(sums[r, k])
        base = result[block, 0]
        for k in range(alternatives):
            result[block, k] -= base
    return result
