"""The life of alerts, as a function."""

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from monitor.alarms.lifecycle import advance, resolve
from monitor.store.alert import OPEN, Alert, AlertState, Finding, Resolution
from tests.alarms.findings import LINE, MINUTE_MS, NOW_MS, advanced, finding


def fired(**more: Any) -> Alert:
    alert = advanced(None, finding(LINE, **more), NOW_MS)
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
    alert = advanced(None, finding(evidence), NOW_MS)
    assert (alert and alert.state) == state


def test_what_an_alarm_was_raised_for_and_is_over_fires_no_more() -> None:
    assert advanced(None, finding(3.0, raised_ms=None), NOW_MS) is None


def test_a_pending_alert_fires_or_leaves_no_trace() -> None:
    pending = advanced(None, finding(4.5), NOW_MS)
    assert pending is not None
    fires = advanced(pending, finding(5.2, settled_minute=1), NOW_MS + 5)
    assert fires is not None
    assert (fires.id, fires.state) == (pending.id, AlertState.FIRING)
    assert (fires.pending_ms, fires.firing_ms, fires.raised_ms) == (NOW_MS, NOW_MS + 5, NOW_MS + MINUTE_MS)
    assert advanced(pending, finding(3.9, settled_minute=1), NOW_MS + 5) is None


def test_a_firing_alert_stays_while_evidence_moves_about_and_says_the_most_there_was() -> None:
    alert = fired()
    for minute, evidence in enumerate((7.2, 0.1, -3.0, 4.8, 5.1), start=1):
        following = advanced(alert, finding(evidence, settled_minute=minute, raised_ms=NOW_MS), NOW_MS + minute)
        assert following is not None
        assert following.state is AlertState.FIRING
        alert = following
    assert alert.id == fired().id
    assert (alert.finding.log10_evidence, alert.finding.events, alert.firing_ms) == (7.2, 1005, NOW_MS)


def test_the_picture_before_the_change_is_kept_with_the_alert() -> None:
    """Panes of that time are gone after a while."""
    spans = {"before": {"labelled": 900, "bins": [1, 2]}, "after": {"labelled": 50}}
    alert = fired(document=spans)
    for minute, (before, since_ms, kept) in enumerate(
        [
            ({"labelled": 20}, alert.finding.since_ms, 900),
            ({"labelled": 0}, alert.finding.since_ms, 900),
            ({"labelled": 1000}, alert.finding.since_ms, 1000),
            # Before another change it is another picture.
            ({"labelled": 5}, alert.finding.since_ms + 1, 5),
        ],
        start=1,
    ):
        document = {"before": before, "after": {"labelled": 50 + minute}}
        following = finding(6.0, settled_minute=minute, raised_ms=NOW_MS, since_ms=since_ms, document=document)
        after = advanced(alert, following, NOW_MS + minute)
        assert after is not None
        assert after.finding.document["before"]["labelled"] == kept
        assert after.finding.document["after"] == document["after"]
        alert = after


def test_a_finding_that_looks_less_far_changes_nothing() -> None:
    alert = replace(fired(), finding=finding(6.0, settled_minute=9))
    assert advanced(alert, finding(9.0, settled_minute=8, raised_ms=None), NOW_MS) is alert


def test_it_is_resolved_when_data_speak_against_it_and_not_opened_again() -> None:
    for alert in (fired(), replace(fired(), state=AlertState.ACKNOWLEDGED, acknowledged_by="ada")):
        silent = finding(0.2, settled_minute=1, raised_ms=None, events=0, summary="", document={})
        over = advanced(alert, silent, NOW_MS + 1)
        assert over is not None
        # It goes on saying what it was about.
        assert over.finding == replace(alert.finding, settled_ms=silent.settled_ms)
        assert (over.id, over.state, over.reason) == (alert.id, AlertState.RESOLVED, Resolution.OVER)
        assert over.resolved_ms == NOW_MS + 1
        assert advanced(over, finding(0.2, settled_minute=2), NOW_MS + 2) is None


def test_what_somebody_muted_fires_again_when_the_time_is_over() -> None:
    """Also where no event came since, and unless it is over by then."""
    end_ms = NOW_MS + 60_000
    muted = replace(fired(), state=AlertState.ACKNOWLEDGED, acknowledged_by="ada", muted_until_ms=end_ms)
    assert advanced(muted, replace(muted.finding, raised_ms=NOW_MS), end_ms - 1) == muted
    again = advanced(muted, replace(muted.finding, raised_ms=NOW_MS), end_ms)
    assert again == replace(muted, state=AlertState.FIRING, muted_until_ms=None)
    assert advanced(muted, finding(9.0, settled_minute=-1), end_ms) == again
    over = advanced(muted, finding(0.2, settled_minute=1, raised_ms=None), end_ms)
    assert over is not None
    assert over.state is AlertState.RESOLVED
    # Without an end it stays silent.
    forever = replace(muted, muted_until_ms=None)
    assert advanced(forever, replace(muted.finding, raised_ms=NOW_MS), end_ms) == forever


