"""Alarms while a map serves: on what it makes of predictions, on the harm that it does, and anew when it changes."""

import math
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from scipy.special import expit, logit

from monitor.alarms.alarms import Alarms
from monitor.alarms.serving import SERVING_MAP, LoadedMap, ServedMaps, _MapWatch
from monitor.alarms.watcher import WatchPlan
from monitor.arrays import Floats, Ints
from monitor.clock import ManualClock
from monitor.errors import Conflict
from monitor.maps import METHODS, LabelledEvents, RecalibrationMap, fit_map
from monitor.scores.recalibrated import recalibrate_steps
from monitor.sequential import Bets, CalibrationBets, Evidence
from monitor.sequential.evidence import YEAR_MS
from monitor.store import audit, evidence, servings
from monitor.store.recalibration_store import RecalibrationStore
from monitor.store.recalibrations import JobState
from monitor.store.sql import SqlStore
from monitor.windows.panes import ClosedPanes, read_closings
from tests.alarms.findings import NOW_MS
from tests.alarms.served import KEPT_MS, MODEL, PANE_EVENTS, PANE_MS, POLICY, VERSION, Replica, Stream, promote, watcher
from tests.long import sqlite_first
from tests.maps_of_refits import fitted as of_groups
from tests.maps_of_refits import of_classes
from tests.patience import PATIENCE_SECONDS
from tests.sequential.streams import steps_of
from tests.store.refits import LEASE_MS, queued

TOO_SURE = 1.8
"""Logits of the predictions are so many times the true ones."""
FEW = 40 * PANE_EVENTS
MANY = 120 * PANE_EVENTS


@pytest.fixture
def stream(store_url: str, clock: ManualClock) -> Iterator[Stream]:
    with SqlStore.open(store_url, clock=clock, patience_seconds=PATIENCE_SECONDS) as store:
        yield Stream(store)


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock(NOW_MS)


@pytest.fixture
def rng() -> np.random.Generator:
    return np.random.default_rng(3)


def drawn(rng: np.random.Generator, events: int, slope: float = 1.0) -> tuple[Floats, Ints]:
    """Predictions whose logits are ``slope`` times the true ones, and outcomes."""
    true = rng.normal(0.0, 1.2, events)
    return expit(slope * true), (rng.random(events) < expit(true)).astype(np.int64)


def fitted(rng: np.random.Generator, method: str = "beta", slope: float = TOO_SURE) -> RecalibrationMap:
    return fit_map(METHODS[method], LabelledEvents.of(*drawn(rng, 20_000, slope)))


def levels(replica: Replica) -> dict[str, float]:
    of_version = replica.evaluate().versions[VERSION]
    return {name: level.log10_evidence for name, level in of_version.levels.items()}


@sqlite_first
def test_a_promotion_ends_the_alert_and_what_it_repairs_raises_no_other(
    stream: Stream, clock: ManualClock, rng: np.random.Generator
) -> None:
    replica = Replica(stream, clock)
    stream.publish(*drawn(rng, FEW, TOO_SURE))
    assert replica.evaluate().versions[VERSION].levels.keys() == {"calibration", "prevalence", "change"}
    assert replica.listed() == [("calibration", "firing", None)]
    promote(stream.store, fitted(rng), 1, clock)
    assert levels(replica) == {SERVING_MAP: -308.0}
    assert replica.listed() == [("calibration", "resolved", "promoted")]
    # The model's own predictions are as wrong as before, and what is served is right.
    stream.publish(*drawn(rng, MANY, TOO_SURE))
    assert all(level < 1.0 for level in levels(replica).values())
    assert levels(replica).keys() == {"calibration", "prevalence", "change", SERVING_MAP}
    assert replica.listed() == [("calibration", "resolved", "promoted")]
    # Without the map they are wrong again: new evidence, and a new alert.
    RecalibrationStore(stream.store.database).roll_back(MODEL, VERSION, actor="ada", now_ms=NOW_MS, note="")
    assert levels(replica) == {}
    stream.publish(*drawn(rng, FEW, TOO_SURE))
    replica.evaluate()
    assert replica.listed() == [("calibration", "resolved", "promoted"), ("calibration", "firing", None)]


