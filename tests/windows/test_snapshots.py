"""The snapshots of two or three replicas of one store, merged."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from structlog.testing import capture_logs

from monitor.clock import ManualClock
from monitor.errors import StoreUnavailable
from monitor.events.model import ALL, ModelPolicy, SeriesKey
from monitor.measures import choose_measures
from monitor.reports.evaluation.assess import Minimum
from monitor.reports.evaluation.report import ReportKey, ScoreResult
from monitor.store.evaluations import EvaluationState, EvaluationStore
from monitor.store.sql import SqlStore
from monitor.windows.evaluator import Evaluator
from monitor.windows.leases import owner_of
from monitor.windows.snapshot import Snapshot, decode_reports, decode_summary, encode_reports, encode_summary
from monitor.windows.windows import Window
from tests.evaluations import Sharing
from tests.windows.memory import HOUR_MS, MINUTE_MS, MemoryPanes, calibrated

POLICY = ModelPolicy(horizon_ms=HOUR_MS, lateness_ms=5 * MINUTE_MS)
START_MS = 1_700_000_000_000
WINDOWS = (Window("1h", HOUR_MS), Window("5h", 5 * HOUR_MS))
MODELS = [f"m{number}" for number in range(8)]


class Store(EvaluationStore):
    """The store, which may be away."""

    away = False

    def states(self) -> dict[str, EvaluationState]:
        if self.away:
            raise StoreUnavailable("the database is away")
        return dict(super().states())


class Replica(Sharing):
    """All that a replica has of evaluation. The panes are everybody's, as closings are."""

    def __init__(
        self, name: str, store: SqlStore, panes: MemoryPanes, clock: ManualClock, windows: Sequence[Window] = WINDOWS
    ) -> None:
        self.store = Store(store.database)
        super().__init__(
            store, panes, windows, name, clock=clock, evaluations=self.store, minimum=Minimum(10, 1, 1), draws=19
        )

    @property
    def models(self) -> set[str]:
        """Models that it exports."""
        return set(self.snapshots.exported().models)


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock(START_MS)


@pytest.fixture
def store(tmp_path: Path, clock: ManualClock) -> Iterator[SqlStore]:
    with SqlStore.open(f"sqlite:///{tmp_path}/monitor.db", clock=clock) as store:
        yield store


@pytest.fixture
def panes() -> MemoryPanes:
    panes = MemoryPanes(POLICY)
    for seed, model in enumerate(MODELS):
        more(panes, model, seed)
    return panes


def more(panes: MemoryPanes, model: str, seed: int, first_hour: float = 0.0) -> None:
    p, y = calibrated(400, seed)
    for segment in (ALL, "region=eu"):
        panes.add(SeriesKey(model, "1", segment), START_MS + int(first_hour * HOUR_MS) + np.arange(400) * 18_000, p, y)


def turn(clock: ManualClock, *replicas: Replica, seconds: float = 3.0) -> None:
    """Everything that replicas do every few seconds."""
    clock.advance(seconds)
    for replica in replicas:
        replica.evaluate()
    for replica in replicas:
        replica.snapshots.read()


def content(snapshot: Snapshot) -> dict[ReportKey, object]:
    return {key: report.to_dict() for key, report in snapshot.reports.items()}


def test_the_stored_form_holds_all_of_an_evaluation(panes: MemoryPanes) -> None:
    measures = choose_measures({"tce", "brier", "log_loss"})
    evaluator = Evaluator(
        panes, WINDOWS, minimum=Minimum(10, 1, 1), draws=19, measures=measures, clock=ManualClock(START_MS)
    )
    snapshot = evaluator.evaluate()
    failed = ReportKey(SeriesKey("m0", "1", "region=us"), "1h")
    failing = replace(snapshot.models["m0"], failures={failed: "ValueError: torn"})
    for part in [replace(part, epoch=-1) for part in ({**snapshot.models, "m0": failing}).values()]:
        reports = decode_reports(encode_reports(part.reports.values()))
        assert decode_summary(encode_summary(part), part.evaluated_ms, reports) == part
        for key, report in part.reports.items():
            assert reports[key] == report
            # Equal as tuples, but not in what they say of a low value.
            kinds = {name: type(result) for name, result in report.measures.items()}
            assert {name: type(result) for name, result in reports[key].measures.items()} == kinds
            assert ScoreResult in kinds.values()


