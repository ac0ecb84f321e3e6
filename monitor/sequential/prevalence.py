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

Predictions of 0 and 1, and those within 4e-8 of them, join no block: they count as certain, so no b moves them. What
contradicts them is bet on as in D1, one by one, for slopes below 1 and for the bumps of the outermost regions.

Source: sections 4 and 10 of the mathematics. It departs from section 4 where slopes compare pairs of regions, not all
events of a block at once: for more than two groups no edge of the band is the worst for all blocks. Regions have equal
information, the sum of p (1 - p), by which little is lost.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache, lru_cache
from typing import Any, Final

import numpy as np
from scipy.special import expit

from monitor.arrays import Bools, Floats, Ints
from monitor.scores import GridTable, grid
from monitor.scores.grid_table import POSITIVE_SUM
from monitor.scores.steps import Steps
from monitor.sequential.alternatives import BUMPS, OFFSETS, SLOPES, middle_logits, spans
from monitor.sequential.calibration import TOLERANCE, common_lines
from monitor.sequential.detector import Bets, State
from monitor.sequential.first_predictions import ENOUGH
from monitor.sequential.prevalence_loops import conditional_bets

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
    bound
        int64, shape (7,), ascending: the cells across which the bounds lie.
    begin, end
        float64, shape (7,): where each of these cells begins and ends, in regions.
    centre
        float64, shape (8,): mean logit of each region.
    """

    bound: Ints
    begin: Floats
    end: Floats
    centre: Floats

    @classmethod
    def of(cls, information: Floats) -> "Regions":
        """The regions for cells with this information, shape (cells,); some is above 0."""
        end = np.cumsum(information)
        end *= REGIONS / end[-1]
        begin = np.append(0.0, end[:-1])
        bound = np.searchsorted(end, np.arange(1, REGIONS))
        z = middle_logits()
        held = [np.clip(np.minimum(end, r + 1) - np.maximum(begin, r), 0.0, None) for r in range(REGIONS)]
        return cls(bound, begin[bound], end[bound], np.array([float(share @ z) / float(share.sum()) for share in held]))

    def bounds(self) -> tuple[Ints, Floats, Floats]:
        """The cells across which bounds lie, and where each begins and ends."""
        return self.bound, self.begin, self.end

    def apart(self) -> Floats:
        """How far the regions of each pair are apart, from the outer pair inwards, shape (4,), in logits."""
        return np.asarray(self.centre[::-1] - self.centre)[: REGIONS // 2]


class PrevalenceBets:
    """Bets on one series that no change of prevalence moves. They begin after the first thousand predictions.

    Parameters
    ----------
    tolerance
        Logits by which true probabilities may differ, up to a common offset, without being evidence.
    """

    def __init__(self, tolerance: float = TOLERANCE) -> None:
        self._tolerance = tolerance
        self._read: GridTable | None = GridTable.zero()
        """Predictions so far; None once they are enough."""
        self._waiting = np.zeros(0, np.int64)
        self._set(*_block(np.ones(grid.cell_count())))

    def _set(self, width: int, regions: Regions) -> None:
        self._width, self._regions = width, regions
        # Predictions are known up to half a cell, which counts as an error of the logits.
        self._band = float(np.exp(2.0 * (self._tolerance + _half_cell())))
        self._slopes = _odds_ratios((np.array(SLOPES) - 1.0) * regions.apart()[:, None])

    @property
    def names(self) -> list[str]:
        """A name for each alternative. Those of bumps refer to the series' first predictions."""
        bumps = (f"bump {bump:+g} {span}" for span in spans(self._regions.bound) for bump in BUMPS)
        return [*(f"slope {slope:g}" for slope in SLOPES), *bumps]

    def bet(self, steps: Steps) -> Bets:
        """Bet on the blocks that the steps complete, which follow those of earlier calls; one row a step."""
        start = 0 if self._read is None else self._read_first(self._read, steps)
        log_bets = np.zeros((steps.end_ms.size, len(SLOPES) + REGIONS * len(BUMPS)))
        rest = steps.part(start, steps.end_ms.size)
        log_bets[start:], self._waiting = conditional_bets(
            self._waiting,
            *rest,
            *self._regions.bounds(),
            _probabilities(),
            self._band,
            self._slopes,
            _odds_ratios(np.array(BUMPS)),
            self._width,
        )
        return Bets(steps.end_ms, log_bets + self._bet_on_certainty(steps))

    def _bet_on_certainty(self, steps: Steps) -> Floats:
        """Bet on predictions that admit no doubt, as D1 bets on those of 0 and 1; shape (steps, 22)."""
        certain = np.where(_in_doubt()[steps.cell], 0, np.sign(middle_logits()[steps.cell]))
        lowest, highest = (steps.values[:, :2] * (certain == side)[:, None] for side in (-1, 1))
        total = np.vstack([np.zeros(4, np.int64), np.cumsum(np.hstack([lowest, highest]), axis=0)])
        count = np.diff(total[steps.first], axis=0)
        # Not a matrix product, whose last bits depend on the number of steps.
        return np.asarray((count[:, :, None] * _certainty_bets(self._tolerance)).sum(axis=1))

    def _read_first(self, read: GridTable, steps: Steps) -> int:
        """Read predictions until they are enough; return the first step that they are enough for."""
        events = np.append(0, np.cumsum(_count(steps) * _in_doubt()[steps.cell]))[steps.first[1:]]
        already = int((_count(read) * _in_doubt()[read.cell]).sum())
        start = min(int(np.searchsorted(already + events, ENOUGH)) + 1, events.size)
        self._read = GridTable.sum((read, *steps.part(0, start).tables()))
        if start and already + events[start - 1] >= ENOUGH:
            count = np.bincount(self._read.cell, _count(self._read), grid.cell_count()).astype(np.float64)
            self._set(*_block(count))
            self._read = None
        return start

    def state(self) -> State:
        """Return what :meth:`from_state` continues from."""
        read = self._read or GridTable.zero()
        return {
            "tolerance": self._tolerance,
            "enough": int(self._read is None),
            "read_cell": read.cell,
            "read_values": read.values,
            "bound": self._regions.bound,
            "begin": self._regions.begin,
            "end": self._regions.end,
            "centre": self._regions.centre,
            "width": self._width,
            "waiting": self._waiting,
        }

    @classmethod
    def from_state(cls, state: Mapping[str, Any]) -> "PrevalenceBets":
        """Continue from a state."""
        result = cls(float(state["tolerance"]))
        read = GridTable(np.array(state["read_cell"], np.int64), np.array(state["read_values"], np.int64))
        result._read = None if state["enough"] else read
        floats = [np.array(state[key], np.float64) for key in ("begin", "end", "centre")]
        result._set(int(state["width"]), Regions(np.array(state["bound"], np.int64), *floats))
        result._waiting = np.array(state["waiting"], np.int64)
        return result