@sqlite_first
def test_what_was_found_before_a_promotion_raises_nothing_after_it(
    stream: Stream, clock: ManualClock, rng: np.random.Generator
) -> None:
    replica = Replica(stream, clock)
    stream.publish(*drawn(rng, FEW, TOO_SURE))
    replica.evaluate()
    # The alarm is raised again, and a map is promoted before that is saved.
    stream.publish(*drawn(rng, MANY, TOO_SURE))
    replica.evaluate(meanwhile=lambda: promote(stream.store, fitted(rng), 1, clock))
    assert replica.listed() == [("calibration", "resolved", "promoted")]
    replica.evaluate()
    assert replica.listed() == [("calibration", "resolved", "promoted")]


@sqlite_first
def test_a_map_that_turns_harmful_raises_an_alert_that_names_it(
    stream: Stream, clock: ManualClock, rng: np.random.Generator
) -> None:
    replica = Replica(stream, clock)
    stream.publish(*drawn(rng, FEW, TOO_SURE))
    champion = promote(stream.store, fitted(rng), 1, clock)
    stream.publish(*drawn(rng, FEW, TOO_SURE))
    replica.evaluate()
    turned_ms = stream.now_ms
    # The model was repaired: now the map is what is wrong.
    stream.publish(*drawn(rng, MANY))
    replica.evaluate()
    (alert,) = replica.alerts.alerts()
    assert alert.state == "firing"
    found = replica.alerts.alert(alert.id).finding
    # What is served is not sure enough, which is the same fault: the map leads, and the others are its witnesses.
    assert [one.detector for one in found.witnesses][:2] == ["serving_map", "calibration"]
    assert abs(found.since_ms - turned_ms) <= 40 * 60_000
    assert found.summary.startswith("The map rc_1 of churn 7 does harm since 2025-10-09 ")
    assert found.summary.endswith(" Roll it back.")
    document = found.document
    assert (document["label"], document["map"], document["revision"]) == ("harm", "rc_1", champion.revision)
    assert document["remedy"]["command"] == "monitor rollback churn --version 7"
    lower, upper = document["after"]["brier_difference_interval"]
    assert 0.0 < lower < document["after"]["brier_difference"] < upper
    assert document["before"]["brier_difference"] < 0.0
    assert document["after"]["labelled"] == found.events
    (served,) = (one for one in replica.findings[MODEL] if one.kind == "calibration")
    assert served.document["label"] == "shape"
    assert served.document["after"]["slope"] == pytest.approx(TOO_SURE, abs=0.1)
    # A person decides.
    (serving,) = RecalibrationStore(stream.store.database).champions()
    assert serving == champion


@sqlite_first
def test_a_harmful_map_is_rolled_back_by_the_service_where_promotion_is_automatic(
    stream: Stream, clock: ManualClock, rng: np.random.Generator
) -> None:
    refits = RecalibrationStore(stream.store.database)
    replica = Replica(stream, clock, rolls_back=lambda model: model == MODEL)
    stream.publish(*drawn(rng, FEW, TOO_SURE))
    promote(stream.store, fitted(rng), 1, clock)
    stream.publish(*drawn(rng, FEW, TOO_SURE))
    replica.evaluate()
    stream.publish(*drawn(rng, MANY))
    replica.evaluate()
    (champion,) = refits.champions()
    assert (champion.map_id, champion.revision) == (None, 2)
    assert refits.job("rc_1").state is JobState.ROLLED_BACK
    assert ("map", "resolved", "rolled_back") in replica.listed()
    assert {state for _, state, _ in replica.listed()} == {"resolved"}
    (alert,) = (alert for alert in replica.alerts.alerts() if alert.finding.kind == "map")
    changes = replica.alerts.changes_of(alert.id)
    assert [change.state.value for change in changes] == ["firing", "resolved"]
    assert changes[-1].note == "the map rc_1 was rolled back by the service"
    entry = refits.audit(limit=100)[-1]
    assert (entry.actor, entry.action, entry.subject) == ("service", "rolled_back", "rc_1")
    assert entry.detail["note"].startswith(
        f"automatic, alert {alert.id}: The map rc_1 of churn 7 does harm since 2025-10-09 "
    )
    assert "where 10^3.9 is an alarm" not in entry.detail["note"]
    # Once: the next evaluation finds nothing to roll back, and predictions are judged as they are.
    written = len(refits.audit(limit=100))
    replica.evaluate()
    stream.publish(*drawn(rng, MANY))
    assert all(level < 1.0 for level in levels(replica).values())
    assert len(refits.audit(limit=100)) == written
    # As after any rollback, no map is promoted by a schedule until somebody promotes one.
    refits.add_job(queued(2))
    claimed = refits.claim_job("w", lease_ms=LEASE_MS)
    assert claimed is not None
    candidate = replace(claimed, state=JobState.CANDIDATE, trigger="schedule", baseline=None)
    with pytest.raises(Conflict, match="was rolled back at"), audit.changing(stream.store.database) as connection:
        servings.promote_automatically(connection, candidate, now_ms=NOW_MS)


