"""Cost of evaluating many windows: their values after all of them moved, then their intervals, levels and verdicts."""

import time
from dataclasses import fields
from typing import Final, NamedTuple

import pytest

from monitor.measures import WINDOW_MEASURES, Measure, SemiNorm
from monitor.reports.evaluation.assess import WINDOW_DRAWS, uncertainty
from monitor.reports.evaluation.report import Report
from monitor.scores import GridTable, ScoreTable
from monitor.windows.contents import moment_of
from tests.benchmarks.budgets import note
from tests.benchmarks.settled_models import WINDOWS, SettledModels
from tests.evaluations import Alone

MODELS: Final = 8
WHOLE: Final = 4_000
"""Windows of the budget: 1,000 series, four windows each."""

ONE_BY_ONE: Final = {
    name: Measure(**{field.name: getattr(measure, field.name) for field in fields(Measure)} | {"draws": None})
    for name, measure in WINDOW_MEASURES.items()
    if not isinstance(measure, SemiNorm)
}
"""Measures without their loops over many draws."""


class ProcessorClock:
    """A clock that moves by this thread's processor time alone."""

    def now_ms(self) -> int:
        return 0

    def monotonic(self) -> float:
        return time.thread_time()

    def sleep(self, seconds: float) -> None:
        raise AssertionError("nothing waits here")


class Cost(NamedTuple):
    """Milliseconds of processor time of an evaluation, for each report."""

    values: float
    whole: float


def evaluated(evaluator: Alone) -> Cost:
    """Evaluate once."""
    began = time.thread_time()
    snapshot = evaluator.evaluate()
    each_ms = 1000 / len(snapshot.reports)
    return Cost(snapshot.duration_seconds * each_ms, (time.thread_time() - began) * each_ms)


def resummed(models: SettledModels) -> float:
    """Milliseconds for each report, of summing its panes anew: those of an evaluator that keeps no sums."""
    spent = 0.0
    reports = 0
    for series in models.panes.series():
        for window in WINDOWS:
            from_ms, to_ms = window.span(moment_of(models.panes, series.model))
            panes = [
                models.panes.sum(series, window.slide_ms, start, start + window.slide_ms)
                for start in range(from_ms, to_ms, window.slide_ms)
            ]
            began = time.thread_time()
            GridTable.sum(panes)
            spent += time.thread_time() - began
            reports += 1
    return 1000 * spent / reports


def renewal(tables: list[ScoreTable], measures: dict[str, Measure]) -> float:
    """Milliseconds for the intervals and levels of a table, on average."""
    spent = 0.0
    for table in tables:
        values = {name: measure.value(table) for name, measure in measures.items()}
        began = time.thread_time()
        uncertainty(table, measures, values, draws=WINDOW_DRAWS)
        spent += time.thread_time() - began
    return 1000 * spent / len(tables)


@pytest.mark.benchmark
def test_a_thousand_series_in_four_windows(capsys: pytest.CaptureFixture[str]) -> None:
    models = SettledModels(MODELS)
    # Long enough for all intervals in one evaluation.
    evaluator = Alone(models.panes, WINDOWS, interval_seconds=3600.0, clock=ProcessorClock())
    first = evaluated(evaluator)  # kernels are compiled
    moved = {report.key: report.to_ms for report in evaluator.latest.reports.values()}
    models.close_minute()
    changed = evaluated(evaluator)
    unchanged = min(evaluated(evaluator) for _ in range(3))
    reports = evaluator.latest.reports
    assert all(report.to_ms != moved[key] for key, report in reports.items())
    assert all(report.measures and report.intervals_outdated_since_ms is None for report in reports.values())

    def scores(report: Report) -> ScoreTable:
        _, contents = evaluator.predictions(report.model, report.version, report.segment, report.window, None)
        return contents.table.to_scores()

    tables = [scores(report) for report in list(reports.values())[: 4 * len(WINDOWS)]]
    by_draw = {name: measure for name, measure in WINDOW_MEASURES.items() if name in ONE_BY_ONE}
    renewal(tables[:1], ONE_BY_ONE)
    side_by_side, one_by_one = renewal(tables, by_draw), renewal(tables, ONE_BY_ONE)
    summed = resummed(models)
    rows = {
        window.name: sum(scores(report).rows for report in reports.values() if report.window == window.name)
        * len(WINDOWS)
        // len(reports)
        for window in WINDOWS
    }
    renewed = changed.whole - changed.values
    note("values", f"{changed.values * WHOLE / 1000:.1f} s")
    note("intervals", f"{renewed * WHOLE / 1000:.0f} s, {renewed:.0f} ms each")
    with capsys.disabled():
        print(
            f"\n{len(reports)} windows that all moved by a pane; rows on average {rows}; processor time"
            f"\n  values of all of them            {changed.values:7.2f} ms each:"
            f" {changed.values * WHOLE / 1000:5.1f} s for {WHOLE:,} (panes summed anew would add {summed:.2f} ms)"
            f"\n  then intervals, levels, verdicts {renewed:7.2f} ms each:"
            f" {renewed * WHOLE / 1000:5.1f} s for {WHOLE:,}"
            f"\n  the first time, with all sums    {first.values:7.2f} ms each for the values"
            f"\n  where nothing changed            {unchanged.whole:7.3f} ms each"
            f"\n  draws of {', '.join(ONE_BY_ONE)} side by side {side_by_side:.1f} ms; one by one {one_by_one:.1f} ms:"
            f" {one_by_one / side_by_side:.1f} times as long"
        )
    assert unchanged.whole < 0.1 * changed.values
    assert side_by_side < one_by_one
