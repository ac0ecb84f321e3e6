r"""D2: evidence against calibration that no change of prevalence moves.

The null hypothesis: within a block of events, and given all earlier blocks, outcomes are independent and positive with
the probability sigmoid(logit p + b + d), where b is any number, the same for the block, and d is at most the tolerance,
any for each event.

Each bet compares two groups of a block: the events of a region of predictions with all others (a bump), or those of an
upper region with those of a lower one (a slope, in each of four pairs of regions, from the middle to both ends). With s
positives in the two groups together, of which j are in the first, and A_j the probability of that as predicted, a bet
is the likelihood ratio given s of a contrast between the groups to that at the edge of the band, r = exp(2 tolerance):

.. math:: e_j = g^j \sum_i A_i r^i / \sum_i A_i (g r)^i , \qquad g > 1

*Its mean is at most 1.* Given s, b cancels. At d = tolerance in the first group and -tolerance in the second, A_j r^j
is proportional to the law of j, and so the mean is 1. Wherever else d lies, j is stochastically smaller: if d grows for
one event of the first group, the weight of j changes from f_j + c f_{j-1} to f_j + c' f_{j-1} with c' > c, where f is
the law of the number of positives among the others of its group, and f_{j-1} / f_j increases in j (Newton's
inequalities), so that j grows in likelihood ratio; for the second group the same holds of s - j. As e_j increases in j,
its mean is largest at that edge. For g < 1 exchange the groups.

Source: section 4 of the mathematics. It departs from it where slopes compare pairs of regions, instead of all events of
a block at once: for more than two groups no edge of the band is the worst for all blocks. Regions have equal
information, the sum of p (1 - p), by which little is lost.
"""

import itertools
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any, Final

import numpy as np
from scipy.special import expit

from monitor.arrays import Bools, Floats, Ints
from monitor.errors import NotEnoughData
from monitor.scores import GridTable, grid
from monitor.sequential.alternatives import BUMPS, SLOPES, middle_logits
from monitor.sequential.calibration import TOLERANCE
from monitor.sequential.detector import Bets, State
from monitor.sequential.prevalence_loops import conditional_bets
from monitor.sequential.steps import Steps

REGIONS: Final = 8
"""Regions of the predictions: the first and the last are a pair, and so on inwards."""

INFORMATION: Final = 12.0
"""Sum of p (1 - p) over the events of a block: 70 events of a balanced model, 1,100 at a prevalence of 1%."""

MIN_WIDTH: Final = 16
MAX_WIDTH: Final = 4096
"""Events of a block, at least and at most."""


@dataclass(frozen=True, slots=True)
class Regions:
    """Eight regions of the predictions of a series, of equal information, that is of equal sums of p (1 - p).

    A cell that lies across bounds is shared out at random, by a hash, in proportion.

    Attributes
    ----------
    cell
        int64, shape (7,), ascending: the cells across which the bounds lie.
    begin, end
        float64, shape (7,): where each of these cells begins and ends, in regions.
    centre
        float64, shape (8,): mean logit of each region.
    """

    cell: Ints
    begin: Floats
    end: Floats
    centre: Floats

    @classmethod
    def of(cls, information: Floats) -> "Regions":
        """The regions for cells with this information, shape (cells,); some is above 0."""
        end = np.cumsum(information)
        end *= REGIONS / end[-1]
        begin = np.append(0.0, end[:-1])
        cell = np.searchsorted(end, np.arange(1, REGIONS))
        z = middle_logits()
        held = [np.clip(np.minimum(end, r + 1) - np.maximum(begin, r), 0.0, None) for r in range(REGIONS)]
        return cls(cell, begin[cell], end[cell], np.array([float(share @ z) / float(share.sum()) for share in held]))

    def places(self) -> tuple[Floats, Floats]:
        """Where each cell begins, in regions, and how far it extends, shape (cells,) each; below 0 if it takes no part."""
        cells = np.arange(grid.cell_count())
        start = np.searchsorted(self.cell, cells).astype(np.float64)
        extent = np.where(_in_doubt(), 0.0, -1.0)
        start[self.cell], extent[self.cell] = self.begin, self.end - self.begin
        return start, extent

    def names(self) -> list[str]:
        """The span of predictions of each region."""
        bounds = [0.0, *grid.edges()[self.cell].tolist(), 1.0]
        return [f"from {lower:.3g} to {upper:.3g}" for lower, upper in itertools.pairwise(bounds)]


