"""Alternatives to calibration: by how many logits true probabilities may differ from predictions."""

from dataclasses import dataclass
from typing import Final

import numpy as np

from monitor.arrays import Floats, Ints
from monitor.scores import GridTable, grid

OFFSETS: Final = (0.1, 0.2, 0.4, 0.8, -0.1, -0.2, -0.4, -0.8)
SLOPES: Final = (0.6, 0.77, 0.87, 1.15, 1.3, 1.7)
BUMP: Final = 0.5
REGIONS: Final = 8


@dataclass(frozen=True)
class Profile:
    """Where the predictions of a model lie: what the alternatives refer to.

    Attributes
    ----------
    centre
        Their mean logit.
    bounds
        int64, shape (7,): the cells in which the regions after the first begin.
    """

    centre: float
    bounds: Ints

    @classmethod
    def of(cls, table: GridTable) -> "Profile":
        """The profile of the predictions of a table, with or without outcomes."""
        counts = table.values[:, :3].sum(axis=1)
        z = middle_logits()[table.cell]
        share = np.cumsum(counts) / counts.sum()
        inner = np.arange(1, REGIONS) / REGIONS
        return cls(float(z @ counts / counts.sum()), table.cell[np.searchsorted(share, inner)] + 1)


def middle_logits() -> Floats:
    """Logit of the middle of each cell of the grid."""
    lower, upper = np.maximum(grid.edges(), 2.0**-41), np.minimum(grid.upper_edges(), 1 - 2.0**-41)
    lower = np.minimum(lower, 1 - 2.0**-41); upper = np.maximum(upper, 2.0**-41)
    return (np.log(lower / (1 - lower)) + np.log(upper / (1 - upper))) / 2


def shifts(profile: Profile) -> Floats:
    """float64, shape (36, cells)"""
    z = middle_logits()
    region = np.searchsorted(profile.bounds, np.arange(z.size), side="right")
    rows = [np.full_like(z, o) for o in OFFSETS]
    rows += [(a - 1) * (z - c) for c in (0.0, profile.centre) for a in SLOPES]
    rows += [np.where(region == r, s * BUMP, 0.0) for r in range(REGIONS) for s in (1, -1)]
    return np.array(rows)
