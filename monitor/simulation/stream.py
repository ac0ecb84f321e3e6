"""The settled predictions of one simulated model, under a scenario."""

from collections.abc import Mapping
from typing import Final, NamedTuple

import numpy as np

from monitor.arrays import Ints
from monitor.events.model import ALL
from monitor.scores.steps import Steps
from monitor.simulation.generator import (
    HOUR_MS,
    NEGATIVE,
    POSITIVE,
    UNLABELLED,
    Arrivals,
    Generator,
    cell_logits,
    cell_middles,
    to_steps,
)
from monitor.simulation.predictions import PredictionSource, shape_of
from monitor.simulation.scenarios import Scenario

CONCERNED: Final = "segment=changed"
OTHERS: Final = "segment=others"


class Course(NamedTuple):
    """When things happen to a simulated model."""

    change_ms: int
    """When the scenario begins."""
    end_ms: int
    pane_ms: int
    """Width of steps, a divisor of an hour."""
    horizon_ms: int
    """Horizon of outcomes; shocks last as long."""
    implied_negative: bool
    """Whether a missing label counts as negative."""


class SimulatedStream:
    """Draws the steps of a model, in order of time.

    Parameters
    ----------
    predictions
        Where they come from.
    scenario
        What happens, from the change on.
    course
        When.
    seed
        Equal seeds give equal steps.
    """

    def __init__(self, predictions: PredictionSource, scenario: Scenario, course: Course, seed: int) -> None:
        self._predictions = predictions
        self._course = course
        self._odds = scenario.size if scenario.name == "prevalence" else None
        self._law = scenario.law(course.change_ms)
        shape, rng = shape_of(predictions), np.random.default_rng([seed, *scenario.name.encode()])
        self._generator = Generator(self._law, shape, course.horizon_ms, seed, rng)
        self._z = cell_logits() - shape.centre
        self._to_ms = 0

    @property
    def to_ms(self) -> int:
        """Up to when steps were drawn."""
        return self._to_ms

    def draw(self, hours: int) -> Mapping[str, Steps]:
        """Draw the steps of some hours, but no further than to the change or to the end: segment -> steps."""
        course, begin_ms = self._course, self._to_ms
        changed = begin_ms >= course.change_ms
        self._to_ms = min(begin_ms + hours * HOUR_MS, course.end_ms if changed else course.change_ms)
        start_ms = np.arange(begin_ms, self._to_ms, course.pane_ms)
        volume = self._law.volume(start_ms)
        counts, cell = self._predictions.draw(begin_ms, course.pane_ms, volume, self._generator.rng)
        if changed and self._odds is not None:
            counts, cell = self._with_more_positives(counts, cell, self._odds)
        step = np.repeat(np.arange(counts.size), counts)
        time_ms = start_ms[step].astype(np.float64)
        events = self._generator.label(Arrivals(time_ms, self._z[cell], time_ms, cell))
        missing = events.known_ms - events.time_ms > course.horizon_ms
        label = np.where(events.outcome == 1, POSITIVE, NEGATIVE)
        label[missing] = NEGATIVE if course.implied_negative else UNLABELLED
        end_ms = start_ms + course.pane_ms
        series = {ALL: to_steps(step, end_ms, label, events.prediction, events.cell)}
        if self._law.share is not None:
            for segment, rows in ((CONCERNED, events.changing), (OTHERS, ~events.changing)):
                part = events.take(rows)
                series[segment] = to_steps(step[rows], end_ms, label[rows], part.prediction, part.cell)
        return series

    def _with_more_positives(self, counts: Ints, cell: Ints, odds: float) -> tuple[Ints, Ints]:
        """Draw predictions again as they are where the odds of a positive are higher (a label shift)."""
        p, before = cell_middles(), float(cell_middles()[self._predictions.quantiles].mean())
        after = odds * before / (1.0 - before + odds * before)
        weight = after / before * p + (1.0 - after) / (1.0 - before) * (1.0 - p)
        times = self._generator.rng.poisson(weight[cell])
        pane = np.repeat(np.repeat(np.arange(counts.size), counts), times)
        return np.bincount(pane, minlength=counts.size), np.repeat(cell, times)
