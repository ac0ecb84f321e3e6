"""How unlikely so few outcomes of one kind are: the exact tail."""

import numpy as np
from scipy.stats import binom

from monitor.scores import ScoreTable


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
    laws = binom.pmf(np.arange(few + 1), table.counts[:, None], rate[:, None])
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