def test_what_nothing_moves_is_not_saved_anew() -> None:
    """Also where a map serves."""
    alert = advanced(fired(), finding(LINE, revision=3), NOW_MS + 1)
    assert alert == advanced(alert, finding(LINE, revision=3), NOW_MS + 2)
    # As it is read from the store.
    assert alert is not None
    assert (alert.finding.raised_ms, alert.finding.first_raised_ms, alert.finding.revision) == (None, None, 0)


def test_what_is_resolved_needs_new_evidence_to_fire_again() -> None:
    resolved = resolve(fired(), Resolution.PROMOTED, NOW_MS + 1)
    # The evidence that raised it still stands until the detector begins anew.
    assert advanced(resolved, finding(8.0, settled_minute=1, raised_ms=NOW_MS), NOW_MS + 2) is resolved
    new = advanced(resolved, finding(4.5, settled_minute=2), NOW_MS + 3)
    assert new is not None
    assert (new.id != resolved.id, new.state) == (True, AlertState.PENDING)
    # An alarm that was raised later is another one, although nobody saw the evidence fall.
    again = advanced(resolved, finding(8.0, settled_minute=9), NOW_MS + 3)
    assert again is not None
    assert (again.id != resolved.id, again.state) == (True, AlertState.FIRING)


def test_without_a_finding_the_version_has_stopped_or_the_detector_has() -> None:
    pending = advanced(None, finding(4.5), NOW_MS)
    assert pending is not None
    other = finding(0.0, kind="change")
    for findings in ([], [other]):
        assert advance([pending], findings, NOW_MS) == [(pending, None)]
    assert advance([fired()], [other], NOW_MS) == [(fired(), fired())]
    stopped = resolve(fired(), Resolution.STOPPED, NOW_MS + 1)
    assert advance([fired()], [], NOW_MS + 1) == [(fired(), stopped)]
    assert advance([stopped], [], NOW_MS + 2) == [(stopped, None)]


def change(evidence: float, *, settled_minute: int, began_minute: int, **more: Any) -> Finding:
    """A finding of D3."""
    since_ms = NOW_MS + began_minute * MINUTE_MS
    return finding(evidence, settled_minute=settled_minute, kind="change", since_ms=since_ms, **more)


def test_another_detector_joins_the_alert_on_one_change_and_makes_no_transition() -> None:
    alert = fired()
    joining = change(7.5, settled_minute=5, began_minute=-30)
    ((before, after),) = advance([alert], [finding(5.5, settled_minute=5, raised_ms=NOW_MS), joining], NOW_MS + 9)
    assert before is alert
    assert after is not None
    assert (after.id, after.state, after.firing_ms) == (alert.id, alert.state, alert.firing_ms)
    # What is wrong says more than that something changed; the evidence is the most of all.
    assert (after.finding.kind, after.finding.log10_evidence) == ("calibration", 5.5)
    assert [(one.detector, one.log10_evidence) for one in after.finding.witnesses] == [
        ("calibration", 5.5),
        ("change", 7.5),
    ]
    # It goes on as long as one of them fires, with its words.
    rests = finding(0.0, settled_minute=6, raised_ms=None)
    ((_, alone),) = advance([after], [rests, replace(joining, settled_ms=rests.settled_ms)], NOW_MS + 10)
    assert alone is not None
    assert (alone.id, alone.state, alone.finding.kind) == (alert.id, AlertState.FIRING, "change")
    quiet = change(0.0, settled_minute=7, began_minute=7, raised_ms=None)
    ((_, over),) = advance([alone], [finding(0.0, settled_minute=7, raised_ms=None), quiet], NOW_MS + 11)
    assert over is not None
    assert (over.state, over.reason) == (AlertState.RESOLVED, Resolution.OVER)


def test_what_says_more_takes_the_alert_over() -> None:
    """D3 was first."""
    ((_, alert),) = advance([], [change(6.0, settled_minute=0, began_minute=-30)], NOW_MS)
    assert alert is not None
    assert alert.finding.kind == "change"
    both = [finding(5.1, settled_minute=4), change(6.5, settled_minute=4, began_minute=-30, raised_ms=NOW_MS)]
    ((_, after),) = advance([alert], both, NOW_MS + 9)
    assert after is not None
    assert (after.id, after.finding.kind, after.finding.summary) == (alert.id, "calibration", both[0].summary)


