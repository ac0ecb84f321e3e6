"""Bets that outcomes changed, with scipy's hypergeometric law, one block and one group after the other."""

import math
from collections.abc import Sequence

from scipy.stats import hypergeom, norm


def rank(k: int, draws: int, before: tuple[int, int], share: float) -> float:
    """Share of the ways to place the positive events that give fewer than k in the block, and of k a part."""
    n, positive = before
    law = hypergeom(n + draws, positive + k, draws)
    return float(law.cdf(k - 1) + share * law.pmf(k))


def log_bet(
    blocks: Sequence[tuple[int, int, float]],
    before: Sequence[tuple[int, int]],
    shifts: Sequence[float],
    shares: Sequence[float],
) -> float:
    """What an alternative gains on a block: of each group its events, the positive ones, and the mean prediction."""
    result = 0.0
    for (n, k, p), known, shift, share in zip(blocks, before, shifts, shares, strict=True):
        if n == 0 or known[0] == 0:
            continue
        d = shift * math.sqrt(n * p * (1.0 - p) * known[0] / (known[0] + n))
        result += float(norm.logpdf(norm.ppf(rank(k, n, known, share)), d) - norm.logpdf(norm.ppf(rank(k, n, known, share))))
    return result