def test_one_replica_publishes_at_once(store: SqlStore, panes: MemoryPanes, clock: ManualClock) -> None:
    alone = Replica("a", store, panes, clock)
    snapshot = alone.evaluate()
    assert sorted(snapshot.models) == MODELS
    assert alone.snapshots.latest is snapshot
    assert alone.snapshots.exported() is snapshot
    alone.snapshots.read()
    assert alone.snapshots.latest is snapshot


def test_every_replica_has_all_reports_and_exports_its_own(
    store: SqlStore, panes: MemoryPanes, clock: ManualClock
) -> None:
    offline = Evaluator(panes, WINDOWS, minimum=Minimum(10, 1, 1), draws=19, clock=ManualClock(START_MS)).evaluate()
    replicas = [Replica(name, store, panes, clock) for name in "abc"]
    for _ in range(3):
        turn(clock, *replicas)
    for replica in replicas:
        latest = replica.snapshots.latest
        assert content(latest) == content(offline)
        assert list(latest.reports) == list(offline.reports)
        assert latest.coverage == offline.coverage
        for model, part in offline.models.items():
            assert latest.models[model].watermark_ms == part.watermark_ms
            assert latest.models[model].current_version == part.current_version
        assert replica.models == {model for model in MODELS if owner_of(model, "abc") == replica.leases.replica}
        # A report of a model that another replica evaluates is not computed again.
        for key, report in latest.reports.items():
            assert replica.report(*key.series, key.window) is report


def test_a_replica_that_takes_over_exports_what_was_stored_at_once(
    store: SqlStore, panes: MemoryPanes, clock: ManualClock
) -> None:
    first, second = (Replica(name, store, panes, clock) for name in "ab")
    for _ in range(3):
        turn(clock, first, second)
    lost = first.models
    before = {key: report for key, report in first.snapshots.latest.reports.items() if key.series.model in lost}
    for _ in range(3):
        clock.advance(3)
        second.leases.beat()
    assert second.models == set(MODELS)
    exported = second.snapshots.exported().reports
    assert {key: exported[key] for key in before} == before
    age_ms = clock.now_ms() - second.snapshots.latest.models[min(lost)].evaluated_ms
    assert age_ms == 9000
    # The first was only paused: it exports nothing, before it learns why.
    assert first.models == set()
    for model in MODELS:
        more(panes, model, 7, first_hour=2)
    turn(clock, second)
    newest = content(second.snapshots.latest)
    assert newest != content(first.snapshots.latest)
    # What it evaluated meanwhile is refused, and it serves what the other one says.
    first.leases.acquire = lambda _: first.leases.epochs  # type: ignore[method-assign, assignment]
    first.evaluation.tick()
    assert not first.leases.epochs
    first.snapshots.read()
    assert content(first.snapshots.latest) == newest
    assert content(second.snapshots.latest) == newest


def test_intervals_stay_when_a_model_moves(store: SqlStore, panes: MemoryPanes, clock: ManualClock) -> None:
    first = Replica("a", store, panes, clock)
    turn(clock, first)
    before = first.snapshots.latest.reports
    assert any(result.lower is not None for report in before.values() for result in report.measures.values())
    first.leases.leave()
    second = Replica("b", store, panes, clock)
    second.snapshots.read()
    published: list[Snapshot] = []
    publish = second.snapshots.publish
    second.snapshots.publish = lambda snapshot, saved: (published.append(snapshot), publish(snapshot, saved))[1]  # type: ignore[method-assign, func-returns-value]
    second.evaluate()
    # What was renewed is the same as what was stored.
    assert [snapshot.reports == before for snapshot in published] == [True]
    assert len(second.models) == len(MODELS)


def test_reports_are_written_where_they_changed(store: SqlStore, panes: MemoryPanes, clock: ManualClock) -> None:
    writing, reading = (Replica(name, store, panes, clock) for name in "ab")
    reading.leases.leave()
    turn(clock, writing)
    numbers = {model: state.number for model, state in writing.store.states().items()}
    panes.advance_to("m1", panes.watermark_ms("m1") + 1)
    more(panes, "m2", 9, first_hour=2)
    turn(clock, writing)
    states = writing.store.states()
    assert {model for model, state in states.items() if state.number != numbers[model]} == {"m1", "m2"}
    assert {state.evaluated_ms for state in states.values()} == {clock.now_ms()}
    read = {one.model: reports for one, _, reports in writing.store.read(dict.fromkeys(MODELS, -1))}
    assert {model for model, number in read.items() if number == states[model].number != numbers[model]} == {"m2"}
    turn(clock, reading)
    assert content(reading.snapshots.latest) == content(writing.snapshots.latest)
    assert reading.snapshots.latest.models.keys() == writing.snapshots.latest.models.keys()


