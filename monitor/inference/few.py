"""What few outcomes of one kind mean: how unlikely they are, and how far intervals can be relied on."""

from typing import Final

import numpy as np
import scipy

from monitor.scores import ScoreTable

ENOUGH: Final = 20
"""Positives, and negatives, from which on intervals of every measure hold in .92 of samples or more (simulated).

With 5, those of TCE hold in .88, with 10 in .92; those of kCE on logits in .91 with either; all others in .92 with 5.
"""

_LEAST_RATE: Final = 1e-300


def caution_of_few(positives: float, negatives: float) -> str:
    """What to say of intervals where there are fewer outcomes of one kind than :data:`ENOUGH`; empty otherwise."""
    few = min(positives, negatives)
    if few >= ENOUGH:
        return ""
    kind = "positives" if few == positives else "negatives"
    return (
        f"With only {few:.3g} {kind}, read intervals of TCE and of kCE on logits with care: they hold in about 9 cases "
        f"of 10, not in 19 of 20, below {ENOUGH} {kind}."
    )


def tail_of_few(table: ScoreTable, *, positive: bool) -> float:
    """Probability of as few positives as there are, or of as few negatives, if the model is calibrated.

    That of the Poisson binomial law, cut off at their number k: rows' binomial laws are folded in pairs, in O(m k^2).

    Parameters
    ----------
    table
        m rows of whole counts. The events of a cell count as lying at its mean.
    positive
        Whether positives are meant.

    Returns
    -------
    float
        In [0, 1]; of an empty table 1.
    """
    few = int((table.positives if positive else table.negatives).sum())
    rate = table.score if positive else 1.0 - table.score
    # scipy overflows at the smallest floats, with which nothing comes true.
    rate = np.where(rate < _LEAST_RATE, 0.0, rate)
    laws = scipy.stats.binom.pmf(np.arange(few + 1), table.counts[:, None], rate[:, None])
    nothing = np.zeros((1, few + 1))
    nothing[0, 0] = 1.0
    while laws.shape[0] > 1:
        if laws.shape[0] % 2:
            laws = np.concatenate([laws, nothing])
        one, other = laws[::2], laws[1::2]
        laws = np.zeros(one.shape)
        for k in range(few + 1):
            laws[:, k:] += one[:, k : k + 1] * other[:, : few + 1 - k]
    return min(1.0, float(laws.sum())) if table.rows else 1.0
