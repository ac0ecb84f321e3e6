"""Ranges of numbers with short ends, and how people read them."""

import math
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

QUANTILE_RANGES: Final = 5
"""Ranges that a column of numbers is cut into, of equally many rows as far as ties allow."""

_SLACK: Final = 0.01
"""Share of the values by which an end may miss its quantile."""

_WHOLE: Final = 1e15
"""Beyond, float64 does not tell all whole numbers apart."""
_SEPARATED: Final = 10_000
"""Numbers from here on have thousands separators: a year has none."""


class Range(NamedTuple):
    """Numbers from ``low`` to below ``high``."""

    low: float = -math.inf
    high: float = math.inf

    def holds(self, values: Floats) -> NDArray[np.bool_]:
        """Whether each value lies in the range, shape (n,); nan does not."""
        return (values >= self.low) & (values < self.high)

    def text(self, *, whole: bool) -> str:
        """As people read it: ``18 to 34`` of whole numbers, ``0.5 to 0.75``, ``below 18``, ``62 or more``."""
        if math.isinf(self.low):
            return f"below {number_text(self.high)}"
        if math.isinf(self.high):
            return f"{number_text(self.low)} or more"
        last = self.high - 1.0 if whole else self.high
        return number_text(self.low) if last == self.low else f"{number_text(self.low)} to {number_text(last)}"


def number_text(value: float) -> str:
    """A number in up to ten digits: 0.25, 62, 20,000."""
    return f"{value:,.10g}" if abs(value) >= _SEPARATED else f"{value:.10g}"


def are_whole(values: Floats) -> bool:
    """Whether all values are whole numbers; nan counts as one."""
    known = values[~np.isnan(values)]
    return bool(((known == np.round(known)) & (np.abs(known) < _WHOLE)).all())


def shortest_between(below: float, up_to: float) -> float:
    """The number with the fewest digits that is above ``below`` and at most ``up_to``, which must be larger."""
    largest = max(abs(below), abs(up_to))
    first, last = (math.floor(math.log10(size)) for size in (largest, up_to - below))
    for power in range(first + 1, last - 2, -1):
        candidate = round(math.floor(up_to / 10.0**power) * 10.0**power, max(-power, 0))
        if below < candidate <= up_to:
            return candidate
    return up_to


def quantile_ranges(values: Floats, ranges: int = QUANTILE_RANGES) -> list[Range]:
    """Ranges that together hold all values, with about equally many in each.

    Equal values stay together, so that there may be fewer ranges, and larger ones. An end is the shortest number that
    parts the values at the quantile, or within 1% of them from it.

    Parameters
    ----------
    values
        Shape (n,), finite.
    ranges
        How many there are at most.
    """
    distinct, counts = np.unique(values, return_counts=True)
    if distinct.size < 2:
        return [Range()]
    below = np.cumsum(counts)[:-1] / values.size
    ends = set()
    for target in np.arange(1, ranges) / ranges:
        at = int(np.argmin(np.abs(below - target)))
        first, last = at, at + 1
        # An end may lie a little off, where that makes it a shorter number, but not beside a value that many share.
        if counts[at : at + 2].max() <= _SLACK * values.size:
            first = int(np.searchsorted(below, below[at] - _SLACK))
            last = int(np.searchsorted(below, below[at] + _SLACK, side="right"))
        ends.add(shortest_between(distinct[first], distinct[last]))
    inner = sorted(ends)
    return [Range(low, high) for low, high in zip([-math.inf, *inner], [*inner, math.inf], strict=True)]
