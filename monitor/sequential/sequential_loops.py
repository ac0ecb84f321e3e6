"""Loops of sequential evidence over rows of cells."""

import math

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


@njit()
def uniform(seed: int, number: int) -> float:
    """A number in (0, 1) that depends on both arguments alone (SplitMix64)."""
    word = np.uint64(seed) + np.uint64(0x9E3779B97F4A7C15) * np.uint64(number + 1)
    word = (word ^ (word >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    word = (word ^ (word >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    word ^= word >> np.uint64(31)
    return (float(word >> np.uint64(12)) + 0.5) / 4503599627370496.0


@njit()
def normal_quantile(u: float) -> float:
    """Quantile of the standard normal law, by Wichura's algorithm AS 241 (PPND16); relative error below 1e-15."""
    q = u - 0.5
    if abs(q) <= 0.425:
        r = 0.180625 - q * q
        top = 2509.0809287301226727
        for c in (
            33430.575583588128105,
            67265.770927008700853,
            45921.953931549871457,
            13731.693765509461125,
            1971.5909503065514427,
            133.14166789178437745,
            3.387132872796366608,
        ):
            top = top * r + c
        bottom = 5226.495278852854561
        for c in (
            28729.085735721942674,
            39307.89580009271061,
            21213.794301586595867,
            5394.1960214247511077,
            687.1870074920579083,
            42.313330701600911252,
            1.0,
        ):
            bottom = bottom * r + c
        return q * top / bottom
    r = np.sqrt(-np.log(min(u, 1.0 - u)))
    if r <= 5.0:
        r -= 1.6
        top = 7.7454501427834140764e-4
        for c in (
            0.0227238449892691845833,
            0.24178072517745061177,
            1.27045825245236838258,
            3.64784832476320460504,
            5.7694972214606914055,
            4.6303378461565452959,
            1.42343711074968357734,
        ):
            top = top * r + c
        bottom = 1.05075007164441684324e-9
        for c in (
            5.475938084995344946e-4,
            0.0151986665636164571966,
            0.14810397642748007459,
            0.68976733498510000455,
            1.6763848301838038494,
            2.05319162663775882187,
            1.0,
        ):
            bottom = bottom * r + c
    else:
        r -= 5.0
        top = 2.01033439929228813265e-7
        for c in (
            2.71155556874348757815e-5,
            0.0012426609473880784386,
            0.026532189526576123093,
            0.29656057182850489123,
            1.7848265399172913358,
            5.4637849111641143699,
            6.6579046435011037772,
        ):
            top = top * r + c
        bottom = 2.04426310338993978564e-15
        for c in (
            1.4215117583164458887e-7,
            1.8463183175100546818e-5,
            7.868691311456132591e-4,
            0.0148753612908506148525,
            0.13692988092273580531,
            0.59983220655588793769,
            1.0,
        ):
            bottom = bottom * r + c
    return top / bottom if q > 0.0 else -top / bottom


@njit()
def rank_of_count(k: int, population: int, successes: int, draws: int, share: float) -> float:
    """Return F(k - 1) + share * f(k) of a hypergeometric law: uniform if share is."""
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
    at_k = np.exp(log_f)
    below = k * (population + 2) <= (draws + 1) * (successes + 1)
    total, term, j = 0.0, at_k, k
    while (j > least) if below else (j < most):
        if below:
            term *= j * float(population - successes - draws + j) / (float(successes - j + 1) * (draws - j + 1))
            j -= 1
        else:
            term *= float(successes - j) * (draws - j) / ((j + 1.0) * (population - successes - draws + j + 1))
            j += 1
        total += term
        if term <= 1e-17 * total:
            break
    return total + share * at_k if below else 1.0 - total - (1.0 - share) * at_k


@njit()
def change_bets(
    first: Ints, cell: Ints, values: Ints, group: Ints, middle: Floats, shift: Floats, before: Ints, seed: Ints
) -> Floats:
    """Compute bets that outcomes of a step are not exchangeable with all earlier ones of equal predictions.

    Parameters
    ----------
    first, cell, values
        See :class:`monitor.sequential.steps.Steps`.
    group
        int64, shape (cells,): of the predictions, below ``groups``.
    middle
        float64, shape (cells,): a prediction in the middle of each cell.
    shift
        float64, shape (alternatives, groups): in logits.
    before
        int64, shape (groups, 2): earlier events and the positive ones among them; on return, with those of the steps.
    seed
        int64, shape (steps,).

    Returns
    -------
    float64, shape (steps, alternatives): logarithms.
    """
    steps, groups = first.shape[0] - 1, before.shape[0]
    result = np.zeros((steps, shift.shape[0]))
    count, positive, mean = np.zeros(groups, np.int64), np.zeros(groups, np.int64), np.zeros(groups)
    for step in range(steps):
        count[:], positive[:], mean[:] = 0, 0, 0.0
        for row in range(first[step], first[step + 1]):
            g = group[cell[row]]
            n = values[row, 0] + values[row, 1]
            count[g] += n
            positive[g] += values[row, 0]
            mean[g] += n * middle[cell[row]]
        for g in range(groups):
            n, k = count[g], positive[g]
            if n > 0 and before[g, 0] > 0:
                known, known_positive = before[g, 0], before[g, 1]
                u = rank_of_count(k, known + n, known_positive + k, n, uniform(seed[step], g))
                z = normal_quantile(min(max(u, 1e-300), 1.0 - 1e-16))
                p = mean[g] / n
                scale = np.sqrt(n * p * (1.0 - p) * known / (known + n))
                for a in range(shift.shape[0]):
                    d = shift[a, g] * scale
                    result[step, a] += d * z - d * d / 2.0
            before[g, 0] += n
            before[g, 1] += k
    return result