@sqlite_first
def test_a_rollback_that_comes_first_is_not_repeated(
    stream: Stream, clock: ManualClock, rng: np.random.Generator
) -> None:
    refits = RecalibrationStore(stream.store.database)
    by_hand = Replica(stream, clock)
    stream.publish(*drawn(rng, FEW))
    promote(stream.store, fitted(rng), 1, clock)
    promote(stream.store, fitted(rng, slope=1.7), 2, clock)
    stream.publish(*drawn(rng, MANY))
    by_hand.evaluate()
    assert ("map", "firing", None) in by_hand.listed()
    alarms = Alarms(stream.store.database, lambda _: True)
    refits.roll_back(MODEL, VERSION, actor="ada", now_ms=NOW_MS, note="")
    # The findings are those of the map that was rolled back; the one before it serves now.
    assert any(finding.kind == "map" and finding.raised_ms for finding in by_hand.findings[MODEL])
    with stream.store.database.writing() as connection:
        alarms.save(connection, [MODEL], by_hand.findings)
    (champion,) = refits.champions()
    assert champion.map_id == "rc_1"


@pytest.mark.parametrize("method", ["beta", "isotonic", "histogram"])
@sqlite_first
def test_evidence_does_not_depend_on_when_a_change_is_noticed(
    stream: Stream, clock: ManualClock, rng: np.random.Generator, method: str
) -> None:
    database = stream.store.database
    replica = Replica(stream, clock)
    stream.publish(*drawn(rng, FEW, TOO_SURE))
    replica.evaluate()
    promote(stream.store, fitted(rng, method), 1, clock)
    for turn in range(4):
        # The settled edge is behind the newest prediction: panes from before the promotion come too.
        stream.publish(*drawn(rng, 3 * PANE_EVENTS, TOO_SURE if turn % 2 else 1.0))
        if turn:
            replica.evaluate()
        if turn == 2:
            replica.leave()
            replica = Replica(stream, clock, "b")
    steady = evidence.read(database, [MODEL])
    with database.writing() as connection:
        connection.exec_driver_sql("DELETE FROM evidence")
    panes = ClosedPanes(KEPT_MS, lambda _: POLICY)
    read_closings(stream.store, panes)
    late = watcher(stream, panes).update({MODEL: 9}).evidence[MODEL]
    assert list(late.states) == steady
    assert late.versions[VERSION].levels.keys() == {"calibration", "prevalence", "change", SERVING_MAP}
    (serving,) = _servings(stream)
    assert serving.from_ms == stream.now_ms - 12 * 60_000 + POLICY.retention_ms


def _servings(stream: Stream) -> list[servings.Serving]:
    with stream.store.database.reading() as connection:
        return servings.read(connection, [MODEL])


@sqlite_first
def test_harm_is_of_settled_events_also_where_only_wide_panes_are_kept(
    stream: Stream, clock: ManualClock, rng: np.random.Generator
) -> None:
    stream.publish(*drawn(rng, FEW, TOO_SURE))
    chosen = fitted(rng)
    promote(stream.store, chosen, 1, clock)
    from_ms, (p, y) = stream.now_ms, drawn(rng, 63 * PANE_EVENTS)
    stream.publish(p, y)
    panes = ClosedPanes({PANE_MS: 30 * PANE_MS, 10 * PANE_MS: 7 * 86_400_000}, lambda _: POLICY)
    read_closings(stream.store, panes)
    maps = ServedMaps(panes, stream.store)
    maps.refresh([MODEL])
    # Whole panes of ten minutes, and the last three of a minute each.
    _, events, document = maps.explain(MODEL, VERSION, from_ms + 7 * PANE_MS, stream.now_ms + 60 * PANE_MS)
    after = slice(10 * PANE_EVENTS, None)
    assert document["after"]["labelled"] == events == 53 * PANE_EVENTS
    served = (chosen.apply(p[after]) - y[after]) ** 2 - (p[after] - y[after]) ** 2
    assert document["after"]["brier_difference"] == pytest.approx(served.mean(), rel=0.01)


