"""What evaluations publish is in the history, once, whoever evaluated it and however often."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import sqlalchemy as sa

from monitor.clock import ManualClock, SystemClock
from monitor.errors import StoreUnavailable
from monitor.events.model import ModelPolicy, SeriesKey
from monitor.measures import MEASURES
from monitor.reports.evaluation.report import MeasureResult, Report, ReportKey, ScoreResult, Verdict
from monitor.store import history as stored
from monitor.store.schema import HISTORY
from monitor.store.sql import SqlStore
from monitor.windows.history import STEPS_MS, History, points_of, reports_of
from monitor.windows.windows import Window
from tests.evaluations import Sharing
from tests.snapshots import report
from tests.windows.memory import CHURN, DAY_MS, HOUR_MS, MINUTE_MS, MemoryPanes, calibrated

POLICY = ModelPolicy(horizon_ms=HOUR_MS, lateness_ms=5 * MINUTE_MS)
START_MS = 20_000 * DAY_MS
CHOSEN = {name: MEASURES[name] for name in ("kce", "brier")}


@pytest.fixture
def store(tmp_path: Path) -> Iterator[SqlStore]:
    with SqlStore.open(f"sqlite:///{tmp_path}/state.db", patience_seconds=0.1, clock=SystemClock()) as store:
        yield store


@pytest.fixture
def history(store: SqlStore) -> History:
    return History(store.database)


def points(history: History, series: SeriesKey = CHURN, window: str = "1h") -> list[Report]:
    key = ReportKey(series, window)
    return reports_of(key, history.read(key, max_points=10_000)[0])


def stream(hours: float) -> MemoryPanes:
    """200 predictions an hour, so many hours of which are settled."""
    panes = MemoryPanes(POLICY)
    n = int(200 * (hours + 1))
    p, y = calibrated(n, 3, slope=1.7)
    panes.add(CHURN, START_MS + np.arange(n) * 18_000, p, y)
    panes.advance_to("churn", START_MS + int((hours + 1) * HOUR_MS))
    return panes


def replica_of(store: SqlStore, panes: MemoryPanes, name: str = "a", clock: ManualClock | None = None) -> Sharing:
    windows = [Window("1h", HOUR_MS), Window("5h", 5 * HOUR_MS)]
    return Sharing(store, panes, windows, name, clock=clock or ManualClock(), measures=CHOSEN, draws=19)


def save(store: SqlStore, *reports: Report) -> None:
    with store.database.writing() as connection:
        stored.append(connection, points_of(reports))


def parts(store: SqlStore) -> int:
    with store.database.reading() as connection:
        return int(connection.execute(sa.select(sa.func.count()).select_from(HISTORY)).scalar_one())


def assert_is(point: Report, report: Report) -> None:
    """The point is that of the report, to seven digits."""
    assert report.diagnosis is not None
    assert point.diagnosis is not None
    assert point.key == report.key
    assert (point.from_ms, point.to_ms) == (report.from_ms, report.to_ms)
    assert (point.n, point.positives, point.predictions) == (report.n, report.positives, report.predictions)
    assert point.prevalence == report.prevalence
    assert point.mean_prediction == pytest.approx(report.mean_prediction, rel=1e-6)
    said, diagnosis = report.diagnosis, point.diagnosis
    assert (diagnosis.verdict, diagnosis.severity) == (said.verdict, said.severity)
    for number in ("offset", "slope", "slope_lower", "slope_upper"):
        assert getattr(diagnosis, number) == pytest.approx(getattr(said, number), rel=1e-6), number
    assert diagnosis.offset_error == pytest.approx(said.offset_error, rel=1e-3)
    assert point.measures.keys() == report.measures.keys()
    for name, result in point.measures.items():
        measured = report.measures[name]
        assert (type(result), result.unit) == (type(measured), measured.unit)
        for field in ("value", "lower", "upper", "null_mean", "null_q95", "p_value"):
            assert getattr(result, field) == pytest.approx(getattr(measured, field), rel=1e-6), field
        assert result.verdict == measured.verdict


def test_each_end_of_a_window_is_a_point_with_what_its_report_said(store: SqlStore, history: History) -> None:
    expected = []
    panes = stream(2)
    replica = replica_of(store, panes)
    for minute in range(3):
        panes.advance_to("churn", START_MS + 3 * HOUR_MS + minute * MINUTE_MS)
        for _ in range(2):
            latest = replica.evaluate()
        expected.append(latest.reports[ReportKey(CHURN, "1h")])
    for point, published in zip(points(history), expected, strict=True):
        assert_is(point, published)
    assert len(points(history, window="5h")) == 1
    kinds = {name: type(result) for name, result in points(history)[-1].measures.items()}
    assert kinds == {"kce": MeasureResult, "brier": ScoreResult}
    # Of two evaluations of a minute, the second found nothing new.
    assert parts(store) == 3


def test_another_replica_goes_on_with_the_same_points(store: SqlStore, history: History) -> None:
    panes, clock = stream(2), ManualClock()
    first, second = (replica_of(store, panes, name, clock) for name in ("a", "b"))
    first.evaluate()
    written = points(history)
    assert len(written) == 1
    first.leases.leave()
    second.evaluate()
    assert parts(store) == 2
    assert points(history) == written
    # The first was paused, and wakes up: it has no lease any more, and what it evaluated is not saved.
    panes.advance_to("churn", START_MS + 3 * HOUR_MS + MINUTE_MS)
    second.evaluate()
    assert parts(store) == 3
    assert len(points(history)) == 2


def test_intervals_of_earlier_predictions_are_left_out_until_they_are_renewed(
    store: SqlStore, history: History
) -> None:
    fresh = report()
    save(store, replace(fresh, intervals_outdated_since_ms=5))
    (point,) = points(history)
    assert point.measures["smce"] == MeasureResult(point.measures["smce"].value, "ratio")
    assert point.diagnosis is None
    save(store, fresh)
    (point,) = points(history)
    assert_is(point, fresh)


def test_a_window_with_too_little_data_has_a_point_and_an_empty_one_has_none(store: SqlStore, history: History) -> None:
    little = report(n=3, insufficient="too little")
    empty = replace(report(window="24h", n=0, insufficient="nothing"), predictions=0)
    save(store, little, empty)
    (point,) = points(history)
    assert (point.n, point.measures) == (3, {})
    assert point.diagnosis is not None
    assert point.diagnosis.verdict is Verdict.INSUFFICIENT
    assert points(history, window="24h") == []


def test_numbers_have_seven_digits_and_no_more() -> None:
    values = [0.1, 123.4567, 1.234567e-9, 3.1e-38, 12_345_678.0, 0.0, 0.0317]
    made = report()
    for value in values:
        measured = {"smce": replace(made.measures["smce"], value=value)}
        (of_series,) = points_of([replace(made, measures=measured)]).values()
        (point,) = reports_of(made.key, of_series)
        assert point.measures["smce"].value == pytest.approx(value, rel=1e-6)
        assert len(f"{point.measures['smce'].value!r}".split("e")[0].replace(".", "").strip("0")) <= 8


def test_without_a_step_the_shortest_that_fits_is_chosen(store: SqlStore, history: History) -> None:
    made = report()
    save(store, *(replace(made, to_ms=START_MS + at * MINUTE_MS) for at in range(1, 241)))
    key = ReportKey(made.key.series, "1h")
    for most, step_ms in ((240, MINUTE_MS), (239, 5 * MINUTE_MS), (16, 15 * MINUTE_MS), (3, 180 * MINUTE_MS)):
        found, chosen = history.read(key, max_points=most)
        assert chosen == step_ms
        assert found.to_ms.tolist() == [
            START_MS + at * MINUTE_MS for at in range(1, 241) if at * MINUTE_MS % step_ms == 0 or at == 240
        ]
    assert history.read(key, max_points=0)[1] == STEPS_MS[-1]


def test_what_cannot_be_saved_is_not_shown_and_is_saved_later(store: SqlStore, history: History) -> None:
    replica = replica_of(store, stream(2))
    replica.leases.beat()
    replica.leases.acquire(["churn"])
    blocker = sa.create_engine(store.database.engine.url)
    with blocker.connect() as connection:
        connection.exec_driver_sql("BEGIN IMMEDIATE")
        with pytest.raises(StoreUnavailable):
            replica.evaluation.tick()
        assert replica.latest.models == {}
        assert points(history) == []
    blocker.dispose()
    assert [*replica.evaluate().models] == ["churn"]
    assert len(points(history)) == 1
