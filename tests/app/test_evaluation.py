"""The tick: from closings to what is saved and shown, at its pace, whatever fails."""

import threading
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import numpy as np
import pytest
import sqlalchemy as sa
from structlog.testing import capture_logs

from monitor.alarms.watcher import Watched
from monitor.clock import ManualClock, SystemClock
from monitor.errors import StoreUnavailable
from monitor.events.model import ModelPolicy
from monitor.measures import MEASURES
from monitor.store.alerts import AlertStore
from monitor.store.sql import SqlStore
from monitor.windows.windows import Window
from tests.alarms.findings import finding
from tests.evaluations import Sharing
from tests.patience import eventually, joined
from tests.windows.memory import CHURN, DAY_MS, HOUR_MS, MINUTE_MS, MemoryPanes, calibrated

START_MS = 20_000 * DAY_MS


@pytest.fixture
def store(tmp_path: Path) -> Iterator[SqlStore]:
    with SqlStore.open(f"sqlite:///{tmp_path}/state.db", patience_seconds=0.1, clock=SystemClock()) as store:
        yield store


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def replica(store: SqlStore, clock: ManualClock) -> Sharing:
    panes, n = MemoryPanes(ModelPolicy(horizon_ms=HOUR_MS, lateness_ms=5 * MINUTE_MS)), 600
    panes.add(CHURN, START_MS + np.arange(n) * 18_000, *calibrated(n, 1))
    kce = {"kce": MEASURES["kce"]}
    return Sharing(store, panes, [Window("1h", HOUR_MS)], clock=clock, measures=kce, draws=0, interval_seconds=10.0)


def run_until(replica: Sharing, done: Callable[[], bool]) -> None:
    thread = threading.Thread(target=replica.evaluation.run)
    thread.start()
    try:
        eventually(lambda: done() or not thread.is_alive(), pause_seconds=0.001)
    finally:
        replica.evaluation.stop()
        joined(thread)
    assert done()


def test_the_thread_evaluates_at_its_pace_until_it_is_stopped_and_outlives_failures(
    replica: Sharing, clock: ManualClock
) -> None:
    starts: list[float] = []

    def take_two_seconds(epochs: Mapping[str, int]) -> Watched:
        del epochs
        starts.append(clock.monotonic())
        clock.advance(2.0)
        if len(starts) == 1:
            raise OSError("odd")
        if len(starts) == 2:
            raise StoreUnavailable("the database is away")
        return Watched({}, {})

    replica.watcher.update = take_two_seconds  # type: ignore[method-assign]
    with capture_logs() as logs:
        run_until(replica, lambda: len(starts) >= 5)
    assert starts == [10.0 * number for number in range(len(starts))]
    assert [entry["event"] for entry in logs if entry["log_level"] in {"error", "warning"}] == [
        "evaluation failed",
        "windows are not evaluated",
    ]
    assert replica.latest.number == len(starts)
    assert [*replica.latest.models] == ["churn"]


def test_what_cannot_be_saved_is_not_shown_and_comes_with_the_next(replica: Sharing, store: SqlStore) -> None:
    replica.watcher.findings = {"churn": [finding(9.0)]}
    replica.leases.beat()
    replica.leases.acquire(["churn"])
    blocker = sa.create_engine(store.database.engine.url)
    with blocker.connect() as connection:
        connection.exec_driver_sql("BEGIN IMMEDIATE")
        with pytest.raises(StoreUnavailable):
            replica.evaluation.tick()
    blocker.dispose()
    assert (replica.latest.models, replica.evaluation.alerts) == ({}, {})
    replica.evaluate()
    (alert,) = AlertStore(store.database).alerts()
    shown = {key: one and one.id for key, one in replica.evaluation.alerts.items()}
    assert shown == {(*alert.key, alert.finding.kind): alert.id}
    assert [*replica.latest.models] == ["churn"]


def test_alerts_of_a_model_that_another_replica_has_taken_are_neither_saved_nor_shown(
    replica: Sharing, store: SqlStore
) -> None:
    replica.watcher.findings = {"churn": [finding(9.0)]}
    replica.evaluate()
    replica.watcher.findings = {"churn": [finding(0.1, settled_minute=1, raised_ms=None)]}
    with store.database.writing() as connection:
        connection.exec_driver_sql("UPDATE evaluations SET epoch = epoch + 1, owner = 'b'")
    replica.evaluation.tick()
    assert replica.evaluation.alerts == {}
    assert [alert.state for alert in AlertStore(store.database).alerts()] == ["firing"]
    assert replica.leases.held() == set()
