"""D3: evidence that outcomes changed since a reference, whether or not predictions were calibrated then.

Null hypothesis: in each group of predictions the true logits are those of the predictions plus one unknown offset, the
same in the reference and in all that came since. Groups are sixteenths of the predictions of the
reference, cut where they are wider than half a logit. In each block of steps, the positive events of a group are ranked
among all so far: given the total, each choice of the positive events is as likely as the product of the odds that were
predicted for them, whatever the offset. So their number in the block has Fisher's noncentral hypergeometric law, and
its rank, randomised within the probability of the number itself, is uniform and independent of all earlier ranks (a
conformal p-value). With its normal quantile z, and any d that predictions alone determine, the mean of
exp(d z - d^2 / 2) is 1.

The best d is a shift in logits times the standard deviation of the number. That depends on the rates, and a model that
was accepted may be far from them. So the first tenth of the reference, the pilot, says how far outcomes are from
predictions in each group; d goes by it, and its outcomes are not used again.
Source: sections 4 and 10 of the mathematics.

Departures: in section 4 each step is ranked. Ranks of numbers that are nearly always the same are nearly all
randomness, so small steps are ranked together. Likelihood ratios given the totals would need no randomness, but they
are no bets, since totals are not known before the block. Predictions are taken by wide cells of the grid, each for the
mean of its predictions, which leaves what is expected of calibrated predictions as it is.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cache
from typing import Any, Final, NamedTuple, Self

import numpy as np
from scipy.special import ndtri_exp

from monitor.arrays import Floats, Ints
from monitor.errors import SettingsError
from monitor.scores import GridTable, grid
from monitor.scores.steps import Steps
from monitor.sequential.alternatives import BUMPS, OFFSETS, SLOPES, certainty, middle_logits
from monitor.sequential.change_loops import logits_of, rank_blocks, smooth_offsets, sum_bets
from monitor.sequential.detector import Bets, State

SIXTEENTHS: Final = 16

MAX_WIDTH: Final = 0.5
"""Logits that a group spans at most."""

REFERENCE_EVENTS: Final = 20_000
_PILOT_SHARE: Final = 0.1
_STIFFNESS: Final = 4.0
"""In the pilot, offsets of neighbouring groups are taken to differ by half a logit."""

CURVATURES: Final = (0.25, 0.5, -0.25, -0.5)
"""Logits: of U-shaped changes, how much higher the ends lie than the middle, halved."""

INFORMATION: Final = 12.0
"""Variance of the number of positive events of a block, as predicted: 1,300 events at a prevalence of 1%.

Of less, too much of a rank is drawn at random; with more, a large change waits for the end of a block.
"""

MIN_EVENTS: Final = 128.0
"""Events of a block at least: each block costs the time of a hundred events."""


class ChangeBets:
    """Bets that outcomes changed, on steps in order of prediction time.

    The first labelled events of the series are the reference, on which there are no bets. After a promotion, or when a
    miscalibrated model was accepted, begin a new detector.

    The uncertainty of a small reference looks like a change: with 20,000 events and a false alarm a year an offset of
    .25 and a slope of 1.3 are seen, one of 1.15 in 60% of streams; with 2,000 events offsets and few slopes. Later
    events join the reference, so that a change which is not seen becomes part of it.

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
        self._pilot = GridTable.zero()
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
        """Add steps to the pilot and to the rest of the reference until both are complete; return their number."""
        learnt = 0
        for table in steps.tables():
            if self._pilot.labelled < _PILOT_SHARE * self._reference_events:
                self._pilot += table
            else:
                self._reference += table
            learnt += 1
            if self._reference.labelled and self._pilot.labelled + self._reference.labelled >= self._reference_events:
                self._groups = _Groups.of(self._pilot, self._reference)
                self._pilot = self._reference = GridTable.zero()
                break
        return learnt

    def state(self) -> State:
        """Return what :meth:`from_state` continues from."""
        result: dict[str, Any] = {"seed": self._seed, "reference_events": self._reference_events}
        if self._groups is not None:
            return result | {name: np.array(getattr(self._groups, name)) for name in _Groups.__slots__}
        tables = {"pilot": self._pilot, "reference": self._reference}
        return result | {
            f"{name}_{part}": getattr(table, part) for name, table in tables.items() for part in ("cell", "values")
        }

    @classmethod
    def from_state(cls, state: Mapping[str, Any]) -> Self:
        """Continue from a state."""
        detector = cls(state["seed"], state["reference_events"])
        if "starts" in state:
            detector._groups = _Groups(**{name: np.array(state[name]) for name in _Groups.__slots__})
        else:
            detector._pilot, detector._reference = (
                GridTable(np.array(state[f"{name}_cell"]), np.array(state[f"{name}_values"]))
                for name in ("pilot", "reference")
            )
        return detector


