"""Loops of the bets that no change of prevalence moves."""

import numpy as np

from monitor.arrays import Floats, Ints
from monitor.compiled import njit


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
