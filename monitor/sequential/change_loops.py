"""Loops of the bets that outcomes changed."""

import math

import numpy as np

from monitor.arrays import Floats, Ints
from monitor.loops import njit
from monitor.sequential.prevalence_loops import split_mix

_FEW = 64
"""Up to so many positive events, or negative ones, weights are counted out; beyond, a saddlepoint is close enough: the
relative error of its correction is 1 in 300 times the square of their number."""
_REACH = 6.0, 4.0
"""Standard deviations around the mean, and events, beyond which weights are nothing."""
_SHORT = 16
"""Logarithms of weights are one polynomial in a range whose size is the variance over this: its error is 1e-5."""
_NEAR = 1e-4
"""Step of an offset after which the next one would be its square."""
_CLOSE = 0.01
"""Step of an offset that is not worth taking where the offset only has to be near."""
_LOOSE = 1.0 / 9.0
"""1 over the variance of what is expected of an offset: some logits."""


@njit()
def uniform(seed: int, end_ms: int, group: int) -> float:
    """Return a number in (0, 1) that looks random and depends on the arguments alone."""
    step = np.uint64(0x9E3779B97F4A7C15)
    word = split_mix(split_mix(np.uint64(seed) + step * np.uint64(end_ms)) + step * np.uint64(group + 1))
    return (float(word >> np.uint64(12)) + 0.5) / 4503599627370496.0


@njit()
def cumulants(events: Floats, logit: Floats, offset: float) -> tuple[float, float, float, float]:
    """Return the first four cumulants of the number of positive events, the mean and the variance among them."""
    mean = variance = third = fourth = 0.0
    for i in range(events.shape[0]):
        n = events[i]
        if n == 0.0:
            continue
        p = 1.0 / (1.0 + np.exp(-logit[i] - offset))
        v = p * (1.0 - p)
        mean += n * p
        variance += n * v
        third += n * v * (1.0 - 2.0 * p)
        fourth += n * v * (1.0 - 6.0 * v)
    return mean, variance, third, fourth


@njit()
def log_partition(events: Floats, logit: Floats, offset: float) -> float:
    """Return the logarithm of the product of 1 + odds over all events."""
    result = 0.0
    for i in range(events.shape[0]):
        x = logit[i] + offset
        result += events[i] * (max(x, 0.0) + np.log1p(np.exp(-abs(x))))
    return result


@njit()
def newton_step(positives: float, mean: float, variance: float) -> float:
    """Return a step towards the offset of all logits with which so many positive events are expected.

    A logit changes the variance by a factor of e at most, so steps of one converge from anywhere.
    """
    return min(max((positives - mean) / max(variance, 1e-300), -1.0), 1.0)


@njit()
def solve_offset(events: Floats, logit: Floats, positives: float, start: float) -> float:
    """Return the offset with which so many positive events are expected: more than 0, not all.

    Parameters
    ----------
    events, logit
        float64, shape (bins,).
    start
        Where it is looked for at first.
    """
    offset = start
    for _ in range(200):
        mean, variance, _, _ = cumulants(events, logit, offset)
        step = newton_step(positives, mean, variance)
        offset += step
        if abs(step) < _NEAR:
            break
    return offset


@njit()
def count_weights(events: Floats, logit: Floats, sign: float, offset: float, most: int) -> Floats:
    """Return the probabilities of 0 to so many positive events, float64, shape (most + 1,), or negative ones.

    Parameters
    ----------
    sign
        1 for positive ones, -1 for negative ones.
    """
    result = np.zeros(most + 1)
    result[0] = 1.0
    term = np.empty(most + 1)
    reached = 0
    for i in range(events.shape[0]):
        n = int(events[i])
        if n == 0:
            continue
        x = sign * (logit[i] + offset)
        small = np.exp(-abs(x))
        odds = 1.0 / small if x > 0.0 else small
        term[0] = ((small if x > 0.0 else 1.0) / (1.0 + small)) ** n
        own = min(n, most)
        for j in range(1, own + 1):
            term[j] = term[j - 1] * (n - j + 1.0) / j * odds
        reached = min(reached + own, most)
        for k in range(reached, -1, -1):
            total = 0.0
            for j in range(min(k, own) + 1):
                total += term[j] * result[k - j]
            result[k] = total
    return result