class _Bins(NamedTuple):
    """Wide cells of the grid, as the bins of predictions."""

    of_cell: Ints
    """The bin of each cell."""
    anchor: Floats
    """Where sums of predictions of each cell count from."""
    unit: float
    """The prediction that 1 in those sums is worth."""
    certain: float
    """The prediction that 0 is taken for."""

    def events(self, table: GridTable) -> Floats:
        """Labelled events of each bin, and the sum of their predictions, shape (2, bins)."""
        count = table.values[:, 0] + table.values[:, 1]
        total = count * self.anchor[table.cell] + (table.values[:, 3] + table.values[:, 4]) * self.unit
        bins, size = self.of_cell[table.cell], int(self.of_cell[-1]) + 1
        return np.array([np.bincount(bins, weights, size) for weights in (count, total)])


@cache
def _bins() -> _Bins:
    of_cell = np.searchsorted(grid.wide_edges(), grid.edges(), side="right") - 1
    return _Bins(of_cell, grid.anchors() / grid.UNITS, 1.0 / grid.UNITS, certainty()[0])


@cache
def _middle() -> Floats:
    """The mean of the logits of the cells of each bin."""
    of_cell = _bins().of_cell
    return np.asarray(np.bincount(of_cell, middle_logits()) / np.bincount(of_cell))


@dataclass(frozen=True, eq=False, slots=True)
class _Groups:
    """Groups of predictions, and the events of each so far."""

    starts: Ints
    """The bin in which each group begins, ascending, and the number of bins, shape (groups + 1,)."""
    sixteenth: Ints
    """Which of the reference each group belongs to, shape (groups,)."""
    logit: Floats
    """Logit of each group, relative to the mean of the reference, shape (groups,)."""
    offset: Floats
    """Logits by which outcomes of the pilot lay above the predictions, shape (groups,)."""
    before: Floats
    """Events of the reference and of the blocks that joined it in each bin, and the sum of their predictions, shape
    (2, bins)."""
    positives_before: Ints
    """Their positive events, shape (groups,)."""
    block: Floats
    """The same as ``before`` of the unfinished block."""
    positives: Ints
    """Its positive events."""
    information: Floats
    """The variance of their number at the rates of the pilot, shape (1,)."""

    @classmethod
    def of(cls, pilot: GridTable, reference: GridTable) -> Self:
        """Return the groups of a pilot and the rest of the reference, of at least one labelled event each."""
        both = pilot + reference
        count = both.values[:, 0] + both.values[:, 1]
        last = np.searchsorted(np.cumsum(count), both.labelled * np.arange(1, SIXTEENTHS) / SIXTEENTHS)
        bins, z = _bins(), middle_logits()
        quantiles = bins.of_cell[both.cell[last]] + 1
        cuts = bins.of_cell[np.searchsorted(z, np.arange(-grid.LOGIT_BOUND, grid.LOGIT_BOUND, MAX_WIDTH)[1:])]
        size = int(bins.of_cell[-1]) + 1
        starts = np.unique(np.concatenate([[0], quantiles[quantiles < size], cuts]))
        sixteenth = np.searchsorted(quantiles, starts, side="right")
        group_of_bin = np.searchsorted(starts, np.arange(size), side="right") - 1
        group, groups = group_of_bin[bins.of_cell], starts.size
        logit = np.bincount(group, z) / np.bincount(group) - float(count @ z[both.cell]) / both.labelled
        counts, logits = logits_of(bins.events(pilot), bins.certain)
        of_pilot = _positives(pilot, group, groups)
        offset = smooth_offsets(group_of_bin, counts, logits, of_pilot, _STIFFNESS)
        positives = _positives(reference, group, groups).astype(np.int64)
        before = bins.events(reference)
        return cls(
            np.append(starts, size),
            sixteenth,
            logit,
            offset,
            before,
            positives,
            np.zeros_like(before),
            np.zeros_like(positives),
            np.zeros(1),
        )

    def bet(self, steps: Steps, seed: int, *, held: bool) -> tuple[Self, Bets]:
        """Return the groups with the events of the steps, and the bets."""
        after = replace(
            self,
            before=self.before.copy(),
            positives_before=self.positives_before.copy(),
            block=self.block.copy(),
            positives=self.positives.copy(),
            information=self.information.copy(),
        )
        last, log_tail, sign, deviation = rank_blocks(
            steps.first,
            steps.end_ms,
            steps.cell,
            steps.values,
            _bins(),
            _middle(),
            self.starts,
            self.offset,
            seed,
            (INFORMATION, MIN_EVENTS),
            held,
            after.before,
            after.positives_before,
            after.block,
            after.positives,
            after.information,
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


def _positives(table: GridTable, group: Ints, groups: int) -> Floats:
    """Positive events of each group."""
    return np.bincount(group[table.cell], table.values[:, 0], groups).astype(np.float64)
