"""D3: evidence that outcomes changed since a reference, whether or not predictions were calibrated then.

Null hypothesis: among the predictions of a group, outcomes are exchangeable over the reference and all that came since.
Groups are sixteenths of the predictions of the reference, cut where they are wider than half a logit. In each block of
steps, the positive events of a group are ranked among all so far: given the total, their number has a hypergeometric
law, so that its rank, randomised within the probability of the number itself, is uniform and independent of all earlier
ranks (a conformal p-value). With its normal quantile z, and any d that predictions alone determine, the mean of
exp(d z - d^2 / 2) is 1.
Source: section 4 of the mathematics.

Departures: there each step is ranked. Ranks of numbers that are nearly always the same are nearly all randomness, so
small steps are ranked together. Likelihood ratios given the totals would need no randomness, but they are no bets,
since totals are not known before the block. And sixteenths are not cut there, so that where the predictions of a
calibrated model moved, those at the ends moved within their group, and their outcomes with them.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cache
from typing import Any, Final, Self

import numpy as np
from scipy.special import expit, ndtri_exp

from monitor.arrays import Floats, Ints
from monitor.errors import SettingsError
from monitor.scores import GridTable, grid
from monitor.sequential.alternatives import BUMPS, OFFSETS, SLOPES, middle_logits
from monitor.sequential.change_loops import rank_blocks, sum_bets
from monitor.sequential.detector import Bets, State
from monitor.sequential.steps import Steps

SIXTEENTHS: Final = 16

MAX_WIDTH: Final = 0.5
"""Logits that a group spans at most."""

REFERENCE_EVENTS: Final = 20_000

CURVATURES: Final = (0.25, 0.5, -0.25, -0.5)
"""Logits: of U-shaped changes, how much higher the ends lie than the middle, halved."""

BLOCK_SIZE: Final = 32.0
"""Positive events, and negative ones, that the predictions of a block let expect."""


class ChangeBets:
    """Bets that outcomes changed, on steps in order of prediction time.

    The first labelled events of the series are the reference, on which there are no bets. After a promotion, or when a
    miscalibrated model was accepted, begin a new detector.

    The uncertainty of a small reference looks like a change: with 20,000 events a slope of 1.15 is seen,
    with 2,000 offsets of .25 and few slopes. Later events join the reference, so that a change which is not seen
    becomes part of it.

    Copies (``copy.copy``) share nothing that changes.

    Parameters
    ----------
    seed
        Of the series, int64. Equal seeds and steps give equal bets.
    reference_events
        Labelled events of the reference, at least 1; it ends with a whole step.

    Raises
    ------
    SettingsError
        ``reference_events`` is less than 1.
    """

    def __init__(self, seed: int, reference_events: int = REFERENCE_EVENTS) -> None:
        if reference_events < 1:
            raise SettingsError(f"reference_events must be at least 1, got {reference_events}")
        self._seed = seed
        self._reference_events = reference_events
        self._reference = GridTable.zero()
        self._groups: _Groups | None = None

    @property
    def names(self) -> list[str]:
        """A name for each alternative, in the order of the columns of bets."""
        return [
            *(f"offset {offset:+g}" for offset in OFFSETS),
            *(f"slope {slope:g}" for slope in SLOPES),
            *(f"ends {curvature:+g}" for curvature in CURVATURES),
            *(f"bump {bump:+g} in eighth {eighth} of the reference" for eighth in range(1, 9) for bump in BUMPS),
        ]

    def bet(self, steps: Steps, *, held: bool = False) -> Bets:
        """Bet on each block that the steps finish: a row for each.

        Parameters
        ----------
        held
            Whether to leave the events of these blocks out of the reference, once that is complete: while an alarm
            fires, so that a change that was seen does not become part of it. Bets against a reference that stays are
            not independent of each other: they tell when the alarm is over, and no budget holds for them.
        """
        learnt = self._learn(steps) if self._groups is None else 0
        if self._groups is None:
            return Bets(np.zeros(0, np.int64), np.zeros((0, len(self.names))))
        self._groups, bets = self._groups.bet(steps.part(learnt, steps.end_ms.size), self._seed, held=held)
        return bets

    def _learn(self, steps: Steps) -> int:
        """Add steps to the reference until it is complete, and return their number."""
        tables = steps.tables()
        labelled = self._reference.labelled + np.cumsum([table.labelled for table in tables])
        learnt = min(int(np.searchsorted(labelled, self._reference_events)) + 1, len(tables))
        self._reference = GridTable.sum((self._reference, *tables[:learnt]))
        if self._reference.labelled >= self._reference_events:
            self._groups, self._reference = _Groups.of(self._reference), GridTable.zero()
        return learnt

    def state(self) -> State:
        """Return what :meth:`from_state` continues from."""
        result: dict[str, Any] = {"seed": self._seed, "reference_events": self._reference_events}
        if self._groups is not None:
            return result | {name: np.array(getattr(self._groups, name)) for name in _Groups.__slots__}
        return result | {"cell": self._reference.cell, "values": self._reference.values}

    @classmethod
    def from_state(cls, state: Mapping[str, Any]) -> Self:
        """Continue from a state."""
        detector = cls(state["seed"], state["reference_events"])
        if "starts" in state:
            detector._groups = _Groups(**{name: np.array(state[name]) for name in _Groups.__slots__})
        else:
            detector._reference = GridTable(np.array(state["cell"]), np.array(state["values"]))
        return detector


@dataclass(frozen=True, eq=False, slots=True)
class _Groups:
    """Groups of predictions, and the events of each so far."""

    starts: Ints
    """The cells in which the groups after the first begin, ascending."""
    sixteenth: Ints
    """Which of the reference each group belongs to, shape (groups,)."""
    logit: Floats
    """Logit of each group, relative to the mean of the reference, shape (groups,)."""
    before: Ints
    """Events of the reference and of the blocks that joined it, and the positive ones among them, shape (groups, 2)."""
    block: Ints
    """The same of the unfinished block."""
    expected: Floats
    """Sum of the predictions of the unfinished block, shape (groups,)."""

    @classmethod
    def of(cls, reference: GridTable) -> Self:
        """Return the groups of a reference of at least one labelled event."""
        count = reference.values[:, 0] + reference.values[:, 1]
        last = np.searchsorted(np.cumsum(count), reference.labelled * np.arange(1, SIXTEENTHS) / SIXTEENTHS)
        quantiles, z = reference.cell[last] + 1, middle_logits()
        cuts = np.searchsorted(z, np.arange(-grid.LOGIT_BOUND, grid.LOGIT_BOUND, MAX_WIDTH)[1:])
        starts = np.unique(np.concatenate([quantiles[quantiles < z.size], cuts]))
        sixteenth = np.searchsorted(quantiles, np.append(0, starts), side="right")
        group, groups = _group(starts), sixteenth.size
        before = np.zeros((groups, 2), np.int64)
        np.add.at(before, group[reference.cell], np.column_stack([count, reference.values[:, 0]]))
        logit = np.bincount(group, z) / np.bincount(group) - float(count @ z[reference.cell]) / reference.labelled
        return cls(starts, sixteenth, logit, before, np.zeros_like(before), np.zeros(groups))

    def bet(self, steps: Steps, seed: int, *, held: bool) -> tuple[Self, Bets]:
        """Return the groups with the events of the steps, and the bets."""
        after = replace(self, before=self.before.copy(), block=self.block.copy(), expected=self.expected.copy())
        last, log_tail, sign, deviation = rank_blocks(
            steps.first,
            steps.end_ms,
            steps.cell,
            steps.values,
            _group(self.starts),
            _middle(),
            seed,
            BLOCK_SIZE,
            held,
            after.before,
            after.block,
            after.expected,
        )
        z, with_events = np.zeros_like(log_tail), deviation > 0.0
        z[with_events] = sign[with_events] * ndtri_exp(log_tail[with_events])
        return after, Bets(steps.end_ms[last], sum_bets(z, deviation, self._shifts()))

    def _shifts(self) -> Floats:
        """Logits by which each alternative shifts each group, shape (groups, 34)."""
        curve = 2.0 * np.linspace(-1.0, 1.0, SIXTEENTHS)[self.sixteenth] ** 2 - 2.0 / 3.0
        eighth = self.sixteenth // 2
        return np.column_stack(
            [
                *(np.full(eighth.size, offset) for offset in OFFSETS),
                *((slope - 1.0) * self.logit for slope in SLOPES),
                *(curvature * curve for curvature in CURVATURES),
                *(np.where(eighth == region, bump, 0.0) for region in range(SIXTEENTHS // 2) for bump in BUMPS),
            ]
        )


def _group(starts: Ints) -> Ints:
    """The group of each cell of the grid."""
    return np.searchsorted(starts, np.arange(grid.cell_count()), side="right")


@cache
def _middle() -> Floats:
    """A prediction in the middle of each cell, on the logit scale."""
    return np.asarray(expit(middle_logits()))
