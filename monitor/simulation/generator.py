"""The generator of labelled predictions, for the demo, `monitor simulate-alarms` and the benchmark of alarms.

Each of these brings its own predictions; outcomes come from a :class:`Law`.
"""

import math
from dataclasses import dataclass
from functools import cache
from typing import Final, NamedTuple

import numpy as np
from scipy.special import expit

from monitor.arrays import Bools, Floats, Ints
from monitor.scores import grid
from monitor.scores.steps import Steps
from monitor.simulation.generator_loops import count_events

HOUR_MS: Final = 3_600_000
DAY_MS: Final = 24 * HOUR_MS
OUTAGE_DAYS: Final = 7


class Shape(NamedTuple):
    """Where the logits of a model's predictions lie."""

    centre: float
    """Their mean: slopes turn about it."""
    middle: float
    upper: float
    """Quartiles 2 and 3, less the centre."""


@dataclass(frozen=True)
class Law:
    """How outcomes, predictions and volume of a simulated model behave. Offsets and deviations are in logits.

    Attributes
    ----------
    slope, offset, bump
        What changes in the true logits: ``slope`` about the centre of the predictions, ``bump`` between their quartiles
        2 and 3.
    share
        Of the predictions, drawn at random (a segment), that change; None: all.
    change_at, ramp
        Where a change begins and how long it takes, in the unit of :attr:`Arrivals.position`.
    accepted_slope, accepted_offset
        By what the model is miscalibrated all the time.
    moving
        By how much predictions move over a day, and their outcomes with them.
    wander
        Standard deviation of what is drawn every day and moves predictions and their outcomes.
    season
        Share by which the volume moves over a day.
    jump
        Standard deviation of an offset of outcomes alone that is drawn anew every day.
    shock
        The same, of each period of one horizon.
    late
        Share of the labels that come after the horizon, once the model has changed.
    outage
        How long no label comes, every :data:`OUTAGE_DAYS` days from the change on, in milliseconds.
    """

    slope: float = 1.0
    offset: float = 0.0
    bump: float = 0.0
    share: float | None = None
    change_at: int = 0
    ramp: int = 0
    accepted_slope: float = 1.0
    accepted_offset: float = 0.0
    moving: float = 0.0
    wander: float = 0.0
    season: float = 0.0
    jump: float = 0.0
    shock: float = 0.0
    late: float = 0.0
    outage: float = 0.0

    def volume(self, time_ms: Ints) -> Floats:
        """How many times as many predictions as usual come at a time; 0 is midnight."""
        return np.asarray(1.0 + self.season * np.sin(2.0 * math.pi * time_ms / DAY_MS))


class Arrivals(NamedTuple):
    """Predictions in order of time, one row each."""

    time_ms: Floats
    z: Floats
    """Logits, less the centre of the shape."""
    position: Floats | Ints
    """Place in the course of changes: the number of the prediction, or its time in milliseconds."""
    cell: Ints | None = None
    """Cells of the grid, where each prediction is the middle of its cell."""


class DrawnEvents(NamedTuple):
    """Predictions with their outcomes, in order of prediction time, one row each."""

    time_ms: Ints
    prediction: Floats
    outcome: Ints
    """0 or 1."""
    known_ms: Ints
    """When the outcome comes."""
    changing: Bools
    """Whether a change concerns the prediction."""
    cell: Ints | None = None
    """Cells of the grid, where each prediction is the middle of its cell."""

    def take(self, rows: Bools | slice) -> "DrawnEvents":
        """Some of the events."""
        cell = None if self.cell is None else self.cell[rows]
        time_ms, prediction, outcome, known_ms, changing, _ = self
        return DrawnEvents(time_ms[rows], prediction[rows], outcome[rows], known_ms[rows], changing[rows], cell)


