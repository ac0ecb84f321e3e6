"""The life of an alert, as a function."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from monitor.alarms.lifecycle import advance, resolve, without_finding
from monitor.store.alert import OPEN, Alert, AlertState, Resolution
from tests.alarms.findings import LINE, NOW_MS, finding


def fired() -> Alert:
    alert = advance(None, finding(LINE), NOW_MS)
    assert alert is not None
    assert alert.state is AlertState.FIRING
    return alert


@pytest.mark.parametrize(
    ("evidence", "state"),
    [
        (LINE - 1.01, None),
        (LINE - 1, AlertState.PENDING),
        (LINE - 0.01, AlertState.PENDING),
        (LINE, AlertState.FIRING),
        (float("inf"), AlertState.FIRING),
    ],
)
def test_an_alert_begins_by_its_evidence(evidence: float, state: AlertState | None) -> None:
    alert = advance(None, finding(evidence), NOW_MS)
    assert (alert and alert.state) == state


def test_what_an_alarm_was_raised_for_and_is_over_fires_no_more() -> None:
    assert advance(None, finding(3.0, raised_ms=None), NOW_MS) is None


def test_a_pending_alert_fires_or_leaves_no_trace() -> None:
    pending = advance(None, finding(4.5), NOW_MS)
    assert pending is not None
    fires = advance(pending, finding(5.2, settled_minute=1), NOW_MS + 5)
    assert fires is not None
    assert (fires.id, fires.state) == (pending.id, AlertState.FIRING)
    assert (fires.pending_ms, fires.firing_ms) == (NOW_MS, NOW_MS + 5)
    assert advance(pending, finding(3.9, settled_minute=1), NOW_MS + 5) is None


def test_a_firing_alert_stays_while_evidence_moves_about_and_says_the_most_there_was() -> None:
    alert = fired()
    for minute, evidence in enumerate((7.2, 0.1, -3.0, 4.8, 5.1), start=1):
        following = advance(alert, finding(evidence, settled_minute=minute, raised_ms=NOW_MS), NOW_MS + minute)
        assert following is not None
        assert following.state is AlertState.FIRING
        alert = following
    assert alert.id == fired().id
    assert (alert.finding.log10_evidence, alert.finding.events, alert.firing_ms) == (7.2, 1005, NOW_MS)


def test_a_finding_that_looks_less_far_changes_nothing() -> None:
    alert = replace(fired(), finding=finding(6.0, settled_minute=9))
    assert advance(alert, finding(9.0, settled_minute=8, raised_ms=None), NOW_MS) is alert


def test_it_is_resolved_when_data_speak_against_it_and_not_opened_again() -> None:
    for alert in (fired(), replace(fired(), state=AlertState.ACKNOWLEDGED, acknowledged_by="ada")):
        silent = finding(0.2, settled_minute=1, raised_ms=None, events=0, summary="", document={})
        over = advance(alert, silent, NOW_MS + 1)
        assert over is not None
        # It goes on saying what it was about.
        assert over.finding == replace(alert.finding, settled_ms=silent.settled_ms)
        assert (over.id, over.state, over.reason) == (alert.id, AlertState.RESOLVED, Resolution.OVER)
        assert over.resolved_ms == NOW_MS + 1
        assert advance(over, finding(0.2, settled_minute=2), NOW_MS + 2) is None


def test_what_nothing_moves_is_not_saved_anew() -> None:
    """Also where a map serves."""
    alert = advance(fired(), finding(LINE, revision=3), NOW_MS + 1)
    assert alert == advance(alert, finding(LINE, revision=3), NOW_MS + 2)
    # As it is read from the store.
    assert alert is not None
    assert (alert.finding.raised_ms, alert.finding.revision) == (None, 0)


def test_what_is_resolved_needs_new_evidence_to_fire_again() -> None:
    resolved = resolve(fired(), Resolution.PROMOTED, NOW_MS + 1)
    # The evidence that raised it still stands until the detector begins anew.
    assert advance(resolved, finding(8.0, settled_minute=1, raised_ms=NOW_MS), NOW_MS + 2) is resolved
    new = advance(resolved, finding(4.5, settled_minute=2), NOW_MS + 3)
    assert new is not None
    assert (new.id != resolved.id, new.state) == (True, AlertState.PENDING)
    # An alarm that was raised later is another one, although nobody saw the evidence fall.
    again = advance(resolved, finding(8.0, settled_minute=9), NOW_MS + 3)
    assert again is not None
    assert (again.id != resolved.id, again.state) == (True, AlertState.FIRING)


def test_without_a_finding_the_version_has_stopped_or_the_detector_has() -> None:
    pending = advance(None, finding(4.5), NOW_MS)
    assert pending is not None
    for runs in (True, False):
        assert without_finding(pending, NOW_MS, version_runs=runs) is None
    assert without_finding(fired(), NOW_MS, version_runs=True) == fired()
    stopped = without_finding(fired(), NOW_MS + 1, version_runs=False)
    assert stopped == resolve(fired(), Resolution.STOPPED, NOW_MS + 1)
    assert without_finding(stopped, NOW_MS + 2, version_runs=False) is None


@given(st.lists(st.tuples(st.floats(0.0, 9.0), st.booleans()), max_size=40))
def test_whatever_comes_an_alert_only_moves_on(said: list[tuple[float, bool]]) -> None:
    order = list(AlertState)
    alert: Alert | None = None
    for minute, (evidence, is_over) in enumerate(said):
        found = finding(evidence, settled_minute=minute)
        found = replace(found, raised_ms=None) if is_over else found
        before, alert = alert, advance(alert, found, NOW_MS + minute)
        if before is not None and alert is not None and before.id == alert.id:
            assert order.index(alert.state) >= order.index(before.state)
            assert alert.finding.settled_ms >= before.finding.settled_ms
        elif before is not None:
            # One that was open ends as resolved, and is seen so.
            assert before.state not in OPEN
        if alert is not None and alert.state is AlertState.FIRING:
            assert alert.finding.log10_evidence >= LINE
