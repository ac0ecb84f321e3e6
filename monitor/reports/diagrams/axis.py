"""The axis of probabilities: linear, or in log odds where nearly all predictions are close to 0 or to 1."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Self

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import expit

from monitor.arrays import Floats
from monitor.scores import ScoreTable

_RARE: Final = 0.1
"""Median prediction below which a linear axis would show most predictions in a corner."""

_MIN_DISTANCE: Final = 1e-7
"""Ends of an axis are at least this far from 0 and 1."""

_MAX_TICKS: Final = 7

_DECADES: Final = [10.0**-k for k in range(7, 0, -1)]
_TICKS: Final = (
    [step * decade for decade in _DECADES for step in (1.0, 2.0, 5.0)],
    [step * decade for decade in _DECADES for step in (1.0, 3.0)],
    _DECADES,
    _DECADES[::2],
)
"""Ticks below a half in log odds, the finest first."""


@dataclass(frozen=True, slots=True)
class ProbabilityAxis:
    """Where a probability stands on an axis.

    Attributes
    ----------
    lower, upper
        The probabilities at its ends, in [0, 1] where it is linear and in (0, 1) where it is not.
    logit
        Whether it is uniform in log odds.
    """

    lower: float = 0.0
    upper: float = 1.0
    logit: bool = False

    @classmethod
    def of(cls, table: ScoreTable, also: ArrayLike = ()) -> Self:
        """Choose the axis that shows the table's predictions, and other probabilities with them.

        Linear from 0 to 1, unless at least half of the predictions are below 10%, or above 90%, and they are not all
        0 or 1.
        """
        score, counts = _inside(table)
        middle = _quantiles(score, counts, [0.5])[0] if counts.sum() > 0.0 else 0.5
        return cls() if _RARE <= middle <= 1.0 - _RARE else cls.in_log_odds(table, also)

    @classmethod
    def in_log_odds(cls, table: ScoreTable, also: ArrayLike = ()) -> Self:
        """The axis that is uniform in log odds, around nearly all of the table's predictions and the others."""
        score, counts = _inside(table)
        ends = _quantiles(score, counts, (0.002, 0.998)) if counts.sum() > 0.0 else []
        shown = np.concatenate([ends, np.asarray(also, np.float64), [] if ends else [0.5]])
        logits = _logit(shown[(shown > 0.0) & (shown < 1.0)])
        first, last = float(logits.min()) - 0.35, float(logits.max()) + 0.35
        missing = max(0.0, 3.0 - (last - first)) / 2.0
        lower, upper = expit([first - missing, last + missing]).tolist()
        return cls(max(lower, _MIN_DISTANCE), min(upper, 1.0 - _MIN_DISTANCE), logit=True)

    def place(self, probability: ArrayLike) -> Floats:
        """Coordinates on the axis; what lies beyond its ends stands at them."""
        inside = np.clip(np.asarray(probability, np.float64), self.lower, self.upper)
        return _logit(inside) if self.logit else inside

    @property
    def limits(self) -> tuple[float, float]:
        """Coordinates of its ends."""
        first, last = self.place([self.lower, self.upper]).tolist()
        return first, last

    def edges(self, bins: int) -> Floats:
        """Edges of bins of one width on the axis, as probabilities; the outermost are 0 and 1; shape (bins + 1,)."""
        edges = np.arange(bins + 1) / bins
        if self.logit:
            first, last = self.limits
            edges = np.asarray(expit(first + (last - first) * edges))
        edges[0], edges[-1] = 0.0, 1.0
        return edges

    def columns(self, bins: int) -> Floats:
        """Compute the same edges as coordinates, the outermost at the ends of the axis; shape (bins + 1,)."""
        first, last = self.limits
        # Not linspace, by which .35 * 40 would be a little less than 14: edges are what one writes, as 0.35.
        return first + (last - first) * (np.arange(bins + 1) / bins)

    def ticks(self) -> Sequence[float]:
        """Probabilities that are worth a label."""
        if not self.logit:
            return [0.0, 0.2, 0.4, 0.6, 0.8, 1.0]
        for below in _TICKS:
            ticks = [*below, *([0.5] if below[-1] < 0.5 else []), *(1.0 - p for p in reversed(below))]
            within = [p for p in dict.fromkeys(ticks) if self.lower <= p <= self.upper]
            if len(within) <= _MAX_TICKS:
                break
        return within


def _logit(p: Floats) -> Floats:
    return np.asarray(np.log(p) - np.log1p(-p))


def _inside(table: ScoreTable) -> tuple[Floats, Floats]:
    """The predictions that have finite log odds, and how many there are."""
    inside = (table.score > 0.0) & (table.score < 1.0)
    return table.score[inside], table.counts[inside]


def _quantiles(score: Floats, counts: Floats, shares: Sequence[float]) -> list[float]:
    cumulative = np.cumsum(counts)
    at = np.searchsorted(cumulative, np.asarray(shares) * cumulative[-1])
    return [float(p) for p in score[np.minimum(at, score.size - 1)]]