@sqlite_first
def test_a_map_of_features_is_judged_on_samples_and_predictions_are_not_judged(
    stream: Stream, clock: ManualClock, rng: np.random.Generator
) -> None:
    def local(events: int, error: float) -> tuple[Floats, Ints, Floats]:
        """Predictions that are off by -+ ``error`` logits, by the sign of the second feature."""
        true, x = rng.normal(0.0, 1.2, events), rng.normal(size=(events, 2))
        y = (rng.random(events) < expit(true)).astype(np.int64)
        return expit(true + error * np.sign(x[:, 1])), y, x

    replica = Replica(stream, clock)
    p, y, x = local(4000, 1.0)
    stream.publish(*local(FEW, 1.0))
    promote(stream.store, fit_map(METHODS["lore"], LabelledEvents.of(p, y, features=x)), 1, clock)
    stream.publish(*local(FEW, 1.0))
    first = replica.evaluate().versions[VERSION]
    assert first.resting == ("the map that serves needs features of each event, which closings do not hold")
    assert first.levels.keys() == {SERVING_MAP}
    assert replica.listed() == []
    for _ in range(3):
        stream.publish(*local(FEW, 0.0))
        replica.evaluate()
    assert replica.listed() == [("map", "firing", None)]
    (alert,) = replica.alerts.alerts()
    found = replica.alerts.alert(alert.id).finding
    assert found.document["after"]["brier_difference"] > 0.0 > found.document["before"]["brier_difference"]
    # The same whenever spans are added, and whoever adds them.
    steady = evidence.read(stream.store.database, [MODEL])
    with stream.store.database.writing() as connection:
        connection.exec_driver_sql("DELETE FROM evidence")
    panes = ClosedPanes(KEPT_MS, lambda _: POLICY)
    read_closings(stream.store, panes)
    assert list(watcher(stream, panes).update({MODEL: 9}).evidence[MODEL].states) == steady


@sqlite_first
def test_a_map_that_cannot_be_read_leaves_predictions_unjudged_and_says_so(
    stream: Stream, clock: ManualClock, rng: np.random.Generator
) -> None:
    replica = Replica(stream, clock)
    stream.publish(*drawn(rng, PANE_EVENTS, TOO_SURE))
    promote(stream.store, None, 1, clock)
    stream.publish(*drawn(rng, FEW, TOO_SURE))
    known = replica.evaluate().versions[VERSION]
    assert known.resting.startswith("the map that serves cannot be read: ")
    assert replica.listed() == []


WEIGHTS_OFF = dict.fromkeys(("calibration", "prevalence", "change", SERVING_MAP), 0.0)


@pytest.mark.parametrize(
    "changed",
    [
        {"plan": WatchPlan(tolerance=0.1)},
        {"plan": WatchPlan(within_horizon=True)},
        {"detectors": WEIGHTS_OFF | {"change": 1.0}},
        {"detectors": WEIGHTS_OFF},
    ],
)
@sqlite_first
def test_an_alert_that_other_settings_end_says_so(
    stream: Stream, clock: ManualClock, rng: np.random.Generator, changed: dict[str, Any]
) -> None:
    first = Replica(stream, clock)
    stream.publish(*drawn(rng, FEW, TOO_SURE))
    first.evaluate()
    assert first.listed() == [("calibration", "firing", None)]
    first.leave()
    # It is started again, before the next pane and after it.
    second = Replica(stream, clock, "b", **changed)
    second.evaluate()
    second.leave()
    stream.publish(*drawn(rng, PANE_EVENTS, TOO_SURE))
    third = Replica(stream, clock, "c", **changed)
    third.evaluate()
    assert third.listed() == [("calibration", "resolved", "settings")]
    (alert,) = third.alerts.alerts()
    assert third.alerts.changes_of(alert.id)[-1].note == (
        "the settings changed: its detector was switched off, or starts again at 0"
    )


@sqlite_first
def test_what_other_settings_ended_may_fire_again_and_be_over(
    stream: Stream, clock: ManualClock, rng: np.random.Generator
) -> None:
    first = Replica(stream, clock)
    stream.publish(*drawn(rng, FEW, TOO_SURE))
    first.evaluate()
    first.leave()
    second = Replica(stream, clock, "b", plan=WatchPlan(tolerance=0.1))
    for slope in (TOO_SURE, 1.0, 1.0):
        stream.publish(*drawn(rng, MANY, slope))
        second.evaluate()
    ends = [(kind, state, end) for kind, state, end in second.listed() if kind == "calibration"]
    assert ends[-1] == ("calibration", "resolved", "over")