@njit()
def log_weights(
    events: Floats, logit: Floats, offset: float, moments: tuple[float, float, float, float], least: int, most: int
) -> Floats:
    """Return the logarithms of the sums of the products of odds over all choices of k positive events.

    Parameters
    ----------
    events, logit
        float64, shape (bins,): the number of events of each bin, and their logit.
    offset
        Of all logits, close enough to what makes numbers in the range likely.
    moments
        Cumulants at this offset.
    least, most
        The range of k, within 0 and the number of events.

    Returns
    -------
    float64, shape (most - least + 1,)
        But for a constant.
    """
    whole = int(events.sum())
    if most <= _FEW:
        return np.log(np.maximum(count_weights(events, logit, 1.0, offset, most)[least:], 1e-300))
    if whole - least <= _FEW:
        # Those that are negative are as many ways.
        negative = count_weights(events, logit, -1.0, offset, whole - least)
        return np.log(np.maximum(negative[whole - most :], 1e-300))[::-1]
    result = np.empty(most - least + 1)
    mean, variance, third, fourth = moments
    if _SHORT * (max(most - mean, mean - least) + 1.0) < variance:
        # The same saddlepoint, in powers of the distance from the mean.
        a, b = third / variance**2, fourth / variance**3
        for k in range(least, most + 1):
            x = k - mean
            higher = x * (a * x - (3.0 * a * a - b) * x * x / 4.0) / (6.0 * variance)
            result[k - least] = x * (-0.5 * x / variance - 0.5 * a - 0.25 * (b - 2.0 * a * a) * x + higher)
        return result
    tilt = offset
    for k in range(least, most + 1):
        if k in (0, whole):
            result[k - least] = 0.0 if k == 0 else np.sum(events * (logit + offset))
            continue
        tilt = solve_offset(events, logit, float(k), tilt)
        _, variance, third, fourth = cumulants(events, logit, tilt)
        correction = fourth / (8.0 * variance**2) - 5.0 * third**2 / (24.0 * variance**3)
        exponent = log_partition(events, logit, tilt) - (tilt - offset) * k
        result[k - least] = exponent - 0.5 * np.log(2.0 * math.pi * variance) + correction
        tilt += (1.0 - third / (2.0 * variance**2)) / variance
    return result


@njit()
def log_tail(k: int, positives: int, sides: Floats, start: float, share: float) -> tuple[float, bool, float]:
    """Return the logarithm of a tail of the law of the positive events of a block, and whether it is the lower one.

    Given the number of positive events before and in the block, each choice of them is as likely as the product of its
    odds: Fisher's noncentral hypergeometric law of the number in the block, with odds for each event.

    The lower tail is F(k - 1) + share * f(k), which is uniform if share is, and the upper one is 1 less that. It is the
    tail on the side of the mean on which k lies, so that it keeps its precision however small it is.

    Parameters
    ----------
    k, positives
        Positive events of the block, and of both.
    sides
        float64, shape (2, 2, bins): of the block, and of what came before: events of each bin, and their logit.
    start
        An offset of theirs from which the right one is looked for.

    Returns
    -------
    tuple
        Also the standard deviation of the number if the offset is ``start``, reduced by what those before are uncertain
        by; 0 if there are none on one side.
    """
    block, before = sides[0], sides[1]
    whole, draws = int(before[0].sum() + block[0].sum()), int(block[0].sum())
    least, most = max(0, positives - (whole - draws)), min(draws, positives)
    if draws in (0, whole):
        return min(np.log(share), -1e-16), True, 0.0
    offset, deviation = start, -1.0
    moments = moments_before = (0.0, 0.0, 0.0, 0.0)
    for _ in range(200):
        moments, moments_before = cumulants(block[0], block[1], offset), cumulants(before[0], before[1], offset)
        both = moments[1] + moments_before[1]
        if deviation < 0.0:
            deviation = np.sqrt(moments[1] * moments_before[1] / both) if both > 0.0 else 0.0
            if least == most:
                return min(np.log(share), -1e-16), True, deviation
        # The law is the same at any offset: one near the right one is enough.
        step = newton_step(float(positives), moments[0] + moments_before[0], both)
        if abs(step) < _CLOSE:
            break
        offset += step
    mean = moments[0]
    reach = _REACH[0] * np.sqrt(moments[1] * moments_before[1] / both) + _REACH[1]
    least = max(least, int(np.floor(min(mean, k) - reach)))
    most = min(most, int(np.ceil(max(mean, k) + reach)))
    weights = log_weights(block[0], block[1], offset, moments, least, most)
    weights += log_weights(before[0], before[1], offset, moments_before, positives - most, positives - least)[::-1]
    weights -= weights.max()
    lower = k <= mean
    own, total = weights[k - least], 0.0
    tail = share if lower else 1.0 - share
    for j in range(weights.shape[0]):
        total += np.exp(weights[j])
        if (j < k - least) if lower else (j > k - least):
            tail += np.exp(weights[j] - own)
    return min(own + np.log(tail) - np.log(total), -1e-16), lower, deviation


@njit()
def smooth_offsets(group: Ints, events: Floats, logit: Floats, positives: Floats, stiffness: float) -> Floats:
    """Return the offset of each group from the predictions: the most likely ones of a random walk over the groups.

    Parameters
    ----------
    group
        int64, shape (bins,): ascending.
    events, logit
        float64, shape (bins,).
    positives
        float64, shape (groups,).
    stiffness
        1 over the variance of the difference of neighbours.
    """
    groups = positives.shape[0]
    offset = np.zeros(groups)
    for _ in range(200):
        slope, curve = positives - offset * _LOOSE, np.full(groups, _LOOSE)
        for i in range(events.shape[0]):
            g = group[i]
            p = 1.0 / (1.0 + np.exp(-logit[i] - offset[g]))
            slope[g] -= events[i] * p
            curve[g] += events[i] * p * (1.0 - p)
        for g in range(groups - 1):
            pull = stiffness * (offset[g + 1] - offset[g])
            slope[g] += pull
            slope[g + 1] -= pull
            curve[g] += stiffness
            curve[g + 1] += stiffness
        # Newton's step: curve on the diagonal, -stiffness beside it.
        for g in range(1, groups):
            ratio = stiffness / curve[g - 1]
            curve[g] -= ratio * stiffness
            slope[g] += ratio * slope[g - 1]
        largest = 0.0
        for g in range(groups - 1, -1, -1):
            slope[g] = (slope[g] + (stiffness * slope[g + 1] if g < groups - 1 else 0.0)) / curve[g]
            largest = max(largest, abs(slope[g]))
        offset += slope / max(largest, 1.0)
        if largest < _NEAR**2:
            break
    return offset