class Generator:
    """Draws what becomes of predictions, in order of time.

    Parameters
    ----------
    shape
        Of the predictions.
    horizon_ms
        A negative outcome comes this long after its prediction, a positive one at a random time before that.
    seed
        Of what is drawn for whole periods.
    rng
        Of everything else; the predictions may be drawn from it too.
    """

    def __init__(self, law: Law, shape: Shape, horizon_ms: int, seed: int, rng: np.random.Generator) -> None:
        self._law = law
        self._shape = shape
        self._horizon_ms = horizon_ms
        self._seed = seed
        self.rng = rng

    def label(self, arrivals: Arrivals) -> DrawnEvents:
        """Draw the outcomes of predictions, and when they come.

        The mean of outcomes under offsets that are drawn (``jump``, ``shock``) is that of the predictions only in
        logits.
        """
        law, shape, rng = self._law, self._shape, self.rng
        time_ms, z, position, cell = arrivals
        count, day = z.size, time_ms / DAY_MS
        logit = shape.centre + z
        if law.moving or law.wander:
            logit = logit + law.moving * np.sin(2.0 * math.pi * day) + self._normals(law.wander, 0, day)
            cell = None
        since = position - law.change_at
        progress = np.clip((since + 1.0) / max(law.ramp, 1), 0.0, 1.0)
        changing = np.ones(count, np.bool_) if law.share is None else rng.random(count) < law.share
        shift = law.offset + (law.slope - 1.0) * law.accepted_slope * z
        if law.bump:
            shift += law.bump * ((z >= shape.middle) & (z <= shape.upper))
        accepted = law.accepted_offset + (law.accepted_slope - 1.0) * z
        common = self._normals(law.jump, 1, day) + self._normals(law.shock, 2, time_ms / self._horizon_ms)
        outcome = draw_outcomes(expit(logit + accepted + progress * changing * shift + common), rng)
        delay = np.where(outcome, rng.random(count), 1.0) * self._horizon_ms
        if law.late or law.outage:
            lost = rng.random(count) < law.late
            lost |= since % (OUTAGE_DAYS * DAY_MS) < law.outage
            delay[lost & (since >= 0)] = self._horizon_ms + 1
        begin_ms = time_ms.astype(np.int64)
        known_ms = begin_ms + delay.astype(np.int64)
        return DrawnEvents(begin_ms, expit(logit), outcome.astype(np.int64), known_ms, changing, cell)

    def _normals(self, deviation: float, kind: int, period: Floats) -> Floats | float:
        """Normal numbers, one for each whole number of periods; 0 where nothing is drawn."""
        if deviation == 0.0:
            return 0.0
        numbers, row = np.unique(period.astype(np.int64), return_inverse=True)
        values = [np.random.default_rng([self._seed, kind, number]).normal() for number in numbers.tolist()]
        return np.asarray(deviation * np.array(values)[row])


def draw_outcomes(chance: Floats, rng: np.random.Generator) -> Bools:
    """Draw whether each prediction comes true, by its probability."""
    return np.asarray(rng.random(chance.size) < chance)


POSITIVE, NEGATIVE, UNLABELLED = 0, 1, 2
"""Labels: columns of the values of steps."""


def to_steps(step: Ints, end_ms: Ints, label: Ints, prediction: Floats, cell: Ints | None = None) -> Steps:
    """Count labelled predictions.

    Parameters
    ----------
    step
        int64, shape (n,), ascending: the step of each prediction, from 0.
    end_ms
        int64, shape (steps,): the ends of all steps.
    label
        int64, shape (n,): :data:`POSITIVE`, :data:`NEGATIVE` or :data:`UNLABELLED`.
    prediction, cell
        Shape (n,); cells are located if left out, and if given, predictions are their middles.
    """
    if cell is None:
        cell = grid.locate(prediction)
        above = grid.to_units(prediction) - grid.anchors()[cell]
    else:
        above = _middles_above_anchors()[cell]
    bounds = np.searchsorted(step, np.arange(end_ms.size + 1))
    return Steps(end_ms, *count_events(bounds, cell, label, above, grid.cell_count()))


@cache
def cell_middles() -> Floats:
    """Return the prediction that stands for each cell, in whole units; float64, shape (cells,)."""
    upper = np.maximum(grid.edges(), grid.upper_edges())
    return np.asarray(grid.to_units((grid.edges() + upper) / 2.0) / grid.UNITS)


@cache
def _middles_above_anchors() -> Ints:
    return (cell_middles() * grid.UNITS).astype(np.int64) - grid.anchors()


@cache
def cell_logits() -> Floats:
    """Return the logit of :func:`cell_middles`; of 0 and 1, one whose probability rounds to them."""
    p = cell_middles()
    with np.errstate(divide="ignore"):
        return np.asarray(np.clip(np.log(p) - np.log1p(-p), -1e3, 1e3))
