"""A tick over many series and windows: what it takes from panes, beside measuring the raw predictions."""

import time
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import replace

import numpy as np
import pytest
from numpy.typing import NDArray

from monitor.classes.sketch import SkceSketch
from monitor.events.model import ALL, ModelPolicy, SeriesKey
from monitor.measures import MEASURES, Measure
from monitor.reports.evaluation.assess import uncertainty
from monitor.scores import GridTable, ScoreTable
from monitor.windows.evaluator import Evaluator
from monitor.windows.windows import Window
from tests.windows.memory import PaneCount

HOUR_MS = 3_600_000
POLICY = ModelPolicy(horizon_ms=0, lateness_ms=0)
WINDOWS = (Window("1h", HOUR_MS), Window("24h", 24 * HOUR_MS))
NOW_MS = 500_000 * HOUR_MS
FOUR = {name: MEASURES[name] for name in ("tce", "kce", "smce", "intce")}
ONE_BY_ONE = {name: replace(measure, norms=None, draws=None) for name, measure in FOUR.items()}
SERIES = 100
STREAMS = 5
EVENTS = 100_000


class Stream:
    """A day of predictions, raw and in panes."""

    def __init__(self, seed: int) -> None:
        draw = np.random.default_rng(seed)
        # A model of moderate spread: about a thousand cells occupied.
        logit = draw.normal(-0.5, 0.45, EVENTS)
        self.p: NDArray[np.float64] = 1.0 / (1.0 + np.exp(-logit))
        self.y = (draw.random(EVENTS) < 1.0 / (1.0 + np.exp(-1.2 * logit))).astype(np.int64)
        self.time_ms = NOW_MS - 24 * HOUR_MS + np.arange(EVENTS) * (24 * HOUR_MS) // EVENTS
        self.panes: dict[int, dict[int, GridTable]] = {}
        for window in WINDOWS:
            edges = np.arange(NOW_MS - window.length_ms, NOW_MS + 1, window.slide_ms)
            cuts = np.searchsorted(self.time_ms, edges)
            self.panes[window.slide_ms] = {
                int(start): GridTable.from_events(self.p[first:end], self.y[first:end])
                for start, first, end in zip(edges[:-1], cuts[:-1], cuts[1:], strict=True)
            }


class StreamPanes:
    """Series that share a few streams; each turn gives every series another one, so that all of them change."""

    def __init__(self, streams: Sequence[Stream]) -> None:
        self._streams = streams
        self._series = [SeriesKey(f"churn {number:03}", "1", ALL) for number in range(SERIES)]
        self.turn = 0

    def series(self) -> Sequence[SeriesKey]:
        return self._series

    def policy(self, model: str) -> ModelPolicy:
        return POLICY

    def watermark_ms(self, model: str) -> int:
        return NOW_MS

    def sum(self, series: SeriesKey, slide_ms: int, from_ms: int, to_ms: int) -> GridTable:
        panes = self._panes(series, slide_ms)
        return GridTable.sum(panes[start] for start in range(from_ms, to_ms, slide_ms))

    def sketch(self, series: SeriesKey, slide_ms: int, from_ms: int, to_ms: int) -> SkceSketch | None:
        return None

    def revision(self, series: SeriesKey, slide_ms: int, from_ms: int, to_ms: int) -> Hashable:
        return self.turn

    def counts(self, series: SeriesKey, slide_ms: int, from_ms: int, to_ms: int) -> Sequence[PaneCount]:
        panes = self._panes(series, slide_ms)
        return [
            PaneCount(start, panes[start].predictions, panes[start].labelled)
            for start in range(from_ms, to_ms, slide_ms)
            if start in panes
        ]

    def kept_from_ms(self, series: SeriesKey, slide_ms: int) -> int:
        return 0

    def _panes(self, series: SeriesKey, slide_ms: int) -> dict[int, GridTable]:
        return self._streams[(int(series.model[-3:]) + self.turn) % STREAMS].panes[slide_ms]