def _count(table: GridTable | Steps) -> Ints:
    """Predictions of each row, with or without an outcome."""
    return np.asarray(table.values[:, :POSITIVE_SUM].sum(axis=1), np.int64)


def _block(count: Floats) -> tuple[int, Regions]:
    """Number of events of a block, and regions, for so many predictions in each cell, shape (cells,)."""
    count = np.where(_in_doubt(), count, 0.0)
    information = count * _probabilities().prod(axis=1)
    width = round(INFORMATION * float(count.sum()) / float(information.sum()))
    return min(max(width, MIN_WIDTH), MAX_WIDTH), Regions.of(information)


def _odds_ratios(contrast: Floats) -> Floats:
    """Odds ratios of negative and of positive outcomes, shape (2, ...)."""
    return np.asarray(np.exp(np.array([-contrast, contrast])))


@lru_cache(maxsize=8)
def _certainty_bets(tolerance: float) -> Floats:
    """Logarithm of each bet on a positive and a negative outcome of a prediction of 0, and of 1, shape (4, 22)."""
    lines = common_lines(tolerance)[[0, 0, -1, -1], [0, 2, 0, 2], len(OFFSETS) :]
    result = np.zeros((4, len(SLOPES) + REGIONS * len(BUMPS)))
    slopes, bumps = np.split(lines, [len(SLOPES)], axis=1)
    result[:, : len(SLOPES)] = slopes
    result[:2, len(SLOPES) : len(SLOPES) + len(BUMPS)] = bumps[:2]
    result[2:, -len(BUMPS) :] = bumps[2:]
    return result


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
    """Probability of a negative and of a positive outcome in the middle of each cell, shape (cells, 2).

    Both are 0 where the predictions admit no doubt.
    """
    z = middle_logits()
    return np.ascontiguousarray(np.where(_in_doubt(), expit(np.array([-z, z])), 0.0).T)
