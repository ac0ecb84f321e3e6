"""Bets that learn, in obvious loops over events: everything is computed anew for every step."""

import math
from collections.abc import Sequence
from typing import NamedTuple

from tests.reference.naive_sequential import best_stake, bet

HALF_LIVES = (75.0, 300.0, 1200.0, 4800.0)
CALIBRATED = 5.0
"""Information of calibrated outcomes that are thought to be in each region."""


class Event(NamedTuple):
    """A labelled prediction, above 0 and below 1."""

    p: float
    y: int


def region(p: float) -> int:
    """The third of a logit that a prediction lies in."""
    return math.floor(3.0 * math.log(p / (1.0 - p)))


def learnt_shift(past: Sequence[Sequence[Event]], of: int, half_life: float) -> float:
    """By how many logits the outcomes of earlier steps lay off the predictions of a region, in tenths."""
    positives = negatives = total = since = 0.0
    for step in reversed(past):
        weight = 0.5 ** (since / half_life)
        for event in step:
            since += event.p * (1.0 - event.p)
            if region(event.p) == of:
                positives += weight * event.y
                negatives += weight * (1 - event.y)
                total += weight * event.p
    if positives + negatives == 0.0:
        return 0.0
    p = total / (positives + negatives)
    logit = math.log((positives + CALIBRATED / (1.0 - p)) / (negatives + CALIBRATED / p)) - math.log(p / (1.0 - p))
    return min(max(math.floor(10.0 * logit + 0.5), -15), 15) / 10.0


def learnt_bets(
    steps: Sequence[Sequence[Event]], tolerance: float, learnt_from: int | None = None
) -> list[list[float]]:
    """The logarithm of what each half-life's alternative bets on each step.

    Parameters
    ----------
    learnt_from
        Steps from this one on are not learnt from; None: all are.
    """
    rows = []
    for at, step in enumerate(steps):
        past = steps[: at if learnt_from is None else min(at, learnt_from)]
        row = []
        for half_life in HALF_LIVES:
            total = 0.0
            for p, y in step:
                shift = learnt_shift(past, region(p), half_life)
                total += math.log(bet(p, y, best_stake(p, shift, tolerance), shift, tolerance))
            row.append(total)
        rows.append(row)
    return rows
