r"""When a change began: the start of the data that speak most against the null hypothesis.

.. math:: \arg\max_s \max_k \sum_{t > s} \log e_{t,k}

with the set of all s whose maximum over k lies within a margin of the largest. A change in the middle of a step is
found at either end of it, so that step is in the set too. Source: section 4 of the mathematics.
"""

from typing import Final, NamedTuple

import numpy as np

from monitor.arrays import Ints
from monitor.errors import NotEnoughData
from monitor.sequential.detector import Bets

MARGIN: Final = 5.0
"""Simulated at one false alarm a year: the set holds the change in 95% of alarms and more, for slopes from 0.8 to 1.5
and offsets from 0.1 to 0.5, balanced and at a prevalence of 7 and 1% (``make simulate`` prints it)."""


class ChangePoint(NamedTuple):
    """When a change began, always the beginning of a step."""

    begin_ms: int
    alternative: int
    """Column of the alternative that gained most since then."""
    score: float
    """Logarithm of that gain."""
    begins_ms: Ints
    """Beginnings of all steps that the change may lie in, int64, ascending; they need not follow one another."""


def find_change(bets: Bets, start_ms: int, margin: float = MARGIN) -> ChangePoint:
    """Estimate when a change began from the bets up to its alarm, or beyond.

    Parameters
    ----------
    bets
        Of consecutive steps that begin before the change.
    start_ms
        When the first of them begins.
    margin
        Logarithm of how much less may have been gained since a beginning for it to be in the set.

    Raises
    ------
    NotEnoughData
        There are no bets.
    """
    if bets.end_ms.size == 0:
        raise NotEnoughData("a change point needs the bets of at least 1 step, got 0")
    begin_ms = np.concatenate([[start_ms], bets.end_ms[:-1]])
    gain = np.cumsum(bets.log_bets[::-1], axis=0)[::-1]
    largest = gain.max(axis=1)
    at = int(np.flatnonzero(largest == largest.max())[-1])  # steps without a bet do not prolong the change
    possible = largest >= largest[at] - margin
    possible[:-1] |= possible[1:]
    return ChangePoint(int(begin_ms[at]), int(gain[at].argmax()), float(largest[at]), begin_ms[possible])