def evaluated(evaluator: Evaluator) -> tuple[float, float]:
    """Seconds of processor time in all, and of wall time for the values."""
    began = time.thread_time()
    duration = evaluator.evaluate().duration_seconds
    return time.thread_time() - began, duration


def renewal_ms(tables: Sequence[ScoreTable], measures: Mapping[str, Measure]) -> float:
    """Processor time of the intervals and levels of a table, on average."""
    spent = 0.0
    for table in tables:
        values = {name: measure.value(table) for name, measure in measures.items()}
        began = time.thread_time()
        uncertainty(table, measures, values)
        spent += time.thread_time() - began
    return 1000 * spent / len(tables)


@pytest.mark.benchmark
def test_a_tick_over_two_hundred_series_and_windows(capsys: pytest.CaptureFixture[str]) -> None:
    streams = [Stream(seed) for seed in range(STREAMS)]
    panes = StreamPanes(streams)
    reports = SERIES * len(WINDOWS)

    values = Evaluator(panes, WINDOWS, measures=FOUR, draws=0)
    values.evaluate()  # kernels are compiled
    spent, walls = zip(*(evaluated(values) for panes.turn in (1, 2, 3)), strict=True)
    changed, alone = min(spent) * 1000 / reports, min(walls) * 1000 / reports
    unchanged = min(evaluated(values)[0] for _ in range(3)) * 1000 / reports

    began = time.thread_time()
    for stream in streams:
        for window in WINDOWS:
            inside = stream.time_ms >= NOW_MS - window.length_ms
            table = ScoreTable.from_events(stream.p[inside], stream.y[inside])
            for measure in FOUR.values():
                measure.value(table)
    raw = (time.thread_time() - began) * 1000 / (STREAMS * len(WINDOWS))

    tables = [
        panes.sum(each, window.slide_ms, NOW_MS - window.length_ms, NOW_MS).to_scores()
        for each in panes.series()[:STREAMS]
        for window in WINDOWS
    ]
    renewal_ms(tables[:1], FOUR)
    renewal, one_by_one = renewal_ms(tables, FOUR), renewal_ms(tables, ONE_BY_ONE)
    ticks, ticks_one_by_one = (1000 * each / (10_000 - 1000 * alone) for each in (renewal, one_by_one))

    interval_seconds = 8.0
    whole = Evaluator(panes, WINDOWS, measures=FOUR, interval_seconds=interval_seconds)
    began_wall = time.perf_counter()
    _, duration = evaluated(whole)
    tick = time.perf_counter() - began_wall
    renewed = sum(report.measures["kce"].null_mean is not None for report in whole.latest.reports.values())
    rows = [table.rows for table in tables[: len(WINDOWS)]]
    with capsys.disabled():
        print(
            f"\n{reports} series x windows of {rows} rows, of {EVENTS // 24:,} and {EVENTS:,} events; processor time"
            f"\n  values alone, wall time        {alone:7.2f} ms each; 1,000 in {alone:.1f} s"
            f"\n  values and bounds, all changed {changed:7.2f} ms each"
            f"\n  none changed                   {unchanged:7.3f} ms each"
            f"\n  from raw predictions           {raw:7.2f} ms each: {raw / changed:.1f} times as long"
            f"\n  intervals and levels           {renewal:7.1f} ms each, 199 draws; draw by draw {one_by_one:.1f} ms:"
            f" {one_by_one / renewal:.1f} times as long"
            f"\n  1,000 that change every 10 s are renewed in {ticks:.1f} ticks; draw by draw in {ticks_one_by_one:.1f}"
            f"\n  a tick of {interval_seconds:g} s: {tick:.2f} s, values out after {duration:.2f} s, {renewed} renewed"
        )
    assert unchanged < 0.1 * changed
    assert changed < raw
    assert renewed > 0
