"""Bets on blocks of one horizon, in obvious loops over events."""

import math
from collections.abc import Sequence


def moved(p: float, logits: float) -> float:
    odds = math.exp(logits)
    return odds * p / (1 - p + odds * p)


def log_bet(events: Sequence[tuple[float, int]], weight: Sequence[float], share: float, tolerance: float) -> float:
    """Of a block of (p, y), each with a weight: above 0 where rates are to be higher, below 0 where lower."""
    gain, loss = 0.0, 0.0
    for (p, y), w in zip(events, weight, strict=True):
        if w > 0:
            edge = moved(p, tolerance)
            gain += w * (y - edge)
            loss += w * edge
        elif w < 0:
            edge = moved(p, -tolerance)
            gain += w * (y - edge)
            loss += -w * (1 - edge)
    return math.log1p(share * gain / loss) if loss > 0 else 0.0