def test_while_the_store_is_away_the_last_snapshot_is_served_and_not_exported(
    store: SqlStore, panes: MemoryPanes, clock: ManualClock
) -> None:
    replicas = first, second = Replica("a", store, panes, clock), Replica("b", store, panes, clock)
    for _ in range(3):
        turn(clock, *replicas)
    before = content(first.snapshots.latest)
    evaluated_ms = first.snapshots.latest.models["m0"].evaluated_ms
    first.store.away = True
    with capture_logs() as logs:
        for _ in range(4):
            clock.advance(3)
            first.snapshots.read()
    assert [entry["event"] for entry in logs if entry["log_level"] == "warning"][:1] == ["evaluations are not read"]
    assert first.models == set()
    assert content(first.snapshots.latest) == before
    assert first.snapshots.latest.models["m0"].evaluated_ms == evaluated_ms
    first.store.away = False
    for _ in range(3):
        turn(clock, *replicas)
    assert first.models | second.models == set(MODELS)
    assert not first.models & second.models


def test_an_evaluation_of_another_version_of_the_service_is_not_shown(
    store: SqlStore, panes: MemoryPanes, clock: ManualClock
) -> None:
    newer, older = (Replica(name, store, panes, clock) for name in "ab")
    newer.evaluate()
    with store.database.writing() as connection:
        connection.exec_driver_sql("UPDATE evaluated_reports SET reports = X'93' WHERE model = 'm0'")
    with capture_logs() as logs:
        older.snapshots.read()
        older.snapshots.read()
    assert sorted(older.snapshots.latest.models) == MODELS[1:]
    assert [entry["model"] for entry in logs] == ["m0"]


def test_a_model_that_has_stopped_is_gone_from_every_replica_until_it_comes_back(
    store: SqlStore, panes: MemoryPanes, clock: ManualClock
) -> None:
    replicas = [Replica(name, store, panes, clock) for name in "abc"]
    for _ in range(3):
        turn(clock, *replicas)
    events = {key: panes._events.pop(key) for key in list(panes._events) if key.model == "m0"}
    with capture_logs() as logs:
        for replica in replicas:
            replica.snapshots.remove(["m0"])
        for _ in range(3):
            turn(clock, *replicas)
    for replica in replicas:
        assert sorted(replica.snapshots.latest.models) == MODELS[1:]
        assert not any(key.series.model == "m0" for key in replica.snapshots.latest.reports)
        assert "m0" not in replica.models
        assert "m0" not in replica.leases.epochs
    assert "m0" not in replicas[0].store.states()
    assert not [entry for entry in logs if entry["log_level"] == "warning"]
    panes._events |= events
    for _ in range(3):
        turn(clock, *replicas)
    for replica in replicas:
        assert sorted(replica.snapshots.latest.models) == MODELS
    assert [replica.leases.replica for replica in replicas if "m0" in replica.models] == [owner_of("m0", "abc")]


def test_a_replica_that_has_not_seen_a_stopped_model_go_keeps_its_lease(
    store: SqlStore, panes: MemoryPanes, clock: ManualClock
) -> None:
    first, second = Replica("a", store, panes, clock), Replica("b", store, panes, clock)
    for _ in range(3):
        turn(clock, first, second)
    of_second = sorted(second.models)
    assert of_second
    first.snapshots.remove(MODELS)
    assert sorted(first.store.states()) == of_second


def test_reports_on_windows_that_are_declared_no_more_are_not_shown_after_a_restart(
    store: SqlStore, panes: MemoryPanes, clock: ManualClock
) -> None:
    before = Replica("a", store, panes, clock)
    turn(clock, before)
    assert {key.window for key in before.snapshots.latest.reports} == {"1h", "5h"}
    after = Replica("b", store, panes, clock, WINDOWS[:1])
    after.snapshots.read()
    assert {key.window for key in after.snapshots.latest.reports} == {"1h"}
    assert sorted(after.snapshots.latest.models) == MODELS
