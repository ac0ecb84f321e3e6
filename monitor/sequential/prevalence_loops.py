"""Loops of the bets that no change of prevalence moves."""

import numpy as np

from monitor.arrays import Floats, Ints
from monitor.loops import njit

_REGIONS = 8
_PAIRS = 4
_SLOPES = 6
_STEP = 0x9E3779B97F4A7C15
_SHARES = float(1 << 53)


@njit()
def split_mix(state: np.uint64) -> np.uint64:
    """Scramble the bits of a number (SplitMix64)."""
    word = (state ^ (state >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    word = (word ^ (word >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return word ^ (word >> np.uint64(31))


@njit()
def list_events(
    event: Ints, begin: int, cell: Ints, values: Ints, seed: int, bound: Ints, bound_begin: Floats, bound_end: Floats
) -> int:
    """List the labelled events of a step, in an order that the seed determines and that does not depend on outcomes.

    Parameters
    ----------
    event
        int64: from ``begin`` on, each event is written as 16 * cell + 2 * region + outcome.
    cell, values
        Rows of the step: see :class:`monitor.scores.steps.Steps`.
    bound, bound_begin, bound_end
        See :class:`monitor.sequential.prevalence.Regions`.

    Returns
    -------
    The end of the list.
    """
    end, state, below = begin, np.uint64(seed), 0
    for row in range(cell.shape[0]):
        c, start, extent = cell[row], 0.0, 0.0
        while below < bound.shape[0] and bound[below] < c:
            below += 1
        region = below
        if below < bound.shape[0] and bound[below] == c:
            start, extent = bound_begin[below], bound_end[below] - bound_begin[below]
        positives = values[row, 0]
        for at in range(positives + values[row, 1]):
            if extent > 0.0:
                state += np.uint64(_STEP)
                region = min(int(start + extent * (split_mix(state) >> np.uint64(11)) / _SHARES), _REGIONS - 1)
            event[end] = 16 * c + 2 * region + (at < positives)
            end += 1
    # Fisher and Yates.
    for at in range(end - 1, begin, -1):
        state += np.uint64(_STEP)
        other = begin + np.int64(((split_mix(state) >> np.uint64(32)) * np.uint64(at - begin + 1)) >> np.uint64(32))
        event[at], event[other] = event[other], event[at]
    return end


@njit()
def bet_on_block(
    event: Ints,
    probability: Floats,
    band: float,
    slope_point: Floats,
    bump_point: Floats,
    work: Floats,
    product: Floats,
) -> None:
    """Multiply the bets of a block of events into their products.

    Parameters
    ----------
    event
        int64, shape (width,): see :func:`list_events`.
    probability
        float64, shape (cells, 2): of a negative and of a positive outcome, as predicted.
    band
        See :func:`bet_on_count`.
    slope_point
        float64, shape (2, 4, 6): odds ratios, relative to those predicted, of the upper region of each pair to its
        lower one under each slope: of negative and of positive outcomes.
    bump_point
        float64, shape (2, 2): the same of a region to all others under each bump.
    work
        float64, shape (27, 3 * width), for intermediate results.
    product
        float64, shape (22,), changed in place.
    """
    width = event.shape[0]
    positives, expected = 0, 0.0
    for at in range(width):
        positives += event[at] & 1
        expected += probability[event[at] >> 4, 1]
    if positives == 0 or positives == width:
        return
    # The rarer outcome is counted.
    counted = 1 if 2 * positives <= width else 0
    total = positives if counted == 1 else width - positives
    if counted == 0:
        expected = width - expected
    # A common factor of the odds changes no conditional law. With this one, the laws are large where they are read.
    factor = (total * (width - expected)) / ((width - total) * expected)
    law, before, after, joint = work[:8], work[8:17], work[17:26], work[26]
    law[:, : total + 1] = 0.0
    law[:, 0] = 1.0
    size, hits = np.zeros(_REGIONS, np.int64), np.zeros(_REGIONS, np.int64)
    for at in range(width):
        r = (event[at] >> 1) & 7
        size[r] += 1
        hits[r] += (event[at] & 1) == counted
        p = factor * probability[event[at] >> 4, counted]
        p /= p + probability[event[at] >> 4, 1 - counted]
        add_event(law[r], p, min(size[r], total))
    for pair in range(_PAIRS):
        lower, upper = pair, _REGIONS - 1 - pair
        both = hits[lower] + hits[upper]
        least, most = max(0, both - size[lower]), min(both, size[upper])
        for j in range(least, most + 1):
            joint[j] = law[upper, j] * law[lower, both - j]
        bet_on_count(joint, least, most, hits[upper], band, slope_point[counted, pair], product[:_SLOPES])
    # The laws of the sums of the regions before each, upwards, and of those after each, downwards from the total.
    reach = total + size.max() + 4
    before[:, :reach], after[:, :reach] = 0.0, 0.0
    before[0, 0], after[_REGIONS, total] = 1.0, 1.0
    for r in range(_REGIONS - 1, 0, -1):
        correlate(after[r + 1], 0, law[r], min(size[r], total), total, after[r])
        after[r, total + 1 : total + 4] = 0.0
    held = 0
    for r in range(_REGIONS):
        least, most = max(0, total - (width - size[r])), min(total, size[r])
        correlate(after[r + 1], least, before[r], min(total - least, held), most - least, joint[least:])
        for j in range(least, most + 1):
            joint[j] *= law[r, j]
        bet_on_count(
            joint, least, most, hits[r], band, bump_point[counted], product[_SLOPES + 2 * r : _SLOPES + 2 * r + 2]
        )
        convolve(before[r], min(held, total), law[r], most, total, before[r + 1])
        held += size[r]


@njit()
def add_event(law: Floats, p: float, most: int) -> None:
    """Add an event to the law of a number of events, which is at most so large."""
    for j in range(np.uint64(most), np.uint64(0), np.int64(-1)):
        law[j] += p * (law[j - 1] - law[j])
    law[0] -= p * law[0]


@njit()
def convolve(a: Floats, a_last: int, b: Floats, b_last: int, last: int, result: Floats) -> None:
    """Add ``sum of a[i - j] * b[j]`` to ``result[i]`` up to index ``last``; of a and b, up to theirs."""
    for j in range(np.uint64(b_last + 1)):
        factor = b[j]
        for i in range(np.uint64(min(a_last, last - int(j)) + 1)):
            result[i + j] += a[i] * factor


@njit()
def correlate(a: Floats, first: int, b: Floats, b_last: int, last: int, result: Floats) -> None:
    """Compute ``result[i] = sum of b[j] * a[first + i + j]`` up to index ``last``, and 3 more."""
    one, two, three = np.uint64(1), np.uint64(2), np.uint64(3)
    for i in range(np.uint64(0), np.uint64(last + 1), np.uint64(4)):
        sum_0, sum_1, sum_2, sum_3 = 0.0, 0.0, 0.0, 0.0
        for j in range(np.uint64(b_last + 1)):
            factor, at = b[j], np.uint64(first) + i + j
            sum_0 += factor * a[at]
            sum_1 += factor * a[at + one]
            sum_2 += factor * a[at + two]
            sum_3 += factor * a[at + three]
        result[i], result[i + one], result[i + two], result[i + three] = sum_0, sum_1, sum_2, sum_3


@njit()
def bet_on_count(law: Floats, least: int, most: int, count: int, band: float, point: Floats, product: Floats) -> None:
    """Multiply bets on a number of events into their products.

    Parameters
    ----------
    law
        Its law as predicted, up to a factor, from ``least`` to ``most``.
    count
        What it is.
    band
        The largest factor of the odds that is no evidence; its inverse is the smallest.
    point
        float64, shape (alternatives,), 2 or 6: factors of the odds.
    product
        float64, shape (alternatives,), changed in place.
    """
    if least == most:
        return
    lower, upper, at_0, at_1 = sum_powers(law, least, most, count, 1.0 / band, band, point[0], point[1])
    if lower + upper == 0.0:
        return
    product[0] *= bet(point[0], at_0, band, lower, upper)
    product[1] *= bet(point[1], at_1, band, lower, upper)
    for k in range(2, product.shape[0], 4):
        w, x, y, z = point[k], point[k + 1], point[k + 2], point[k + 3]
        at_w, at_x, at_y, at_z = sum_powers(law, least, most, count, w, x, y, z)
        product[k] *= bet(w, at_w, band, lower, upper)
        product[k + 1] *= bet(x, at_x, band, lower, upper)
        product[k + 2] *= bet(y, at_y, band, lower, upper)
        product[k + 3] *= bet(z, at_z, band, lower, upper)


@njit()
def bet(factor: float, value: float, band: float, lower: float, upper: float) -> float:
    """What a factor of the odds earns, with its sum of powers and those at the edges of the band."""
    if factor <= band and factor * band >= 1.0:
        return 1.0
    earned = (upper if factor > band else lower) / value
    # What is no number was too small, or too large to be computed.
    return min(earned, 1e100) if earned > 1e-100 else 1e-100


@njit()
def sum_powers(
    law: Floats, least: int, most: int, at: int, w: float, x: float, y: float, z: float
) -> tuple[float, float, float, float]:
    """Sum ``law[j] * w**(j - at)`` over j from ``least`` to ``most``, and the same for x, y and z."""
    up_w, up_x, up_y, up_z, down_w, down_x, down_y, down_z = 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0
    for j in range(most, at - 1, -1):
        up_w, up_x, up_y, up_z = up_w * w + law[j], up_x * x + law[j], up_y * y + law[j], up_z * z + law[j]
    per_w, per_x, per_y, per_z = 1.0 / w, 1.0 / x, 1.0 / y, 1.0 / z
    for j in range(least, at):
        down_w, down_x = (down_w + law[j]) * per_w, (down_x + law[j]) * per_x
        down_y, down_z = (down_y + law[j]) * per_y, (down_z + law[j]) * per_z
    return up_w + down_w, up_x + down_x, up_y + down_y, up_z + down_z


@njit()
def conditional_bets(
    waiting: Ints,
    end_ms: Ints,
    first: Ints,
    cell: Ints,
    values: Ints,
    bound: Ints,
    bound_begin: Floats,
    bound_end: Floats,
    probability: Floats,
    band: float,
    slope_point: Floats,
    bump_point: Floats,
    width: int,
) -> tuple[Floats, Ints]:
    """Bet on the blocks of events that each step completes.

    Parameters
    ----------
    waiting
        int64: events of a block that is not complete.
    end_ms, first, cell, values
        See :class:`monitor.scores.steps.Steps`. Of cells without doubt, whose probability is 0, nothing is read.
    bound, bound_begin, bound_end
        See :class:`monitor.sequential.prevalence.Regions`.
    probability, band, slope_point, bump_point
        See :func:`bet_on_block`.
    width
        Events of a block.

    Returns
    -------
    tuple
        Logarithms of the bets, float64, shape (steps, alternatives); and the events that wait now.
    """
    alternatives, largest = _SLOPES + 2 * _REGIONS, 0
    for step in range(end_ms.shape[0]):
        largest = max(largest, values[first[step] : first[step + 1], :2].sum())
    event, held = np.empty(width + largest, np.int64), waiting.shape[0]
    event[:held] = waiting
    work = np.empty((27, 3 * width))
    result, product = np.zeros((end_ms.shape[0], alternatives)), np.ones(alternatives)
    for step in range(end_ms.shape[0]):
        begin, end = first[step], first[step + 1]
        # The cells of 0 and 1, and those next to them, are the first and the last ones.
        while begin < end and probability[cell[begin], 0] == 0.0:
            begin += 1
        while begin < end and probability[cell[end - 1], 0] == 0.0:
            end -= 1
        held = list_events(event, held, cell[begin:end], values[begin:end], end_ms[step], bound, bound_begin, bound_end)
        blocks = held // width
        for block in range(blocks):
            of_block = event[block * width : (block + 1) * width]
            bet_on_block(of_block, probability, band, slope_point, bump_point, work, product)
            for k in range(alternatives):
                # The logarithm of a product costs less than those of its factors.
                if block == blocks - 1 or not 1e-100 < product[k] < 1e100:
                    result[step, k] += np.log(product[k])
                    product[k] = 1.0
        left = held - blocks * width
        event[:left] = event[blocks * width : held].copy()
        held = left
    return result, event[:held].copy()
