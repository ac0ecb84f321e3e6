"""Outcomes that contradict the surest predictions: how unlikely so many are, which no mean over events shows."""

import math
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit, gammaln

from monitor.inference.cox import LOGIT_BOUND
from monitor.scores import ScoreTable

MOST: Final = 5
"""Contradictions at either end that are looked at: where there are more, the tests of means see them."""

SHARE: Final = 0.1
"""Part of the level that is theirs, where they are combined with other tests."""

_LEAST_RATE: Final = float(expit(-LOGIT_BOUND))

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Contradictions:
    """The most surprising outcomes at either end of the predictions.

    Attributes
    ----------
    p_value
        Of the hypothesis that the model is calibrated; 1 where nothing surprises.
    found, expected
        Outcomes of the unexpected kind in the stretch that surprises most, and how many were to be expected there.
    limit
        Where the stretch ends: its highest prediction at the lower end, its lowest at the upper one.
    positive
        Whether they came true where next to nothing should, at the lower end; else they are negatives at the upper.
    """

    p_value: float
    found: float
    expected: float
    limit: float
    positive: bool

    def logit_error(self, information: float) -> float:
        """By how much they put the logits off, as a root mean square over all events.

        Twice the Poisson log-likelihood ratio of their number, which is information times squared error where the
        error is small, over all information: that of the other events, and theirs, which is their number.
        """
        gained = self.found * math.log(self.found / self.expected) - (self.found - self.expected)
        return math.sqrt(2.0 * gained / (information + self.found))


_NONE: Final = Contradictions(p_value=1.0, found=1.0, expected=1.0, limit=0.0, positive=True)


def contradictions(table: ScoreTable) -> Contradictions:
    r"""Test whether what was nearly excluded came about too often, by the exact tail of the surest predictions.

    Let :math:`\Lambda` be the number of positives that are to be expected among the predictions up to the one at which
    the k-th positive lies, k = 1 to 5. To be as small as :math:`\lambda`, there must be k positives where
    :math:`\lambda` of them are expected, and the number of ways to choose k positives bounds that, whatever the
    predictions:

    .. math:: P(\Lambda \le \lambda) \le E \binom{N}{k} \le \frac{\lambda^k}{k!}

    Likewise for negatives from above. The p-value is the least of the ten, times ten.

    Parameters
    ----------
    table
        m rows. Predictions of 0 and of 1 count as those at the ends of the grid do, as for the Cox fit. Of weights,
        which are no numbers of events, nothing is said.
    """
    if table.weighted:
        return _NONE
    p, counts = table.score, table.counts
    best = _NONE
    for hits, rate, score, positive in (
        (table.positives, p, p, True),
        (table.negatives[::-1], 1.0 - p[::-1], p[::-1], False),
    ):
        happened = np.cumsum(hits)
        expected = np.cumsum((counts if positive else counts[::-1]) * np.maximum(rate, _LEAST_RATE))
        for k in range(1, MOST + 1):
            row = int(np.searchsorted(happened, k))
            if row == happened.size:
                break
            mean = float(expected[row])
            bound = 2.0 * MOST * math.exp(min(0.0, k * math.log(mean) - float(gammaln(k + 1))))
            if bound < best.p_value:
                best = Contradictions(bound, float(happened[row]), mean, float(score[row]), positive)
    return best


def with_contradictions(p_value: float, found: Contradictions) -> float:
    """The p-value of a test and of the contradictions together: a tenth of the level is theirs (Bonferroni)."""
    return min(1.0, p_value / (1.0 - SHARE), found.p_value / SHARE)
