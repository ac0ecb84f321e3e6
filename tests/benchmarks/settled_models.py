"""Models with settled panes of a week, as closings make them: what evaluations of many windows are measured on."""

from typing import Final

import numpy as np

from monitor.arrays import Ints
from monitor.events.model import ALL, ModelPolicy, SeriesKey
from monitor.scores import grid
from monitor.scores.grid_table import COLUMNS
from monitor.store.base import ModelClock
from monitor.store.closing import Cells, Closing, Panes
from monitor.windows.panes import ClosedPanes
from monitor.windows.windows import Window

MINUTE_MS: Final = 60_000
HOUR_MS: Final = 60 * MINUTE_MS
WINDOWS: Final = tuple(Window(name, hours * HOUR_MS) for name, hours in (("1h", 1), ("6h", 6), ("1d", 24), ("7d", 168)))
EDGE_MS: Final = 150_000 * 3 * HOUR_MS
"""A multiple of every window's panes: all windows move when a pane that ends here is closed."""

SEGMENTS: Final = 4
EVENTS_AN_HOUR: Final = 500
"""Enough for measures in every window: a segment has 125 in an hour."""


class SettledModels:
    """Panes of models, each with its whole and four segments, closed up to a minute before ``EDGE_MS``.

    Parameters
    ----------
    models
        Number of models; they differ in the spread of their predictions, prevalence and error.
    events_an_hour
        Of each model, over its segments.
    """

    def __init__(self, models: int, events_an_hour: int = EVENTS_AN_HOUR) -> None:
        self._events_an_hour = events_an_hour
        self.names = [f"model-{number:03d}" for number in range(models)]
        policy = ModelPolicy(horizon_ms=0, lateness_ms=0)
        self.panes = ClosedPanes({window.slide_ms: window.length_ms for window in WINDOWS}, lambda _: policy)
        self._rng = np.random.default_rng(12)
        self._laws = [_Law(self._rng) for _ in self.names]
        end_ms = EDGE_MS - MINUTE_MS
        for window in reversed(WINDOWS):
            begin_ms = EDGE_MS - window.length_ms
            shorter = [other.length_ms for other in WINDOWS if other.length_ms < window.length_ms]
            # Wider panes for what only longer windows hold: the first pane of each window lies in its own width.
            stop_ms = min(end_ms, EDGE_MS - max(shorter, default=0))
            self._close(begin_ms - window.slide_ms, stop_ms, window.slide_ms)

    def close_minute(self, number: int = 0) -> None:
        """Close another minute of every model: the first one moves all windows by one pane."""
        end_ms = EDGE_MS + number * MINUTE_MS
        self._close(end_ms - MINUTE_MS, end_ms, MINUTE_MS)

    def _close(self, from_ms: int, to_ms: int, pane_ms: int) -> None:
        starts_ms = np.arange(from_ms, to_ms, pane_ms)
        for name, law in zip(self.names, self._laws, strict=True):
            names = [SeriesKey(name, "1", segment) for segment in (ALL, *(f"region=r{at}" for at in range(SEGMENTS)))]
            cells = law.cells(self._rng, starts_ms, self._events_an_hour * pane_ms / HOUR_MS)
            done_ms = self.panes.clock(0, name).closed_to_ms
            closing = Closing(name, max(from_ms, done_ms), to_ms, pane_ms, Panes(names, cells))
            self.panes.advance(0, name, ModelClock(to_ms, to_ms, to_ms), [closing])
            self.panes.settle(name)


class _Law:
    """The law of one model's predictions and outcomes, by cells of the grid."""

    def __init__(self, rng: np.random.Generator) -> None:
        logit = rng.normal(rng.uniform(-2.0, 0.5), rng.uniform(0.5, 1.5), 200_000)
        self._cell, count = np.unique(grid.locate(1.0 / (1.0 + np.exp(-logit))), return_counts=True)
        self._share = count / count.sum()
        lower, upper = grid.edges()[self._cell], grid.upper_edges()[self._cell]
        middle = (lower + upper) / 2.0
        self._above = grid.to_units(middle) - grid.anchors()[self._cell]
        slope, offset = rng.choice([1.0, 1.0, 1.2, 0.8]), rng.choice([0.0, 0.0, 0.2])
        self._rate = 1.0 / (1.0 + np.exp(-(slope * np.log(middle / (1.0 - middle)) + offset)))

    def cells(self, rng: np.random.Generator, starts_ms: Ints, events: float) -> Cells:
        """The rows of panes of about this many events each: first those of the whole model, then of its segments."""
        shape = SEGMENTS, starts_ms.size, self._cell.size
        counts = rng.poisson(self._share * events / SEGMENTS, shape)
        positives = rng.binomial(counts, self._rate)
        values = np.zeros((SEGMENTS + 1, *shape[1:], COLUMNS), np.int64)
        for segment in range(SEGMENTS):
            values[segment + 1, ..., 0] = positives[segment]
            values[segment + 1, ..., 1] = counts[segment] - positives[segment]
        values[..., 3:5] = values[..., :2] * self._above[:, None]
        values[0] = values[1:].sum(axis=0)
        series, pane, place = np.nonzero(values[..., :2].any(axis=-1))
        return Cells(series, starts_ms[pane], self._cell[place], values[series, pane, place])
