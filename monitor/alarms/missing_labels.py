"""Whether labels may be missing because of what they are.

Where a label is more likely to arrive if it is positive, the odds of labelled predictions are shifted by the ratio of
the two rates, and no test on them tells that from a prior shift. What can be seen is that labels arrive for another
share than before, or for other shares of low and high predictions: high ones have more positive outcomes.
Source: section 10 of the mathematics, missing labels.
"""

import math
from typing import Any, Final, NamedTuple

import numpy as np

from monitor.scores import GridTable

_FAR: Final = 0.1
"""The least difference of two shares of labelled predictions that counts."""
_SURE: Final = 4.0
"""The same in standard errors."""
_QUARTERS: Final = 4


class Labelled(NamedTuple):
    """How many of some predictions have a label."""

    predictions: int
    labels: int

    @property
    def share(self) -> float:
        """Share that has a label; nan without predictions."""
        return self.labels / self.predictions if self.predictions else math.nan

    def is_far_from(self, other: "Labelled") -> bool:
        """Whether the shares differ, by much and for certain."""
        if not self.predictions or not other.predictions:
            return False
        share = (self.labels + other.labels) / (self.predictions + other.predictions)
        error = math.sqrt(share * (1.0 - share) * (1.0 / self.predictions + 1.0 / other.predictions))
        return abs(self.share - other.share) >= max(_FAR, _SURE * error)


class Labels(NamedTuple):
    """Which predictions since a change have labels."""

    now: Labelled
    before: Labelled
    """Predictions before the change."""
    lowest: Labelled
    """The lowest quarter of the predictions since."""
    highest: Labelled

    @classmethod
    def of(cls, after: GridTable, before: Labelled) -> "Labels":
        """Count labels of the settled predictions since a change, beside those before it."""
        predictions, labels = after.values[:, :3].sum(axis=1), after.values[:, :2].sum(axis=1)
        # Whole cells: a quarter, and what is left of its last cell.
        upto = np.cumsum(predictions) * _QUARTERS
        first = int(np.searchsorted(upto, after.predictions)) + 1
        last = int(np.searchsorted(upto, (_QUARTERS - 1) * after.predictions, side="right"))
        parts = slice(None, first), slice(max(first, last), None)
        lowest, highest = (Labelled(int(predictions[part].sum()), int(labels[part].sum())) for part in parts)
        return cls(Labelled(after.predictions, after.labelled), before, lowest, highest)

    @property
    def doubt(self) -> str | None:
        """The shares that speak for labels that are missing because of what they are, as a main clause; or None."""
        if self.highest.is_far_from(self.lowest):
            low, high = self.lowest.share, self.highest.share
            return f"{low:.0%} of the lowest quarter of the predictions have one, {high:.0%} of the highest"
        if self.now.is_far_from(self.before):
            now, before = self.now.share, self.before.share
            return f"{now:.0%} of the predictions since then have one, {before:.0%} of those before"
        return None

    def to_json(self) -> dict[str, Any]:
        """The shares, null without predictions."""
        return {name: None if math.isnan(one.share) else round(one.share, 4) for name, one in self._asdict().items()}
