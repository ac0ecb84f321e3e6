"""Exact probabilities of rare outcomes: contradictions of the surest predictions, and few outcomes of one kind."""

import math
from dataclasses import dataclass
from typing import Final

import numpy as np
import scipy
from scipy.special import expit, gammaln

from monitor.scores import ScoreTable
from monitor.scores.grid import LOGIT_BOUND

MAX_CONTRADICTIONS: Final = 5
"""Contradictions at either end that are tested; more of them show in the tests of means."""

SHARE: Final = 0.1
"""Share of the level that contradictions have in a combined test."""

ENOUGH: Final = 20
"""Positives, and negatives, from which on intervals of every measure cover .92 of samples or more (simulated).

With 5, those of TCE cover .88, with 10 .92; those of kCE on logits .91 with either; all others .92 with 5.
"""

_MIN_RATE: Final = float(expit(-LOGIT_BOUND))
_MIN_POSITIVE_RATE: Final = 1e-300


@dataclass(frozen=True, slots=True)
class Contradictions:
    """The most surprising outcomes at either end of the predictions.

    Attributes
    ----------
    p_value
        Of the hypothesis that the model is calibrated; 1 if nothing is surprising.
    observed, expected
        Number of outcomes of the unexpected kind in the most surprising stretch, and how many the model expects there.
    limit
        End of the stretch: its highest prediction at the lower end, its lowest at the upper one.
    positive
        True for positives at the lower end, False for negatives at the upper one.
    """

    p_value: float
    observed: float
    expected: float
    limit: float
    positive: bool

    def logit_error(self, information: float) -> float:
        """Root mean square error of the logits that the contradictions amount to, over all events.

        Twice the Poisson log-likelihood ratio of their number, which is information times squared error if the error is
        small, over all information: that of the other events, and theirs, which is their number.
        """
        gain = self.observed * math.log(self.observed / self.expected) - (self.observed - self.expected)
        return math.sqrt(2.0 * gain / (information + self.observed))


_NONE: Final = Contradictions(p_value=1.0, observed=1.0, expected=1.0, limit=0.0, positive=True)


def contradictions(table: ScoreTable) -> Contradictions:
    r"""Test whether nearly excluded outcomes occurred too often, by the exact tail of the surest predictions.

    Let :math:`\Lambda` be the number of positives expected among the predictions up to the one of the k-th positive,
    k = 1 to 5. For it to be as small as :math:`\lambda`, there must be k positives where :math:`\lambda` of them are
    expected, and the number of ways to choose k positives bounds that, whatever the predictions:

    .. math:: P(\Lambda \le \lambda) \le E \binom{N}{k} \le \frac{\lambda^k}{k!}

    Likewise for negatives from above. The p-value is the smallest of the ten, times ten.

    Parameters
    ----------
    table
        m rows. Predictions of 0 and 1 count as those at the ends of the grid, as in the Cox fit. Weights are no numbers
        of events: the p-value of a weighted table is 1.
    """
    if table.weighted:
        return _NONE
    p, counts = table.score, table.counts
    best = _NONE
    for hits, rate, score, positive in (
        (table.positives, p, p, True),
        (table.negatives[::-1], 1.0 - p[::-1], p[::-1], False),
    ):
        cumulative = np.cumsum(hits)
        expected = np.cumsum((counts if positive else counts[::-1]) * np.maximum(rate, _MIN_RATE))
        for k in range(1, MAX_CONTRADICTIONS + 1):
            row = int(np.searchsorted(cumulative, k))
            if row == cumulative.size:
                break
            mean = float(expected[row])
            bound = 2.0 * MAX_CONTRADICTIONS * math.exp(min(0.0, k * math.log(mean) - float(gammaln(k + 1))))
            if bound < best.p_value:
                best = Contradictions(bound, float(cumulative[row]), mean, float(score[row]), positive)
    return best


def with_contradictions(p_value: float, rare: Contradictions) -> float:
    """The p-value of a test and the contradictions together; these have a tenth of the level (Bonferroni)."""
    return min(1.0, p_value / (1.0 - SHARE), rare.p_value / SHARE)


def caution_of_few(positives: float, negatives: float) -> str:
    """The warning about intervals if there are fewer outcomes of one kind than :data:`ENOUGH`; empty otherwise."""
    few = min(positives, negatives)
    if few >= ENOUGH:
        return ""
    kind = "positives" if few == positives else "negatives"
    return (
        f"With only {few:.3g} {kind}, read intervals of TCE and of kCE on logits with care: they hold in about 9 cases "
        f"of 10, not in 19 of 20, below {ENOUGH} {kind}."
    )


def tail_of_few(table: ScoreTable, *, positive: bool) -> float:
    """Probability of as few positives (or negatives) as observed, or fewer, if the model is calibrated.

    That of the Poisson binomial law, cut off at their number k: the rows' binomial laws are convolved in pairs, in
    O(m k^2).

    Parameters
    ----------
    table
        m rows of whole counts. The events of a cell count as lying at its mean.
    positive
        Count positives, not negatives.

    Returns
    -------
    float
        In [0, 1]; 1 for an empty table.
    """
    few = int((table.positives if positive else table.negatives).sum())
    rate = table.score if positive else 1.0 - table.score
    # scipy overflows at the smallest floats.
    rate = np.where(rate < _MIN_POSITIVE_RATE, 0.0, rate)
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