@njit()
def logits_of(bins: Floats, bound: float) -> Floats:
    """Return bins with the logit of their mean prediction in place of its sum, float64, shape (2, bins).

    Parameters
    ----------
    bins
        float64, shape (2, bins): events and the sum of their predictions.
    bound
        The least mean, and 1 less the largest.
    """
    result = np.zeros(bins.shape)
    for i in range(bins.shape[1]):
        if bins[0, i] > 0.0:
            p = min(max(bins[1, i] / bins[0, i], bound), 1.0 - bound)
            result[0, i], result[1, i] = bins[0, i], np.log(p / (1.0 - p))
    return result


@njit()
def rank_blocks(
    first: Ints,
    end_ms: Ints,
    cell: Ints,
    values: Ints,
    grid: tuple[Ints, Floats, float, float],
    middle: Floats,
    starts: Ints,
    offset: Floats,
    seed: int,
    least: tuple[float, float],
    held: bool,
    before: Floats,
    positives_before: Ints,
    block: Floats,
    positives: Ints,
    information: Floats,
) -> tuple[Ints, Floats, Floats, Floats]:
    """Rank the positive events of each block, group by group, among all that came before and those of the block.

    Consecutive steps are one block until their predictions promise enough information, of enough events.

    Parameters
    ----------
    first, end_ms, cell, values
        See :class:`monitor.scores.steps.Steps`.
    grid
        The bin of each cell, int64, shape (cells,), and its anchor, float64, shape (cells,); what a unit of sums of
        predictions is; and the least prediction that is taken for certain.
    middle
        float64, shape (bins,): a logit in each bin.
    starts
        int64, shape (groups + 1,): the first bin of each group, and the number of bins.
    offset
        float64, shape (groups,): how many logits higher than predicted outcomes were in the pilot.
    seed
        Of the series.
    least
        Information of a block, that is the variance of the number of positive events; and events.
    held
        Whether the events of finished blocks are left out of what came before.
    before, positives_before
        float64, shape (2, bins): earlier events and the sum of their predictions; and int64, shape (groups,): the
        positive ones. On return, with those of the blocks.
    block, positives, information
        The same of the unfinished block, and its information at the rates of the pilot, float64, shape (1,); on return,
        of the one that the steps leave unfinished.

    Returns
    -------
    tuple
        Of each finished block: its last step, int64, shape (blocks,). Then, float64, shape (blocks, groups) each: the
        logarithm of the smaller tail; 1 if it is the lower one and -1 if it is the upper one; and the standard
        deviation of the positive events if rates are those of the pilot, reduced by what ``before`` is uncertain by; 0
        without events.
    """
    bin_of, anchor, unit, bound = grid
    steps, groups = first.shape[0] - 1, offset.shape[0]
    last = np.empty(steps, np.int64)
    tail, sign, scale = np.full((steps, groups), -1.0), np.ones((steps, groups)), np.zeros((steps, groups))
    blocks = 0
    group_of = np.searchsorted(starts, np.arange(block.shape[1]), side="right") - 1
    rate = 1.0 / (1.0 + np.exp(-middle - offset[group_of]))
    variance, events = rate * (1.0 - rate), block[0].sum()
    for step in range(steps):
        for row in range(first[step], first[step + 1]):
            at = bin_of[cell[row]]
            n = values[row, 0] + values[row, 1]
            block[0, at] += n
            block[1, at] += n * anchor[cell[row]] + (values[row, 3] + values[row, 4]) * unit
            positives[group_of[at]] += values[row, 0]
            information[0] += n * variance[at]
            events += n
        if information[0] < least[0] or events < least[1]:
            continue
        sides = np.empty((2, 2, block.shape[1]))
        sides[0], sides[1] = logits_of(block, bound), logits_of(before, bound)
        for g in range(groups):
            known = positives_before[g] + positives[g]
            share = uniform(seed, end_ms[step], g)
            tail[blocks, g], lower, scale[blocks, g] = log_tail(
                positives[g], known, sides[:, :, starts[g] : starts[g + 1]], offset[g], share
            )
            sign[blocks, g] = 1.0 if lower else -1.0
        if not held:
            before += block
            positives_before += positives
        block[:], positives[:], information[0], events = 0.0, 0, 0.0, 0.0
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
