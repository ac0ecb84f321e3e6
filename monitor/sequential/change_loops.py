"""Loops of the bets against exchangeability."""

import math

import numpy as np

from monitor.arrays import Floats, Ints
from monitor.compiled import njit


@njit()
def uniform(seed: int, number: int) -> float:
    """A number in (0, 1) that depends on both arguments alone (SplitMix64)."""
    word = np.uint64(seed) + np.uint64(0x9E3779B97F4A7C15) * np.uint64(number + 1)
    word = (word ^ (word >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    word = (word ^ (word >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    word ^= word >> np.uint64(31)
    return (float(word >> np.uint64(12)) + 0.5) / 4503599627370496.0


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
