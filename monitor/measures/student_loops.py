"""Student's t-test of many hypotheses against few observed rates.

What it accepts is an interval about the rate, so that two limits a bin settle any number of predictions.
"""

import numpy as np
from numpy.typing import NDArray
from scipy.special import stdtrit

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]


def rejected(
    score: Floats, starts: Ints, successes: Ints, trials: Ints, alpha: float, *, published: bool = False
) -> Bools:
    """Whether each score, as the hypothesis on its bin's rate, is rejected.

    The verdicts are those of ``scipy.stats.ttest_1samp(outcomes, score).pvalue <= alpha``, where it has a p-value. A
    hypothesis whose p-value differs from alpha in its last bits alone may have either verdict.

    Parameters
    ----------
    score
        float64, shape (m,), strictly ascending, in [0, 1].
    starts
        int64, shape (bins + 1,): first row of each bin, then m.
    successes, trials
        int64, shape (bins,): the observation in each bin; every ``trials`` > 0.
    alpha
        Level of the test, in (0, 1).
    published
        See :func:`half_width`.

    Returns
    -------
    bool, shape (m,)
    """
    rows = np.diff(starts)
    distance = np.abs(score - np.repeat(successes / trials, rows))
    # The rate itself is accepted also where the test takes it for certain.
    result: Bools = (distance >= np.repeat(half_width(successes, trials, alpha, published=published), rows)) & (
        distance > 0.0
    )
    return result


def straddling(
    lower: Floats, upper: Floats, starts: Ints, successes: Ints, trials: Ints, alpha: float, *, published: bool = False
) -> Bools:
    """Whether the predictions that a row may hold could differ in their verdict.

    Parameters
    ----------
    lower, upper
        float64, shape (m,): where the predictions of a row may lie; rows ascending and disjoint.
    starts, successes, trials, alpha, published
        As in :func:`rejected`.

    Returns
    -------
    bool, shape (m,)
    """
    rows = np.diff(starts)
    rate = np.repeat(successes / trials, rows)
    width = np.repeat(half_width(successes, trials, alpha, published=published), rows)
    nearest = np.maximum(np.maximum(lower - rate, rate - upper), 0.0)
    farthest = np.maximum(upper - rate, rate - lower)
    holds_accepted = (nearest < width) | (nearest == 0.0)
    holds_rejected = (farthest >= width) & (farthest > 0.0)
    result: Bools = holds_accepted & holds_rejected
    return result


def acceptance_limits(successes: Ints, trials: Ints, alpha: float, *, published: bool = False) -> tuple[Floats, Floats]:
    """The ends, in [0, 1], of the interval of hypotheses that are not rejected; float64, shape (bins,) each."""
    rate = successes / trials
    width = half_width(successes, trials, alpha, published=published)
    return np.maximum(rate - width, 0.0), np.minimum(rate + width, 1.0)


def half_width(successes: Ints, trials: Ints, alpha: float, *, published: bool = False) -> Floats:
    r"""How far from the rate r = k/n a hypothesis is rejected.

    .. math:: t_{1 - \alpha/2,\, n - 1} \sqrt{r (1 - r) / (n - 1)}

    Parameters
    ----------
    successes, trials
        int64, shape (bins,): k and n.
    alpha
        Level of the test, in (0, 1).
    published
        The variance r (1 - r) in place of the standard deviation, divided by sqrt(n): what the TCE paper's published
        numbers are of.

    Returns
    -------
    float64, shape (bins,)
        0 where all outcomes are equal, whose deviation the test takes for none. A single outcome has no deviation, and
        refutes nothing: infinite; 0 if ``published``.
    """
    rate = successes / trials
    variance = rate * (1.0 - rate)
    freedom = np.maximum(trials - 1, 1)
    scale = variance / np.sqrt(trials) if published else np.sqrt(variance / freedom)
    width = stdtrit(freedom, 1.0 - alpha / 2.0) * scale
    return np.asarray(width if published else np.where(trials == 1, np.inf, width), np.float64)