@sqlite_first
def test_an_alert_about_a_map_ends_where_its_detector_is_switched_off(
    stream: Stream, clock: ManualClock, rng: np.random.Generator
) -> None:
    first = Replica(stream, clock, detectors=WEIGHTS_OFF | {SERVING_MAP: 1.0})
    stream.publish(*drawn(rng, FEW, TOO_SURE))
    promote(stream.store, fitted(rng), 1, clock)
    stream.publish(*drawn(rng, MANY))
    first.evaluate()
    assert first.listed() == [("map", "firing", None)]
    first.leave()
    second = Replica(stream, clock, "b", detectors=WEIGHTS_OFF | {"calibration": 1.0})
    stream.publish(*drawn(rng, PANE_EVENTS))
    second.evaluate()
    assert ("map", "resolved", "settings") in second.listed()
    second.leave()
    # Switched on again, it starts at 0.
    stream.publish(*drawn(rng, PANE_EVENTS))
    third = Replica(stream, clock, "c").evaluate().versions[VERSION].levels[SERVING_MAP]
    assert third.raised is None
    assert third.log10_evidence < 0.0


@sqlite_first
def test_the_share_of_a_version_is_divided_among_the_detectors_that_it_has(
    stream: Stream, clock: ManualClock, rng: np.random.Generator
) -> None:
    replica = Replica(stream, clock)
    stream.publish(*drawn(rng, FEW))
    lines = {name: 10**level.log10_line for name, level in replica.evaluate().versions[VERSION].levels.items()}
    assert lines == pytest.approx({"calibration": 3.0, "prevalence": 3.0, "change": 3.0})
    promote(stream.store, fitted(rng), 1, clock)
    stream.publish(*drawn(rng, FEW, TOO_SURE))
    lines = {name: 10**level.log10_line for name, level in replica.evaluate().versions[VERSION].levels.items()}
    assert lines == pytest.approx({"calibration": 4.0, "prevalence": 4.0, "change": 4.0, SERVING_MAP: 4.0})


@sqlite_first
def test_a_model_that_is_off_as_it_always_was_has_not_changed(
    stream: Stream, clock: ManualClock, rng: np.random.Generator
) -> None:
    replica = Replica(stream, clock)
    stream.publish(*drawn(rng, 3 * MANY, 1.5))
    replica.evaluate()
    # Somebody accepts it.
    assert replica.listed() == [("calibration", "firing", None)]
    p, y = drawn(rng, MANY, 1.5)
    stream.publish(expit(logit(p) + 0.6), y)
    replica.evaluate()
    assert ("change", "firing", None) in replica.listed()


@pytest.mark.parametrize(
    ("served", "needs"),
    [
        (of_classes(), "the probabilities of all classes"),
        (of_groups("group_wise_platt"), "the segment 'region'"),
        (of_groups("beta"), ""),
        (of_groups("isotonic"), ""),
    ],
)
def test_predictions_rest_where_a_map_needs_more_than_them(served: RecalibrationMap, needs: str) -> None:
    assert needs in LoadedMap.of(served).resting
    assert bool(LoadedMap.of(served).resting) == bool(needs)


def test_evidence_on_a_map_that_is_right_stays_within_the_time_that_passed() -> None:
    # True probabilities are what the map makes of predictions, some of which come again and again.
    served = of_groups("isotonic")
    rng = np.random.default_rng(5)
    final = []
    for _ in range(300):
        p = np.where(rng.random(1200) < 0.5, rng.random(1200), rng.choice([0.2, 0.5, 1 / 3], 1200))
        y = (rng.random(1200) < served.apply(p)).astype(np.float64)
        steps = recalibrate_steps(steps_of(p, y, 60, 60_000), served.apply)
        watched = Evidence(0)
        watched.update({"": {"": CalibrationBets(0.0).bet(steps)}}, math.inf)
        final.append(watched.value * YEAR_MS / (20 * 60_000))
    assert 0.3 < np.mean(final) < 1.0 + 3.0 * np.std(final) / 300**0.5


def test_evidence_on_a_map_starts_again_where_a_version_comes_back() -> None:
    bets = Bets(np.array([10, 20, 5_000, 5_010]), np.full((4, 4), 0.5))
    at_once, one_by_one, late = (_MapWatch.begin(0) for _ in range(3))
    at_once.update(bets, math.inf, 1_000)
    for row in range(4):
        one_by_one.update(Bets(bets.end_ms[row : row + 1], bets.log_bets[row : row + 1]), math.inf, 1_000)
    late.update(Bets(bets.end_ms[2:], bets.log_bets[2:]), math.inf, 1_000)
    assert evidence.encode(at_once.state()) == evidence.encode(one_by_one.state()) == evidence.encode(late.state())
