"""Where predictions are too low and where they are too high, by the witness of the smooth calibration error."""

from dataclasses import dataclass
from typing import Final

import numpy as np

from monitor.arrays import Floats
from monitor.measures import smce_witness
from monitor.reports.formatting import pair, percent
from monitor.scores import ScoreTable

_MIN_SHARE: Final = 0.1
"""A place with a smaller part in all misses is not spoken of."""
_LEVELS: Final = 101
_CERTAIN: Final = 6.0
_EVENTS_OF_CHANCE: Final = 3.0
"""A range of the other sign is split off if it misses by half of this at least: 3 standard deviations and 1.5 events.
The level is chosen among many, and among few events that nearly all come true a single one is many deviations."""


@dataclass(frozen=True, slots=True)
class Place:
    """A range of predictions that are too low, or too high.

    Attributes
    ----------
    first, last
        Its lowest and highest prediction.
    predicted, happened
        Their mean, and the share that came true.
    share
        Its part in all misses.
    """

    first: float
    last: float
    predicted: float
    happened: float
    share: float

    @property
    def too_low(self) -> bool:
        """Whether more came true than was predicted."""
        return self.happened > self.predicted

    def __str__(self) -> str:
        """Describe the place in a sentence."""
        first, last = percent(self.first, 1), percent(self.last, 1)
        where = f"At {first}" if first == last else f"From {first} to {last}"
        predicted, happened = pair(self.predicted, self.happened)
        return f"{where}: too {'low' if self.too_low else 'high'} ({predicted} predicted, {happened} came true)"


def places(table: ScoreTable) -> tuple[Place, ...]:
    """Find where the witness of smCE says that predictions are too low or too high, from the lowest up.

    Ranges over which the centred witness keeps its sign, of those that hold a tenth of all misses or more and that miss
    by more than two standard deviations.

    Raises
    ------
    NotEnoughData
        The table is empty.
    """
    sign = np.sign(centred_witness(table))
    starts = np.flatnonzero(np.diff(sign, prepend=np.nan) != 0.0)
    events, positives, residual, variance = (
        np.add.reduceat(column, starts)
        for column in (table.counts, table.positives, table.residual, table.residual_variance)
    )
    ends = np.append(starts[1:], table.rows) - 1
    share = np.abs(residual) / max(float(np.abs(residual).sum()), 1e-300)
    stands_out = (share >= _MIN_SHARE) & (residual * sign[starts] > 0.0) & (np.abs(residual) > 2.0 * np.sqrt(variance))
    runs = np.flatnonzero(stands_out)
    predicted, happened = (positives - residual)[runs] / events[runs], positives[runs] / events[runs]
    columns = (table.score[starts[runs]], table.score[ends[runs]], predicted, happened, share[runs])
    return tuple(Place(*map(float, place)) for place in zip(*columns, strict=True))


def centred_witness(table: ScoreTable) -> Floats:
    """Subtract from the witness of smCE the constant that best separates too low from too high, shape (m,).

    Where the residuals add up to about 0, adding a constant to the witness hardly changes what it attains, so its sign
    says nothing; where one end is far off and the other a little, the other way round, it may not change its sign at
    all. So the level is subtracted at which the ranges of one sign miss most, each counted for what it misses beyond
    chance. None is subtracted if no level gains anything: then all predictions err to one side, as far as can be seen.

    Raises
    ------
    NotEnoughData
        The table is empty.
    """
    witness = smce_witness(table)
    low, high = float(witness.min()), float(witness.max())
    if low == high:
        return witness
    misses = np.append(0.0, np.cumsum(table.residual))
    variance = np.append(0.0, np.cumsum(table.residual_variance))
    event = 1.0 / table.events_per_weight

    def evident(level: float) -> float:
        """Sum up what the ranges on either side of the level miss in its direction, less what chance explains."""
        above = witness >= level
        starts = np.flatnonzero(np.diff(above)) + 1
        edges = np.concatenate([[0], starts, [above.size]])
        sign = np.where(above[edges[:-1]], 1.0, -1.0)
        chance = _CERTAIN * np.sqrt(np.diff(variance[edges])) + _EVENTS_OF_CHANCE * event
        return float(sign @ np.diff(misses[edges]) - chance.sum())

    levels = np.linspace(low, high, _LEVELS + 2)[1:-1].tolist()
    best = max(levels, key=evident)
    return witness - best if evident(best) > evident(0.0) else witness
