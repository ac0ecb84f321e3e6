"""The evaluator's verdicts: renewed with the intervals, and never ahead of the values."""

from collections.abc import Mapping
from dataclasses import replace

import numpy as np
import pytest
from numpy.typing import NDArray

from monitor.clock import ManualClock
from monitor.events.model import ModelPolicy
from monitor.measures import MEASURES
from monitor.measures.base import Measure
from monitor.measures.kernel_error import KCE as KCE_MEASURE
from monitor.reports.evaluation.diagnosis import decompose, diagnose
from monitor.reports.evaluation.report import Report, ReportKey, Verdict, performance
from monitor.scores import GridTable, ScoreTable
from monitor.windows.windows import Window
from tests.evaluations import Alone
from tests.windows.memory import CHURN, DAY_MS, HOUR_MS, MemoryPanes, calibrated

START_MS = 20_000 * DAY_MS
WINDOW = Window("1h", HOUR_MS)
KEY = ReportKey(CHURN, "1h")


def add_hour(panes: MemoryPanes, hour: int, *, slope: float = 1.0, n: int = 3000) -> None:
    p, y = calibrated(n, seed=hour, slope=slope)
    panes.add(CHURN, START_MS + hour * HOUR_MS + np.arange(n) * (HOUR_MS // n), p, y)


@pytest.fixture
def panes() -> MemoryPanes:
    panes = MemoryPanes(ModelPolicy(horizon_ms=0, lateness_ms=0))
    add_hour(panes, 0)
    # One event of the next hour lets the window of this one end.
    panes.advance_to("churn", START_MS + HOUR_MS)
    return panes


def table_of(panes: MemoryPanes, report: Report) -> ScoreTable:
    assert report.from_ms is not None
    assert report.to_ms is not None
    events = panes.events(CHURN, report.from_ms, report.to_ms)
    return GridTable.from_events(events["p"], events["y"]).to_scores()


def test_a_window_has_its_verdict_with_the_intervals(panes: MemoryPanes) -> None:
    report = Alone(panes, [WINDOW], clock=ManualClock()).evaluate().reports[KEY]
    table = table_of(panes, report)
    assert report.diagnosis == diagnose(table, draws=199)
    assert report.diagnosis is not None
    assert report.diagnosis.verdict is Verdict.CALIBRATED
    assert report.decomposition == decompose(table)


def test_a_model_is_judged_by_its_own_tolerance() -> None:
    panes = MemoryPanes(ModelPolicy(horizon_ms=0, lateness_ms=0))
    add_hour(panes, 0, slope=1.6)
    panes.advance_to("churn", START_MS + HOUR_MS)
    usual, tolerant = (
        Alone(panes, [WINDOW], tolerance=tolerance, clock=ManualClock()).evaluate().reports[KEY]
        for tolerance in (None, {"churn": 1.0}.__getitem__)
    )
    assert usual.diagnosis is not None
    assert tolerant.diagnosis is not None
    assert usual.diagnosis.verdict is Verdict.SHAPE
    assert (tolerant.diagnosis.verdict, tolerant.diagnosis.tolerance) == (Verdict.CALIBRATED, 1.0)
    assert tolerant.diagnosis == diagnose(table_of(panes, tolerant), draws=199, tolerance=1.0)


def test_a_window_says_how_good_the_model_is_and_that_of_a_top_label_does_not() -> None:
    reports = []
    for classes in ((), ("a", "b", "c")):
        panes = MemoryPanes(ModelPolicy(horizon_ms=0, lateness_ms=0, classes=classes))
        add_hour(panes, 0)
        panes.advance_to("churn", START_MS + HOUR_MS)
        reports.append(Alone(panes, [WINDOW], draws=0, clock=ManualClock()).evaluate().reports[KEY])
        assert reports[-1].measures
    assert reports[0].performance == performance(table_of(panes, reports[0]))
    assert reports[1].performance is None


class Watched:
    """A real measure that keeps the reports as they stand while intervals are renewed."""

    def __init__(self) -> None:
        self._real = KCE_MEASURE
        self.evaluator: Alone | None = None
        self.seen: list[Report] = []

    @property
    def measures(self) -> Mapping[str, Measure]:
        return {"kce": replace(self._real, norms=self.norms)}

    def norms(self, table: ScoreTable, residual: NDArray[np.float64]) -> NDArray[np.float64]:
        if self.evaluator is not None:
            self.seen.append(self.evaluator.latest.reports[KEY])
        return self._real.norms(table, residual)


def test_the_verdict_of_up_to_now_stands_until_it_is_renewed(panes: MemoryPanes) -> None:
    watched = Watched()
    evaluator = watched.evaluator = Alone(panes, [WINDOW], measures=watched.measures, clock=ManualClock())
    old = evaluator.evaluate().reports[KEY]
    assert watched.seen[0].diagnosis is None  # values come first
    assert watched.seen[0].decomposition == {}
    watched.seen.clear()
    add_hour(panes, 1, slope=2.0)
    panes.advance_to("churn", START_MS + 2 * HOUR_MS)
    new = evaluator.evaluate().reports[KEY]
    between = watched.seen[0]
    assert between.measures["kce"].value == new.measures["kce"].value != old.measures["kce"].value
    assert between.diagnosis == old.diagnosis != new.diagnosis
    assert between.decomposition == old.decomposition != new.decomposition
    assert new.diagnosis is not None
    assert new.diagnosis.verdict is Verdict.SHAPE


def test_a_window_that_runs_dry_is_insufficient_at_once(panes: MemoryPanes) -> None:
    clock = ManualClock()
    evaluator = Alone(panes, [WINDOW], clock=clock)
    assert evaluator.evaluate().reports[KEY].decomposition
    panes.advance_to("churn", START_MS + 40 * HOUR_MS)
    report = evaluator.evaluate().reports[KEY]
    assert report.insufficient is not None
    assert report.diagnosis is not None
    assert report.diagnosis.verdict is Verdict.INSUFFICIENT
    assert report.insufficient in report.diagnosis.sentence
    assert report.decomposition == {}
    # And what comes back is not judged by what was before.
    add_hour(panes, 41)
    panes.advance_to("churn", START_MS + 42 * HOUR_MS)
    back = evaluator.evaluate().reports[KEY]
    assert back.diagnosis == diagnose(table_of(panes, back), draws=199)


def test_a_report_of_then_has_the_verdict_of_then(panes: MemoryPanes) -> None:
    evaluator = Alone(panes, [WINDOW], clock=ManualClock())
    then = evaluator.evaluate().reports[KEY]
    add_hour(panes, 1, slope=2.0)
    panes.advance_to("churn", START_MS + 2 * HOUR_MS)
    assert evaluator.evaluate().reports[KEY].diagnosis != then.diagnosis
    assert evaluator.report("churn", as_of_ms=START_MS + HOUR_MS) == then


def test_without_draws_there_is_no_verdict_but_of_too_little(panes: MemoryPanes) -> None:
    evaluator = Alone(panes, [WINDOW], draws=0, clock=ManualClock())
    report = evaluator.evaluate().reports[KEY]
    assert report.diagnosis is None
    assert report.decomposition
    panes.advance_to("churn", START_MS + 40 * HOUR_MS)
    dry = evaluator.evaluate().reports[KEY].diagnosis
    assert dry is not None
    assert dry.verdict is Verdict.INSUFFICIENT


def test_windows_are_measured_by_what_is_named(panes: MemoryPanes) -> None:
    named = {name: MEASURES[name] for name in ("smce", "log_loss", "spiegelhalter")}
    evaluator = Alone(panes, [WINDOW], measures=named, clock=ManualClock())
    assert evaluator.measures == named
    assert list(evaluator.evaluate().reports[KEY].measures) == ["smce", "log_loss", "spiegelhalter"]
