"""What every detector has in common."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple, Protocol, Self

import numpy as np

from monitor.arrays import Floats, Ints
from monitor.scores.steps import Steps

State = Mapping[str, "int | float | str | Sequence[str] | Ints | Floats"]
"""What a detector or a process continues from: plain values and arrays, by name."""


class Bets(NamedTuple):
    """What the alternatives of a detector bet on the outcomes of one series, and what became of it."""

    end_ms: Ints
    """End of the step of each row, int64, shape (rows,), ascending. A step may have no row, or one."""
    log_bets: Floats
    """Logarithm of the factor by which each alternative's stake grew, shape (rows, alternatives).

    The factor's mean is at most 1 under the detector's null hypothesis, given all earlier steps.
    """

    def until(self, end_ms: int) -> Self:
        """The rows up to a time, and those that end then."""
        stop = int(np.searchsorted(self.end_ms, end_ms, side="right"))
        return self._replace(end_ms=self.end_ms[:stop], log_bets=self.log_bets[:stop])

    def after(self, end_ms: int) -> Self:
        """The rows that :meth:`until` leaves out."""
        start = int(np.searchsorted(self.end_ms, end_ms, side="right"))
        return self._replace(end_ms=self.end_ms[start:], log_bets=self.log_bets[start:])


class Detector(Protocol):
    """Turns the steps of one series into bets against a null hypothesis.

    Its bets depend on the steps alone, to the last bit: not on how many of them are passed at a time, nor on how often
    the state was saved and loaded in between.
    """

    @property
    def names(self) -> Sequence[str]:
        """A name for each alternative, in the order of the columns of bets."""

    def bet(self, steps: Steps) -> Bets:
        """Bet on the steps that follow those of earlier calls."""

    def state(self) -> State:
        """Return what ``from_state`` of its class restores."""
