"""Bets that a map does harm, one event after the other."""

import math
from collections.abc import Sequence


def log_bet(share: float, most: float, events: Sequence[tuple[float, float, int]]) -> float:
    """Of a step: logarithm of the product over (p, q, y); ``most`` is what an event may lose."""
    return math.fsum(math.log1p(share / most * ((y - q) ** 2 - (y - p) ** 2)) for p, q, y in events)


def largest_loss(events: Sequence[tuple[float, float, int]]) -> float:
    """The most that an event can make a bet lose: the map may be better by so much, whatever the outcome is."""
    return max((y - p) ** 2 - (y - q) ** 2 for p, q, _ in events for y in (0, 1))
