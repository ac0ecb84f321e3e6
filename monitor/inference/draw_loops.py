"""Many draws from a binomial or a Poisson law for each row of a table.

A row's law is tabulated once, each term from the previous one, and then inverted: a guide table maps a uniform number
to its outcome in one or two steps. For the 199 draws of a dashboard that is about five times as fast as single draws.
The law is exact to the last bits of a float: outcomes outside the table have a probability below 1e-17.
"""

import math
from typing import Final

import numpy as np

from monitor.arrays import Floats, Ints
from monitor.loops import njit

_MAX_MEAN: Final = 4000.0
"""Largest mean for which a table pays; numpy draws the others. Binomial laws are first reflected to p <= 1/2."""

_REACH: Final = 9.5
"""Start of a table below the mean, in roots of the mean: by Chernoff's bound, less than exp(-45) lies below."""

_NEGLIGIBLE: Final = 1e-18
"""Weight, relative to the largest, at which a table ends."""

_LENGTH: Final = 2048
"""Largest number of outcomes in a table: at most about 9.5 and 9.2 roots of the mean on its sides."""

_GUIDES: Final = 256
_FEW_GUIDES: Final = 16
"""Equal shares of the uniform numbers, each with its first possible outcome; few of them for as many outcomes."""


@njit()
def _table(mean: float, trials: int, odds: float, cumulative: Floats, guide: Ints) -> tuple[int, float, int]:
    """Write the cumulative weights of a law and their guides; return the first outcome, the total weight, the guides.

    A law without a number of ``trials`` (-1) is a Poisson law.
    """
    first = max(0, int(mean - _REACH * math.sqrt(mean)) - 1)
    weight = largest = total = cumulative[0] = 1.0
    size = 1
    outcome = first
    while size < _LENGTH and outcome != trials and weight > _NEGLIGIBLE * largest:
        outcome += 1
        weight *= (trials - outcome + 1) * odds / outcome if trials >= 0 else mean / outcome
        largest = max(largest, weight)
        total += weight
        cumulative[size] = total
        size += 1
    guides = _FEW_GUIDES if size <= _FEW_GUIDES else _GUIDES
    at = 0
    for share in range(guides):
        while at < size - 1 and cumulative[at] * guides <= share * total:
            at += 1
        guide[share] = at
    # Rounding must not exceed the last outcome.
    cumulative[size - 1] = math.inf
    return first, total, guides


@njit()
def _invert(uniform: float, total: float, cumulative: Floats, guide: Ints, guides: int) -> int:
    """The place in the table of a number in [0, 1)."""
    at = guide[int(uniform * guides)]
    target = uniform * total
    while cumulative[at] <= target:
        at += 1
    return int(at)


def binomial_draws(rng: np.random.Generator, trials: Ints, p: Floats, draws: int) -> Floats:
    """Draws of Binomial(trials, p), row by row.

    Parameters
    ----------
    rng
        Random numbers, used row by row.
    trials
        int64, shape (m,), every value >= 0.
    p
        float64, shape (m,), every value in [0, 1].
    draws
        Number of draws.

    Returns
    -------
    float64, shape (draws, m)
        Whole numbers.
    """
    result = np.empty((draws, trials.size))
    start = 0
    for row in np.flatnonzero(trials * np.minimum(p, 1.0 - p) > _MAX_MEAN).tolist():
        _tabled_binomial_draws(rng, trials, p, start, row, result)
        reflected = p[row] > 0.5
        hits = rng.binomial(trials[row], 1.0 - p[row] if reflected else p[row], draws)
        result[:, row] = trials[row] - hits if reflected else hits
        start = row + 1
    _tabled_binomial_draws(rng, trials, p, start, trials.size, result)
    return result


@njit()
def _tabled_binomial_draws(
    rng: np.random.Generator, trials: Ints, p: Floats, start: int, stop: int, result: Floats
) -> None:
    """Draw the rows from ``start`` to before ``stop``."""
    draws = result.shape[0]
    cumulative = np.empty(_LENGTH)
    guide = np.empty(_GUIDES, np.int64)
    for row in range(start, stop):
        n, share = trials[row], p[row]
        if n == 1:  # as in most rows of raw predictions
            for draw in range(draws):
                result[draw, row] = 1.0 if rng.random() < share else 0.0
            continue
        reflected = share > 0.5
        if reflected:
            share = 1.0 - share
        first, total, guides = _table(n * share, n, share / (1.0 - share), cumulative, guide)
        for draw in range(draws):
            hits = first + _invert(rng.random(), total, cumulative, guide, guides)
            result[draw, row] = n - hits if reflected else hits


def add_poisson_deviations(rng: np.random.Generator, mean: Floats, scale: Floats, result: Floats) -> None:
    """Add ``scale`` * (draw of Poisson(mean) - mean) to each row of ``result``, in place.

    Parameters
    ----------
    rng
        Random numbers, used row by row.
    mean, scale
        float64, shape (m,); every mean >= 0. If it is 0 no number is drawn.
    result
        float64, shape (draws, m).
    """
    start = 0
    for row in np.flatnonzero(mean > _MAX_MEAN).tolist():
        _add_tabled_deviations(rng, mean, scale, start, row, result)
        result[:, row] += scale[row] * (rng.poisson(mean[row], len(result)) - mean[row])
        start = row + 1
    _add_tabled_deviations(rng, mean, scale, start, mean.size, result)


@njit()
def _add_tabled_deviations(
    rng: np.random.Generator, mean: Floats, scale: Floats, start: int, stop: int, result: Floats
) -> None:
    """Add the deviations of the rows from ``start`` to before ``stop``."""
    draws = result.shape[0]
    cumulative = np.empty(_LENGTH)
    guide = np.empty(_GUIDES, np.int64)
    for row in range(start, stop):
        expected, factor = mean[row], scale[row]
        if expected <= 0.0:
            continue
        first, total, guides = _table(expected, int(np.int64(-1)), 0.0, cumulative, guide)
        for draw in range(draws):
            hits = first + _invert(rng.random(), total, cumulative, guide, guides)
            result[draw, row] += factor * (hits - expected)
