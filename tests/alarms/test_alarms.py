"""Alerts in the store: raised under the lease, by one replica, with their history."""

import threading
from collections.abc import Iterator
from dataclasses import replace

import pytest
import sqlalchemy as sa

from monitor.alarms.alarms import Alarms, Key
from monitor.clock import ManualClock
from monitor.errors import Conflict, UnknownAlert
from monitor.store.alert import Alert, AlertState, Finding
from monitor.store.alerts import AlertStore, remove_old
from monitor.store.evaluations import LEASE_MS, EvaluationStore
from monitor.store.recalibrations import JobState
from monitor.store.schema import ALERT_CHANGES, ALERTS
from monitor.store.sql import SqlStore
from tests.alarms.findings import LINE, NOW_MS, Script, finding
from tests.patience import PATIENCE_SECONDS, joined
from tests.store.refits import recalibrations, run

OLD_FINDING = """{"summary": "churn 7 is too sure of itself", "log10_evidence": 5.5, "log10_line": 5.0,
 "since_ms": 1789996400000, "from_ms": 1789995800000, "to_ms": 1789997000000, "events": 1000,
 "settled_ms": 1790000000000, "witnesses": []}"""


@pytest.fixture
def store(store_url: str, clock: ManualClock) -> Iterator[SqlStore]:
    with SqlStore.open(store_url, clock=clock, patience_seconds=PATIENCE_SECONDS) as store:
        yield store


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock(NOW_MS)


class Replica:
    """What a replica has of alerts: the lease of models, and a source of findings."""

    def __init__(self, store: SqlStore, name: str, clock: ManualClock, *models: str) -> None:
        self.name = name
        self.evaluations = EvaluationStore(store.database)
        # The time of PostgreSQL cannot be set.
        store.database.now_ms = lambda _: clock.now_ms()  # type: ignore[method-assign, assignment]
        self.epochs = dict(self.evaluations.acquire(name, models))
        self.script = Script()
        self.alarms = Alarms(store.database, lambda _: False)

    def save(self, *findings: Finding) -> dict[Key, Alert | None]:
        self.script.say(*findings)
        with self.evaluations.saving(self.name, self.epochs) as (connection, held):
            return self.alarms.save(connection, held, self.script.now)


def states(store: SqlStore) -> list[tuple[str, str]]:
    return [(alert.finding.model, alert.state.value) for alert in AlertStore(store.database).alerts()]


def test_an_alert_is_saved_with_its_history(store: SqlStore, clock: ManualClock) -> None:
    replica, alerts = Replica(store, "a", clock, "churn"), AlertStore(store.database)
    assert replica.save(finding(1.0)) == {("churn", "7", "calibration"): None}
    assert states(store) == []
    replica.save(finding(4.2, settled_minute=1))
    (pending,) = alerts.alerts()
    assert pending.state is AlertState.PENDING
    assert (alerts.changes_of(pending.id), alerts.newest_change()) == ([], 0)
    with pytest.raises(Conflict, match="is pending"):
        alerts.acknowledge(pending.id, actor="ada", note="", now_ms=NOW_MS)
    clock.advance(5)
    replica.save(finding(5.5, settled_minute=2))
    clock.advance(5)
    acknowledged = alerts.acknowledge(pending.id, actor="ada", note="mine \0", now_ms=clock.now_ms())
    assert (acknowledged.state, acknowledged.acknowledged_by) == (AlertState.ACKNOWLEDGED, "ada")
    (shown,) = replica.save(finding(6.5, settled_minute=3)).values()
    whole = alerts.alert(pending.id)
    assert whole.finding == replace(finding(6.5, settled_minute=3), raised_ms=None, first_raised_ms=None)
    assert whole.raised_ms == finding(5.5, settled_minute=2).raised_ms
    assert shown is not None
    assert shown.state is AlertState.ACKNOWLEDGED
    clock.advance(5)
    replica.save(finding(0.0, settled_minute=4, raised_ms=None))
    changes = alerts.changes_of(pending.id)
    assert [(change.state.value, change.actor, change.at_ms - NOW_MS, change.note) for change in changes] == [
        ("firing", "service", 5000, ""),
        ("acknowledged", "ada", 10_000, "mine \0"),
        ("resolved", "service", 15_000, "the data speak against it"),
    ]
    with pytest.raises(Conflict, match="is resolved"):
        alerts.acknowledge(pending.id, actor="ada", note="", now_ms=NOW_MS)
    with pytest.raises(UnknownAlert, match="no alert is called 'al_17'"):
        alerts.acknowledge("al_17", actor="ada", note="", now_ms=NOW_MS)
    assert [entry.action for entry in recalibrations(store).audit()] == ["acknowledged"]


def test_a_pending_alert_that_falls_back_leaves_no_trace(store: SqlStore, clock: ManualClock) -> None:
    replica = Replica(store, "a", clock, "churn")
    replica.save(finding(4.5))
    assert states(store) == [("churn", "pending")]
    replica.save(finding(3.0, settled_minute=1))
    with store.database.reading() as connection:
        assert [connection.execute(sa.select(table)).all() for table in (ALERTS, ALERT_CHANGES)] == [[], []]


