"""Panes in memory: raw events, summed on demand into real grid tables."""

from collections.abc import Hashable
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from monitor.events.model import ALL, ModelPolicy, SeriesKey
from monitor.scores import GridTable
from monitor.scores.sketch import SkceSketch
from monitor.store.settled import Hold
from monitor.windows.panes import ClosedPanes
from monitor.windows.windows import Count

MINUTE_MS = 60_000
HOUR_MS = 60 * MINUTE_MS
DAY_MS = 24 * HOUR_MS

CHURN = SeriesKey("churn", "7", ALL)


EVENT = np.dtype([("time_ms", "<i8"), ("p", "<f8"), ("y", "i1")])


class MemoryPanes(ClosedPanes):
    """Panes of events that a test adds and answers."""

    def __init__(self, policy: ModelPolicy) -> None:
        super().__init__({}, lambda _: policy)
        self.of_all = policy
        self._events: dict[SeriesKey, NDArray[Any]] = {}
        self._watermarks: dict[str, int] = {}
        self._changes: dict[SeriesKey, int] = {}
        self.kept_ms = 0
        self.sums = 0

    def add(self, series: SeriesKey, time_ms: ArrayLike, p: ArrayLike, y: ArrayLike) -> None:
        """Add predictions; an outcome of -1 is not known yet."""
        times = np.asarray(time_ms, np.int64)
        new = np.empty(times.size, EVENT)
        new["time_ms"], new["p"], new["y"] = times, p, y
        self._changes[series] = self._changes.get(series, 0) + 1
        self._events[series] = np.concatenate([self._events.get(series, np.empty(0, EVENT)), new])
        self.advance_to(series.model, int(times.max(initial=-1)))

    def answer(self, series: SeriesKey, rows: ArrayLike, y: int) -> None:
        """Let outcomes come in for the events of these places."""
        self._changes[series] += 1
        self._events[series]["y"][np.asarray(rows)] = y

    def advance_to(self, model: str, watermark_ms: int) -> None:
        """Let time pass without predictions."""
        self._watermarks[model] = max(self._watermarks.get(model, -1), watermark_ms)

    def events(self, series: SeriesKey, from_ms: int, to_ms: int) -> NDArray[Any]:
        """The events of [from, to)."""
        events: NDArray[Any] = self._events[series]
        return events[(events["time_ms"] >= from_ms) & (events["time_ms"] < to_ms)]

    def series(self) -> list[SeriesKey]:
        return list(self._events)

    def policy(self, model: str) -> ModelPolicy:
        return self.of_all

    def watermark_ms(self, model: str) -> int:
        return self._watermarks.get(model, -1)

    def edge_ms(self, model: str) -> int:
        return self.watermark_ms(model) - self.of_all.horizon_ms

    def held_back_by(self, model: str) -> Hold | None:
        return None

    def sum(self, series: SeriesKey, slide_ms: int, from_ms: int, to_ms: int) -> GridTable:
        self.sums += 1
        events = self._in_panes(series, slide_ms, from_ms, to_ms)
        return GridTable.from_events(events["p"], events["y"])

    def sum_settled(self, series: SeriesKey, slide_ms: int, from_ms: int, to_ms: int) -> GridTable:
        return self.sum(series, slide_ms, from_ms, to_ms)

    def sketch(self, series: SeriesKey, slide_ms: int, from_ms: int, to_ms: int) -> SkceSketch | None:
        return None

    def revision(self, series: SeriesKey, to_ms: int) -> Hashable:
        return self._changes.get(series, 0), self.kept_ms

    def counts(self, series: SeriesKey, slide_ms: int, from_ms: int, to_ms: int) -> list[Count]:
        events = self._in_panes(series, slide_ms, from_ms, to_ms)
        starts = events["time_ms"] - events["time_ms"] % slide_ms
        return [
            Count(int(start), int((starts == start).sum()), int((events["y"][starts == start] >= 0).sum()))
            for start in np.unique(starts)
        ]

    def kept_from_ms(self, series: SeriesKey, slide_ms: int) -> int:
        return self.kept_ms - self.kept_ms % slide_ms

    def _in_panes(self, series: SeriesKey, slide_ms: int, from_ms: int, to_ms: int) -> NDArray[Any]:
        events: NDArray[Any] = self._events.get(series, np.empty(0, EVENT))
        starts = events["time_ms"] - events["time_ms"] % slide_ms
        inside: NDArray[Any] = events[(starts >= max(from_ms, self.kept_from_ms(series, slide_ms))) & (starts < to_ms)]
        return inside


def calibrated(n: int, seed: int, *, slope: float = 1.0) -> tuple[NDArray[np.float64], NDArray[np.int8]]:
    """Predictions and outcomes of a model whose logits are off by a factor."""
    draw = np.random.default_rng(seed)
    logit = draw.normal(0.0, 1.5, n)
    y = draw.random(n) < 1.0 / (1.0 + np.exp(-logit))
    return 1.0 / (1.0 + np.exp(-slope * logit)), y.astype(np.int8)
