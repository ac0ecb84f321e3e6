"""Alternatives to calibration: by how many logits the true probabilities may differ from the predictions.

Source: section 4 of the mathematics. An alternative is a function of the prediction's logit. Offsets, slopes about 0
and bumps are the same for every model, so their tables are shared. Slopes about a model's mean logit are shared by
models whose means round to the same multiple of :data:`CENTRE_STEP`, and a bump acts in one of eight regions of a
model's predictions.
"""

import itertools
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from typing import Final

import numpy as np

from monitor.arrays import Floats, Ints
from monitor.errors import NotEnoughData
from monitor.scores import GridTable, grid

OFFSETS: Final = (0.1, 0.2, 0.4, 0.8, -0.1, -0.2, -0.4, -0.8)
SLOPES: Final = (0.6, 0.77, 0.87, 1.15, 1.3, 1.7)
BUMPS: Final = (0.5, -0.5)
REGIONS: Final = 8

CENTRE_STEP: Final = 0.25
"""Logits. A slope about another centre differs by an offset of at most (slope - 1) / 8 logits."""


@dataclass(frozen=True, slots=True)
class Profile:
    """Where the predictions of a series lie, which the alternatives refer to.

    It must not depend on outcomes of the steps that are measured with it.

    Attributes
    ----------
    centre
        Their mean logit, rounded to a multiple of :data:`CENTRE_STEP`.
    region_starts
        The cells in which the regions after the first begin, ascending: a region holds an eighth of the predictions.
    """

    centre: float
    region_starts: tuple[int, ...]

    @classmethod
    def default(cls) -> "Profile":
        """Return a profile for predictions that are not known yet: slopes are about 0, and regions equally wide."""
        return cls(0.0, tuple(grid.locate(np.arange(1, REGIONS) / REGIONS).tolist()))

    @classmethod
    def of(cls, table: GridTable) -> "Profile":
        """Return the profile of the predictions of a table, with or without outcomes.

        Raises
        ------
        NotEnoughData
            It is empty.
        """
        count = table.values[:, :3].sum(axis=1)
        total = int(count.sum())
        if total == 0:
            raise NotEnoughData("a profile needs at least 1 prediction, got 0")
        mean = float(middle_logits()[table.cell] @ count) / total
        last = np.searchsorted(np.cumsum(count), total * np.arange(1, REGIONS) / REGIONS)
        return cls(round(mean / CENTRE_STEP) * CENTRE_STEP, tuple((table.cell[last] + 1).tolist()))

    def regions(self) -> Ints:
        """Return the region of each cell of the grid, int64, shape (cells,)."""
        return np.searchsorted(self.region_starts, np.arange(grid.cell_count()), side="right")


def names(profile: Profile) -> list[str]:
    """Return a name for each alternative, in the order of the detectors' columns."""
    return [
        *(f"offset {offset:+g}" for offset in OFFSETS),
        *(f"slope {slope:g}" for slope in SLOPES),
        *(f"slope {slope:g} about {profile.centre:g}" for slope in SLOPES),
        *(f"bump {bump:+g} {span}" for span in spans(profile.region_starts) for bump in BUMPS),
    ]


def spans(starts: Iterable[int]) -> list[str]:
    """Return the predictions of each region in words; all but the first begin in these cells."""
    bounds = [0.0, *np.append(grid.edges(), 1.0)[list(starts)].tolist(), 1.0]
    return [f"from {lower:.3g} to {upper:.3g}" for lower, upper in itertools.pairwise(bounds)]


def certainty() -> tuple[float, float]:
    """Return what predictions of 0 and of 1 are taken for: the outermost edges inside the grid, 4e-8 from 0 and 1.

    They claim that nothing contradicts them, and a bet needs a stake. The rounding of a model's arithmetic stays below.
    """
    edges = grid.edges()
    return float(edges[2]), float(edges[-2])


@cache
def middle_logits() -> Floats:
    """Return the logit of the middle of each cell, float64, shape (cells,), cut off at the grid's bounds."""
    lower, upper = (np.clip(edges, *certainty()) for edges in (grid.edges(), grid.upper_edges()))
    result = (np.log(lower / (1.0 - lower)) + np.log(upper / (1.0 - upper))) / 2.0
    result.flags.writeable = False
    return result


def common_shifts() -> Floats:
    """Return the shifts of offsets, of slopes about 0 and of bumps in their region, shape (16, cells), in logits."""
    z = middle_logits()
    return np.array(
        [
            *(np.full_like(z, offset) for offset in OFFSETS),
            *((slope - 1.0) * z for slope in SLOPES),
            *(np.full_like(z, bump) for bump in BUMPS),
        ]
    )


def centred_shifts(centre: float) -> Floats:
    """Return the shifts of slopes about a centre, shape (6, cells), in logits."""
    return np.array([(slope - 1.0) * (middle_logits() - centre) for slope in SLOPES])