def test_each_version_has_one_alert_on_one_change_and_another_on_another(store: SqlStore, clock: ManualClock) -> None:
    replica, alerts = Replica(store, "a", clock, "churn", "fraud"), AlertStore(store.database)
    every = [
        finding(9.0, model=model, version=version, kind=kind)
        for model in ("churn", "fraud")
        for version in ("7", "8")
        for kind in ("change", "map", "calibration")
    ]
    shown = replica.save(*every)
    assert sorted(alert.key for alert in alerts.alerts()) == [
        (model, version) for model in ("churn", "fraud") for version in ("7", "8")
    ]
    # It is shown with the kind that leads, and stored with all of its detectors.
    assert {key[2] for key, alert in shown.items() if alert is not None} == {"map"}
    assert [one.detector for one in alerts.alerts()[0].finding.witnesses] == ["serving_map", "calibration", "change"]
    assert len(alerts.changes(0, None, 99)) == 4
    # A version without findings has stopped; a kind without one has not.
    later = finding(
        9.0, kind="change", version="8", settled_minute=2, since_ms=finding(0.0, settled_minute=1).settled_ms
    )
    replica.save(finding(9.0, version="8", settled_minute=2), later)
    open_ = alerts.alerts(["churn"], states=["firing"])
    assert [(*alert.key, alert.finding.kind) for alert in open_] == [("churn", "8", "calibration")]
    (stopped,) = alerts.alerts(["churn"], states=["resolved"])
    assert (stopped.key, stopped.reason) == (("churn", "7"), "stopped")
    # A kind whose alarm was over belongs to the alert no more: the next change is another one.
    over = finding(0.0, kind="change", version="8", settled_minute=3, raised_ms=None)
    replica.save(finding(9.0, version="8", settled_minute=3), over)
    again = finding(
        9.0, kind="change", version="8", settled_minute=5, since_ms=finding(0.0, settled_minute=4).settled_ms
    )
    shown = replica.save(finding(9.0, version="8", settled_minute=5), again)
    ids = {key[2]: alert and alert.id for key, alert in shown.items() if key[0] == "churn"}
    assert ids == {"calibration": open_[0].id, "change": alerts.alerts(["churn"], kind="change")[0].id}
    assert len(alerts.alerts(["churn"], states=["firing"])) == 2


def test_a_replica_that_lost_its_lease_raises_nothing(store: SqlStore, clock: ManualClock) -> None:
    paused = Replica(store, "a", clock, "churn")
    clock.advance(LEASE_MS / 1000)
    owner = Replica(store, "b", clock, "churn")
    paused.save(finding(9.0))
    assert states(store) == []
    owner.save(finding(9.0))
    paused.save(finding(0.0, settled_minute=1, raised_ms=None))
    assert states(store) == [("churn", "firing")]
    assert AlertStore(store.database).newest_change() == 1


def test_the_next_owner_goes_on_with_the_alert_of_the_last(store: SqlStore, clock: ManualClock) -> None:
    Replica(store, "a", clock, "churn").save(finding(5.0))
    clock.advance(LEASE_MS / 1000)
    # It has not looked as far yet; then further.
    following = Replica(store, "b", clock, "churn")
    following.save(finding(0.0, settled_minute=-5))
    following.save(finding(5.3, settled_minute=1))
    assert states(store) == [("churn", "firing")]
    assert len(AlertStore(store.database).changes(0, None, 10)) == 1


def test_a_promotion_and_a_rollback_resolve_the_alerts_of_the_version(store: SqlStore, clock: ManualClock) -> None:
    replica, refits = Replica(store, "a", clock, "churn"), recalibrations(store)
    alerts = AlertStore(store.database)

    def fire(minute: int, revision: int) -> None:
        for at, evidence in ((minute, 0.0), (minute + 1, 9.0)):
            own = finding(evidence, settled_minute=at, revision=revision)
            replica.save(own, finding(9.0, version="8", settled_minute=at))
        assert [alert.key for alert in alerts.alerts(states=["firing"])][:1] == [("churn", "7")]

    fire(0, 0)
    run(refits, 1)
    refits.promote("rc_1", actor="ada", now_ms=NOW_MS, note="")
    # The evidence before it raises no other.
    replica.save(finding(9.5, settled_minute=2, raised_ms=NOW_MS), finding(9.0, version="8", settled_minute=2))
    assert [alert.key[1] for alert in alerts.alerts(states=["firing"])] == ["8"]
    fire(3, 1)
    run(refits, 2, state=JobState.CANDIDATE, baseline="rc_1", promote=True)
    fire(5, 2)
    refits.roll_back("churn", "7", actor="bob", now_ms=NOW_MS, note="")
    newest_first = alerts.alerts(["churn"], version="7")
    assert [(alert.state.value, alert.reason) for alert in newest_first] == [
        ("resolved", "rolled_back"),
        ("resolved", "promoted"),
        ("resolved", "promoted"),
    ]
    notes = [(change.actor, change.note) for change, _ in alerts.changes(0, None, 99) if change.state == "resolved"]
    assert notes == [
        ("ada", "the map rc_1 was promoted"),
        ("ada", "the map rc_2 was promoted"),
        ("bob", "the map was rolled back"),
    ]


