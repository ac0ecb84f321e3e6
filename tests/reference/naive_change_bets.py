"""Bets that outcomes changed, group by group, with scipy's laws."""

from collections.abc import Iterable

import numpy as np
from scipy.stats import hypergeom, norm


def rank(k: int, draws: int, before: tuple[int, int], share: float) -> float:
    """The share of the ways to place all positive events with fewer than k in the block, and a part of those with k."""
    law = hypergeom(before[0] + draws, before[1] + k, draws)
    return float(law.cdf(k - 1) + share * law.pmf(k))


def log_bet(groups: Iterable[tuple[float, tuple[int, int], list[tuple[float, int]], float]]) -> float:
    """What an alternative gains on a block, from each group's shift, events before, events, and draw."""
    result = 0.0
    for shift, before, events, share in groups:
        if not events or not before[0]:
            continue
        n, k = len(events), sum(y for _, y in events)
        p = float(np.mean([prediction for prediction, _ in events]))
        d = shift * np.sqrt(n * p * (1.0 - p) * before[0] / (before[0] + n))
        z = norm.ppf(rank(k, n, before, share))
        result += float(norm.logpdf(z, loc=d) - norm.logpdf(z))
    return result
