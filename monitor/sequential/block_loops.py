"""Loops of the bets on blocks of one horizon."""

import numpy as np

from monitor.arrays import Floats, Ints
from monitor.loops import njit

_OFFSETS = 2
_SLOPES = 2
_REGIONS = 8


@njit()
def bet_on_blocks(
    block: int,
    gain: Floats,
    loss: Floats,
    horizon_ms: int,
    parity: int,
    end_ms: Ints,
    first: Ints,
    cell: Ints,
    values: Ints,
    edge: Floats,
    logit: Floats,
    centre: float,
    region_starts: Ints,
    share: Floats,
) -> tuple[int, Floats]:
    """Bet on each block of one parity once it is complete.

    Parameters
    ----------
    block
        The current one, that is the one in which the last step ended.
    gain, loss
        float64, shape (20,): what each pattern has gained in it, and the most it could have lost; changed in place.
    horizon_ms, parity
        Length of a block; which ones are bet on.
    end_ms, first, cell, values
        See :class:`monitor.scores.steps.Steps`.
    edge
        float64, shape (cells, 2, 2): lines through the lower and the upper edge of the band: a probability and how much
        more it is per unit of the prediction above the cell's anchor.
    logit
        float64, shape (cells,).
    centre, region_starts
        See :class:`monitor.sequential.alternatives.Profile`.
    share
        float64, shape (s,).

    Returns
    -------
    tuple
        The current block after the steps, and the logarithms of bets, float64, shape (steps, 20 * s): 0 for steps that
        complete no block.
    """
    patterns, shares = gain.shape[0], share.shape[0]
    result = np.zeros((end_ms.shape[0], patterns * shares))
    for step in range(end_ms.shape[0]):
        for turn in range(2):
            # A block is complete when a step ends in a later one, or with it.
            last = (end_ms[step] - 1) // horizon_ms
            complete = last > block if turn == 0 else end_ms[step] == (last + 1) * horizon_ms
            if complete and block % 2 == parity:
                for k in range(patterns):
                    for i in range(shares):
                        if loss[k] > 0.0:
                            result[step, k * shares + i] = np.log1p(share[i] * gain[k] / loss[k])
                gain[:], loss[:] = 0.0, 0.0
            if turn == 0:
                block = max(block, last)
                if block % 2 == parity:
                    rows = slice(first[step], first[step + 1])
                    add_step(gain, loss, cell[rows], values[rows], edge, logit, centre, region_starts)
    return block, result


@njit()
def add_step(
    gain: Floats,
    loss: Floats,
    cell: Ints,
    values: Ints,
    edge: Floats,
    logit: Floats,
    centre: float,
    region_starts: Ints,
) -> None:
    """Add the events of a step to what the patterns gain and could lose: see :func:`bet_on_blocks`."""
    region = 0
    for row in range(cell.shape[0]):
        c, count = cell[row], float(values[row, 0] + values[row, 1])
        if count == 0.0:
            continue
        while region < region_starts.shape[0] and region_starts[region] <= c:
            region += 1
        above = float(values[row, 3] + values[row, 4])
        lower = count * edge[c, 0, 0] + above * edge[c, 0, 1]
        upper = count * edge[c, 1, 0] + above * edge[c, 1, 1]
        # Of rates above the band, and of rates below it.
        up, up_loss = values[row, 0] - upper, upper
        down, down_loss = lower - values[row, 0], count - lower
        weight = min(max(logit[c] - centre, -1.0), 1.0)
        bump = _OFFSETS + _SLOPES + 2 * region
        add(gain, loss, 0, 1.0, up, up_loss)
        add(gain, loss, 1, 1.0, down, down_loss)
        if weight >= 0.0:
            add(gain, loss, 2, weight, up, up_loss)
            add(gain, loss, 3, weight, down, down_loss)
        else:
            add(gain, loss, 2, -weight, down, down_loss)
            add(gain, loss, 3, -weight, up, up_loss)
        add(gain, loss, bump, 1.0, up, up_loss)
        add(gain, loss, bump + 1, 1.0, down, down_loss)


@njit()
def add(gain: Floats, loss: Floats, pattern: int, weight: float, gained: float, lost: float) -> None:
    """Add to what a pattern gains and could lose."""
    gain[pattern] += weight * gained
    loss[pattern] += weight * lost
