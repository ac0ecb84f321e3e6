"""Cost of evaluating many windows: their values after all of them moved, then their intervals, levels and verdicts."""

import time
from dataclasses import fields
from typing import Final

import pytest

from monitor.measures import WINDOW_MEASURES, Measure, SemiNorm
from monitor.reports.evaluation.assess import WINDOW_DRAWS, uncertainty
from monitor.scores import GridTable, ScoreTable
from monitor.windows.contents import moment_of
from monitor.windows.evaluator import Evaluator
from tests.benchmarks.settled_models import WINDOWS, SettledModels

MODELS: Final = 8
WHOLE: Final = 4_000
"""Windows of the budget: 1,000 series, four windows each."""

ONE_BY_ONE: Final = {
    name: Measure(**{field.name: getattr(measure, field.name) for field in fields(Measure)} | {"draws": None})
    for name, measure in WINDOW_MEASURES.items()
    if not isinstance(measure, SemiNorm)
}
"""Measures without their loops over many draws."""


class Stopped:
    """A clock that stands still, so that an evaluation renews everything."""

    def now_ms(self) -> int:
        return 0

    def monotonic(self) -> float:
        return 0.0

    def sleep(self, seconds: float) -> None:
        raise AssertionError("nothing waits here")


def evaluated(evaluator: Evaluator) -> float:
    """Milliseconds of processor time for each report."""
    began = time.thread_time()
    snapshot = evaluator.evaluate()
    return 1000 * (time.thread_time() - began) / len(snapshot.reports)


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
    values = Evaluator(models.panes, WINDOWS, draws=0, clock=Stopped())
    everything = Evaluator(models.panes, WINDOWS, clock=Stopped())
    values.evaluate()  # kernels are compiled
    everything.evaluate()
    moved = {report.key: report.to_ms for report in everything.latest.reports.values()}
    models.close_minute()
    changed = evaluated(values)
    unchanged = min(evaluated(values) for _ in range(3))
    whole = evaluated(everything)
    reports = everything.latest.reports
    assert all(report.to_ms != moved[key] for key, report in reports.items())
    assert all(report.measures and report.intervals_outdated_since_ms is None for report in reports.values())

    tables = [everything.scores(report) for report in list(reports.values())[: 4 * len(WINDOWS)]]
    by_draw = {name: measure for name, measure in WINDOW_MEASURES.items() if name in ONE_BY_ONE}
    renewal(tables[:1], ONE_BY_ONE)
    side_by_side, one_by_one = renewal(tables, by_draw), renewal(tables, ONE_BY_ONE)
    summed = resummed(models)
    rows = {
        window.name: sum(everything.scores(report).rows for report in reports.values() if report.window == window.name)
        * len(WINDOWS)
        // len(reports)
        for window in WINDOWS
    }
    with capsys.disabled():
        print(
            f"\n{len(reports)} windows that all moved by a pane; rows on average {rows}; processor time"
            f"\n  values, all changed            {changed:7.2f} ms each: {changed * WHOLE / 1000:5.1f} s for {WHOLE:,}"
            f" (panes summed anew would add {summed:.2f} ms)"
            f"\n  none changed                   {unchanged:7.3f} ms each"
            f"\n  with intervals, levels, verdict{whole:7.2f} ms each: {whole * WHOLE / 1000:5.1f} s for {WHOLE:,}"
            f"\n  draws of {', '.join(ONE_BY_ONE)} side by side {side_by_side:.1f} ms; one by one {one_by_one:.1f} ms:"
            f" {one_by_one / side_by_side:.1f} times as long"
        )
    assert unchanged < 0.1 * changed
    assert side_by_side < one_by_one