def test_an_alert_that_an_older_version_saved_is_read(store: SqlStore, clock: ManualClock) -> None:
    """A field that is added since has a default."""
    Replica(store, "a", clock, "churn").save(finding(5.5))
    with store.database.writing() as connection:
        connection.execute(sa.update(ALERTS).values(finding=OLD_FINDING))
    (alert,) = AlertStore(store.database).alerts()
    assert (alert.finding.model, alert.finding.events) == ("churn", 1000)


def test_a_model_that_stops_has_no_open_alert(store: SqlStore, clock: ManualClock) -> None:
    replica = Replica(store, "a", clock, "churn", "fraud")
    replica.save(finding(9.0), finding(4.5, version="8"), finding(9.0, model="fraud"))
    replica.evaluations.remove("a", ["churn"])
    assert states(store) == [("fraud", "firing"), ("churn", "resolved")]
    # It comes back as a new one.
    back = Replica(store, "a", clock, "churn")
    back.save(finding(9.0, settled_minute=1))
    assert states(store) == [("churn", "firing"), ("fraud", "firing"), ("churn", "resolved")]


def test_acknowledging_at_the_same_time_as_evaluating_loses_nothing(store: SqlStore, clock: ManualClock) -> None:
    replica, alerts = Replica(store, "a", clock, *(f"m{number}" for number in range(20))), AlertStore(store.database)
    models = sorted(replica.epochs)
    replica.save(*(finding(9.0, model=model) for model in models))
    ids = [alert.id for alert in alerts.alerts()]

    def acknowledge() -> None:
        for alert_id in ids:
            alerts.acknowledge(alert_id, actor="ada", note="", now_ms=NOW_MS)

    other = threading.Thread(target=acknowledge)
    other.start()
    for minute in range(1, 15):
        # One resolves in each, so that both take turns.
        replica.save(*(finding(9.0, model=model, settled_minute=minute) for model in models[1:]))
    other.join(PATIENCE_SECONDS)
    joined(other)
    numbers = [change.number for change, _ in alerts.changes(0, None, 1000)]
    assert numbers == sorted(numbers)
    assert len(numbers) == 40
    assert {alert.state.value for alert in alerts.alerts()} == {"acknowledged"}
    assert {alert.finding.events for alert in alerts.alerts(models[1:])} == {1014}


def test_old_alerts_go_and_open_ones_stay(store: SqlStore, clock: ManualClock) -> None:
    replica = Replica(store, "a", clock, "churn", "fraud")
    replica.save(finding(9.0), finding(9.0, model="fraud"))
    clock.advance(60)
    replica.save(finding(0.0, settled_minute=1, raised_ms=None))
    clock.advance(60)
    # Nothing goes while its evidence may still stand.
    assert remove_old(store.database, clock.now_ms()) == 0
    replica.save(finding(0.0, settled_minute=2))
    assert remove_old(store.database, NOW_MS + 60_000) == 0
    assert remove_old(store.database, NOW_MS + 60_001) == 1
    assert states(store) == [("fraud", "firing")]
    assert [change.alert for change, _ in AlertStore(store.database).changes(0, None, 9)] == [
        AlertStore(store.database).alerts()[0].id
    ]


def test_lists_are_filtered_and_paged(store: SqlStore, clock: ManualClock) -> None:
    names = [f"m{number}" for number in range(6)]
    replica, alerts = Replica(store, "a", clock, *names), AlertStore(store.database)
    replica.save(*(finding(LINE + number, model=name) for number, name in enumerate(names)))
    clock.advance(60)
    replica.save(finding(0.0, model="m0", settled_minute=1, raised_ms=None), finding(9.0, model="m1", version="8"))
    newest_first = [alert.finding.model for alert in alerts.alerts()]
    assert newest_first == ["m1", "m5", "m4", "m3", "m2", "m1", "m0"]
    first = alerts.alerts(limit=3)
    rest = alerts.alerts(before=first[-1].id)
    assert [alert.finding.model for alert in (*first, *rest)] == newest_first
    assert [alert.finding.model for alert in alerts.alerts(["m2", "m0", "other"])] == ["m2", "m0"]
    assert [alert.finding.model for alert in alerts.alerts(version="8")] == ["m1"]
    assert alerts.alerts(kind="map") == []
    assert "m0" not in {alert.finding.model for alert in alerts.alerts(since_ms=NOW_MS + 60_001)}
    assert "m0" in {alert.finding.model for alert in alerts.alerts(since_ms=NOW_MS + 60_000)}
    assert not any(alert.finding.document for alert in alerts.alerts())
    assert alerts.alert(first[0].id).finding.document == {"slope": 1.3}
    with pytest.raises(UnknownAlert):
        alerts.alerts(before="al_17")