class Prevalence:
    """Bets of D2 on one series.

    Parameters
    ----------
    regions
        Of earlier predictions.
    width
        Events of a block.
    tolerance
        Logits by which true probabilities may differ, up to a common offset, without being evidence.
    """

    def __init__(self, regions: Regions, width: int, tolerance: float = TOLERANCE) -> None:
        self.regions, self.width, self.tolerance = regions, width, tolerance
        self._waiting = np.zeros(0, np.int64)
        # Predictions are known up to half a cell, which counts as an error of the logits.
        band = 2.0 * (tolerance + _half_cell())
        apart = regions.centre[::-1][: REGIONS // 2] - regions.centre[: REGIONS // 2]
        self._tables = (
            *regions.places(),
            _probabilities(),
            float(np.exp(band)),
            _odds_ratios((np.array(SLOPES) - 1.0) * apart[:, None]),
            _odds_ratios(np.array(BUMPS)),
            width,
        )

    @classmethod
    def of(cls, predictions: GridTable, tolerance: float = TOLERANCE) -> "Prevalence":
        """Prepare for a series by earlier predictions of it, with or without outcomes.

        Raises
        ------
        NotEnoughData
            No prediction is above 0 and below 1.
        """
        p = _probabilities()[:, 1]
        count = np.bincount(predictions.cell, predictions.values[:, :3].sum(axis=1), p.size) * _in_doubt()
        information = count * p * (1.0 - p)
        total = float(information.sum())
        if total == 0.0:
            raise NotEnoughData(f"at least 1 prediction must be above 0 and below 1, got {predictions.predictions}")
        width = round(INFORMATION * float(count.sum()) / total)
        return cls(Regions.of(information), min(max(width, MIN_WIDTH), MAX_WIDTH), tolerance)

    @property
    def names(self) -> list[str]:
        """A name for each alternative, in the order of the columns of bets."""
        spans = self.regions.names()
        return [*(f"slope {slope:g}" for slope in SLOPES), *(f"bump {bump:+g} {at}" for at in spans for bump in BUMPS)]

    def bet(self, steps: Steps) -> Bets:
        """Bet on the blocks that are complete after each of these steps, which follow those of earlier calls."""
        log_bets, self._waiting = conditional_bets(self._waiting, *steps, *self._tables)
        return Bets(steps.end_ms, log_bets)

    def state(self) -> State:
        """Return what :meth:`from_state` continues from."""
        regions = self.regions
        return {
            "cell": regions.cell,
            "begin": regions.begin,
            "end": regions.end,
            "centre": regions.centre,
            "width": self.width,
            "tolerance": self.tolerance,
            "waiting": self._waiting,
        }

    @classmethod
    def from_state(cls, state: Mapping[str, Any]) -> "Prevalence":
        """Continue from a state."""
        floats = [np.array(state[key], np.float64) for key in ("begin", "end", "centre")]
        regions = Regions(np.array(state["cell"], np.int64), *floats)
        result = cls(regions, int(state["width"]), float(state["tolerance"]))
        result._waiting = np.array(state["waiting"], np.int64)
        return result


def _odds_ratios(contrast: Floats) -> Floats:
    """Of negative and of positive outcomes, shape (2, ...)."""
    return np.exp(np.array([-contrast, contrast]))


@cache
def _in_doubt() -> Bools:
    """Cells whose predictions admit doubt: those at most 17 logits from 0, shape (cells,)."""
    z = middle_logits()
    return np.asarray(np.abs(z) < grid.LOGIT_BOUND)


@cache
def _half_cell() -> float:
    """Logits by which such a prediction may differ from the middle of its cell."""
    z = middle_logits()[_in_doubt()]
    return float(np.diff(z).max() / 2.0)


@cache
def _probabilities() -> Floats:
    """Probability of a negative and of a positive outcome in the middle of each cell, shape (cells, 2)."""
    z = middle_logits()
    return np.ascontiguousarray(expit(np.array([-z, z])).T)