def test_a_change_after_the_alert_fired_is_another_alert() -> None:
    """A model that somebody accepted as it is, with its alert open, can change once more."""
    standing = replace(fired(), state=AlertState.ACKNOWLEDGED, acknowledged_by="ada")
    own = finding(9.0, settled_minute=90, raised_ms=NOW_MS)
    second = change(6.0, settled_minute=90, began_minute=60)
    (_, kept), (nothing, new) = advance([standing], [own, second], NOW_MS + 9)
    assert kept is not None
    assert (kept.id, kept.state, len(kept.finding.witnesses)) == (standing.id, AlertState.ACKNOWLEDGED, 1)
    assert nothing is None
    assert new is not None
    assert (new.state, new.finding.kind, new.raised_ms) == (AlertState.FIRING, "change", NOW_MS + 90 * MINUTE_MS)
    # Each goes on with its own findings, and is over by itself.
    again = finding(9.0, settled_minute=91, raised_ms=NOW_MS)
    quiet = change(0.0, settled_minute=91, began_minute=91, raised_ms=None)
    steps = advance([kept, new], [again, quiet], NOW_MS + 10)
    assert [(after.id, after.state) for _, after in steps if after] == [
        (kept.id, AlertState.ACKNOWLEDGED),
        (new.id, AlertState.RESOLVED),
    ]


@pytest.mark.parametrize("first", ["calibration", "change"])
def test_alarms_that_one_evaluation_finds_are_joined_as_those_of_many(first: str) -> None:
    """After an outage all that happened comes at once."""
    early: dict[str, Any] = {"settled_minute": 90, "raised_ms": NOW_MS, "first_raised_ms": NOW_MS}
    late: dict[str, Any] = {"settled_minute": 90, "raised_ms": NOW_MS + 9, "first_raised_ms": NOW_MS + 9}
    one, other = (early, late) if first == "calibration" else (late, early)
    together = [finding(6.0, **one), change(6.0, began_minute=-30, **other)]
    assert len(advance([], together, NOW_MS)) == 1
    apart = [finding(6.0, **early), change(6.0, began_minute=60, **late)]
    assert len(advance([], apart, NOW_MS)) == 2


def test_what_is_pending_is_one_alert() -> None:
    pending = [finding(4.5), change(4.8, settled_minute=0, began_minute=-30)]
    ((_, alert),) = advance([], pending, NOW_MS)
    assert alert is not None
    # The one nearest to its line speaks.
    assert (alert.state, alert.finding.kind, len(alert.finding.witnesses)) == (AlertState.PENDING, "change", 2)


_SAID = st.lists(
    st.tuples(*[st.tuples(st.floats(0.0, 9.0), st.booleans(), st.integers(-60, 40))] * 3), min_size=1, max_size=40
)


@given(_SAID)
def test_whatever_comes_an_alert_only_moves_on(said: list[tuple[tuple[float, bool, int], ...]]) -> None:
    order = list(AlertState)
    alerts: list[Alert] = []
    for minute, kinds in enumerate(said):
        found = [
            finding(evidence, settled_minute=minute, kind=kind, since_ms=NOW_MS + min(began, minute) * MINUTE_MS)
            for kind, (evidence, _, began) in zip(("calibration", "change", "map"), kinds, strict=True)
        ]
        found = [
            replace(one, raised_ms=None, first_raised_ms=None) if is_over else one
            for one, (_, is_over, _) in zip(found, kinds, strict=True)
        ]
        steps = advance(alerts, found, NOW_MS + minute)
        assert {before.id for before, _ in steps if before is not None} == {alert.id for alert in alerts}
        for before, after in steps:
            if before is not None and after is not None:
                assert before.id == after.id
                assert order.index(after.state) >= order.index(before.state)
                assert after.finding.settled_ms >= before.finding.settled_ms
            elif before is not None:
                # One that was open ends as resolved, and is seen so.
                assert before.state not in OPEN
            if after is not None and after.state is AlertState.FIRING:
                assert after.finding.log10_evidence >= LINE
        alerts = [after for _, after in steps if after is not None]
        # Each alarm that fires belongs to one alert.
        firing = [
            one.detector for alert in alerts if alert.state in OPEN for one in alert.finding.witnesses if one.firing
        ]
        assert len(firing) == len(set(firing))
        assert len({alert.id for alert in alerts}) == len(alerts)
