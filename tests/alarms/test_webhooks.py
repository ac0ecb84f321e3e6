"""Webhooks, over real sockets: in order, signed, again until they are taken, and by one replica at a time."""

import base64
import hashlib
import hmac
import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from structlog.testing import capture_logs

from monitor.alarms import webhooks as module
from monitor.alarms.settings import AlertsSettings, WebhookSettings
from monitor.alarms.webhooks import Target, Webhook
from monitor.clock import ManualClock
from monitor.store.alert import Alert
from monitor.store.alerts import AlertStore, save
from monitor.store.sql import SqlStore
from monitor.store.webhooks import CLAIM_MS, Progress, WebhookStore
from tests.alarms.findings import NOW_MS, advanced, finding
from tests.alarms.receiver import Receiver, receiver

SECRET = base64.b64encode(bytes(range(32))).decode()
NONE_WAITS = Progress(0, 0, None)


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock(NOW_MS)


@pytest.fixture
def store(request: pytest.FixtureRequest, tmp_path: Path, clock: ManualClock) -> Iterator[SqlStore]:
    url = f"sqlite:///{tmp_path}/monitor.db"
    if getattr(request, "param", "sqlite") == "postgresql":
        server = request.getfixturevalue("postgres_server")
        url = server.url(server.new_database())
    with SqlStore.open(url, clock=clock) as store:
        yield store


@pytest.fixture
def oncall() -> Iterator[Receiver]:
    with receiver() as server:
        yield server


class Fleet:
    """Alerts that a test raises, and what delivers them."""

    def __init__(self, store: SqlStore, clock: ManualClock) -> None:
        self.store, self.clock = store, clock
        self.webhooks = WebhookStore(store.database)

    def sender(self, to: Receiver, replica: str = "a", **target: Any) -> Webhook:
        sender = Webhook(self.target(to, **target), self.webhooks, owner=replica, clock=self.clock)
        sender.deliver_due()
        return sender

    def target(self, to: Receiver, name: str = "oncall", **changed: Any) -> Target:
        about = {name: changed.pop(name) for name in ("alerts", "labels") if name in changed}
        settings: dict[str, Any] = {"url": to.url, "secret": SECRET, **changed}
        return Target(name, WebhookSettings(**settings), **about)

    def step(self, before: Alert | None, evidence: float, **more: Any) -> Alert:
        """What becomes of an alert, saved."""
        minute = 0 if before is None else before.finding.events - 1000 + 1
        found = finding(evidence, settled_minute=minute, **more)
        after = advanced(before, found, self.clock.now_ms())
        assert after is not None
        with self.store.database.writing() as connection:
            save(self.store.database, connection, [(before, after)], self.clock.now_ms())
        return after


@pytest.fixture
def fleet(store: SqlStore, clock: ManualClock) -> Fleet:
    return Fleet(store, clock)


def test_each_change_comes_in_alertmanagers_format(fleet: Fleet, oncall: Receiver, clock: ManualClock) -> None:
    # The labels of a model do not take the place of others.
    own = {"churn": {"team": "payments", "version": "gold"}}
    sender = fleet.sender(oncall, alerts=AlertsSettings(external_url="https://calibration.example.com"), labels=own)
    document = {"remedy": {"command": "monitor recalibrate churn --version 7 --window 1h"}}
    alert = fleet.step(None, 7.24, document=document)
    AlertStore(fleet.store.database).acknowledge(alert.id, actor="key:ada", note="mine", now_ms=clock.now_ms())
    clock.advance(60)
    # Of an alarm that is over nothing is said: the alert keeps what it was about.
    fleet.step(alert, 0.0, raised_ms=None, summary="", document={})
    sender.deliver_due()
    firing, acknowledged, resolved = oncall.taken()
    labels = {
        "team": "payments",
        "alertname": "CalibrationEvidence",
        "model": "churn",
        "version": "7",
        "alert": alert.id,
    }
    annotations = {
        "summary": "churn 7 is too sure of itself",
        "description": "1,000 events since 2026-09-21T13:13:20.000Z. The evidence is well past the alert line (170 x).",
        "kind": "calibration",
        "since": "2026-09-21T13:13:20.000Z",
        "runbook_url": "docs/alerts.md#what-to-do",
        "settled_to": "2026-09-21T14:14:20.000Z",
        "command": "monitor recalibrate churn --version 7 --window 1h",
        "report_url": "https://calibration.example.com/reports/churn?version=7",
    }
    assert firing == {
        "version": "4",
        "groupKey": f'{{}}:{{alert="{alert.id}"}}',
        "truncatedAlerts": 0,
        "status": "firing",
        "receiver": "oncall",
        "groupLabels": labels,
        "commonLabels": labels,
        "commonAnnotations": annotations,
        "externalURL": "https://calibration.example.com",
        "alerts": [
            {
                "status": "firing",
                "labels": labels,
                "annotations": annotations,
                "startsAt": "2026-09-21T14:13:20.000Z",
                "endsAt": "0001-01-01T00:00:00Z",
                "generatorURL": f"https://calibration.example.com/v1/alerts/{alert.id}",
                "fingerprint": alert.id.removeprefix("al_"),
            }
        ],
    }
    assert acknowledged["status"] == "firing"
    assert acknowledged["commonAnnotations"] == {**annotations, "acknowledged_by": "key:ada", "note": "mine"}
    assert resolved["status"] == resolved["alerts"][0]["status"] == "resolved"
    assert resolved["alerts"][0]["endsAt"] == "2026-09-21T14:14:20.000Z"
    ended = {"resolved_because": "the data speak against it"}
    assert resolved["commonAnnotations"].items() >= {**annotations, **ended}.items()
    assert len({part["groupKey"] for part in oncall.taken()}) == 1
    assert sender.results == {"delivered": 3, "refused": 0, "failed": 0}


def test_the_signature_is_that_of_standard_webhooks(fleet: Fleet, oncall: Receiver, clock: ManualClock) -> None:
    sender, unsigned = fleet.sender(oncall), fleet.sender(oncall, name="unsigned", secret=None)
    alert = fleet.step(None, 9.0)
    sender.deliver_due()
    assert not {"command", "report_url"} & set(oncall.taken()[0]["commonAnnotations"])
    unsigned.deliver_due()
    (_, headers, body), (_, without, _) = oncall.requests
    assert headers["content-type"] == "application/json"
    assert (headers["webhook-id"], headers["webhook-timestamp"]) == (f"{alert.id}.1", str(NOW_MS // 1000))
    signed = f"{headers['webhook-id']}.{headers['webhook-timestamp']}.".encode() + body
    digest = hmac.new(bytes(range(32)), signed, hashlib.sha256).digest()
    assert headers["webhook-signature"] == "v1," + base64.b64encode(digest).decode()
    assert "webhook-signature" not in without


def test_a_receiver_that_fails_twice_gets_it_the_third_time(fleet: Fleet, oncall: Receiver, clock: ManualClock) -> None:
    first = fleet.sender(oncall)
    oncall.statuses = [503, 429]
    fleet.step(None, 9.0)
    with capture_logs() as logs:
        first.deliver_due()
        # Not before its pause is over, also not by another process.
        following = fleet.sender(oncall, "b")
        assert len(oncall.requests) == 1
        clock.advance(1.0)
        following.deliver_due()
        clock.advance(1.0)
        following.deliver_due()
        assert len(oncall.requests) == 2
        error = "the receiver answered 429 Too Many Requests"
        assert fleet.webhooks.progress("oncall", first.target.states) == Progress(1, 2, error)
        clock.advance(1.0)
        # As after a restart.
        restarted = fleet.sender(oncall, "c")
    assert [status for status, _, _ in oncall.requests] == [503, 429, 200]
    assert len({headers["webhook-id"] for _, headers, _ in oncall.requests}) == 1
    assert [entry["event"] for entry in logs] == [
        "a webhook cannot be delivered; it is tried again",
        "a webhook is delivered again",
    ]
    assert fleet.webhooks.progress("oncall", first.target.states) == NONE_WAITS
    assert (first.results["failed"], following.results["failed"], restarted.results["delivered"]) == (1, 1, 1)


def test_changes_wait_for_the_one_before(fleet: Fleet, oncall: Receiver, clock: ManualClock) -> None:
    sender = fleet.sender(oncall)
    oncall.statuses = [500]
    fleet.step(fleet.step(None, 9.0), 0.0, raised_ms=None)
    sender.deliver_due()
    assert (oncall.taken(), sender.waiting) == ([], 2)
    clock.advance(1.0)
    sender.deliver_due()
    assert [part["status"] for part in oncall.taken()] == ["firing", "resolved"]
    assert sender.waiting == 0


def test_what_is_refused_is_logged_once_and_not_tried_again(fleet: Fleet, oncall: Receiver) -> None:
    sender = fleet.sender(oncall)
    oncall.statuses = [404]
    fleet.step(fleet.step(None, 9.0), 0.0, raised_ms=None)
    with capture_logs() as logs:
        sender.deliver_due()
        assert fleet.webhooks.progress("oncall", sender.target.states) == NONE_WAITS
    assert [part["status"] for part in oncall.taken()] == ["resolved"]
    (refused,) = logs
    assert (refused["log_level"], refused["detail"]) == ("error", "the receiver answered 404 Not Found")
    assert "127.0.0.1" not in str(refused)
    assert sender.results == {"delivered": 1, "refused": 1, "failed": 0}


def test_a_receiver_that_hangs_keeps_nobody_else_waiting(
    fleet: Fleet, oncall: Receiver, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_TIMEOUT_SECONDS", 0.2)
    hanging, sender = fleet.sender(oncall), fleet.sender(oncall, name="other")
    oncall.hangs.set()
    fleet.step(None, 9.0)
    began = time.process_time()
    hanging.deliver_due()
    assert time.process_time() - began < 5.0
    assert fleet.webhooks.progress("oncall", sender.target.states) == Progress(1, 1, "no answer within 0.2 s")
    oncall.hangs.clear()
    sender.deliver_due()
    assert len(oncall.taken()) == 1
    clock.advance(1.0)
    hanging.deliver_due()
    assert len(oncall.taken()) == 2


def test_a_receiver_that_answers_by_drips_holds_nobody(
    fleet: Fleet, oncall: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_TIMEOUT_SECONDS", 0.2)
    oncall.drips = True
    sender = fleet.sender(oncall)
    fleet.step(None, 9.0)
    began = time.monotonic()
    sender.deliver_due()
    assert time.monotonic() - began < 5.0
    assert sender.results["failed"] == 1
    oncall.drips = False


def test_a_receiver_that_is_away_is_tried_ever_more_rarely(fleet: Fleet, clock: ManualClock) -> None:
    with receiver() as gone:
        sender = fleet.sender(gone)
    fleet.step(None, 9.0)
    tried = []
    for second in range(900):
        before = sender.results["failed"]
        sender.deliver_due()
        if sender.results["failed"] > before:
            tried.append(second)
        clock.advance(1.0)
    assert tried == [0, 1, 3, 7, 15, 31, 63, 127, 255, 511, 811]
    assert "Connection refused" in str(fleet.webhooks.progress("oncall", sender.target.states).error)


def test_one_replica_delivers_at_a_time_and_another_goes_on_when_it_is_killed(
    fleet: Fleet, oncall: Receiver, clock: ManualClock
) -> None:
    sender, other = fleet.sender(oncall), fleet.sender(oncall, "b")
    fleet.step(None, 9.0)
    states = sender.target.states
    # Killed between the answer and the note of it.
    delivery = fleet.webhooks.claim("oncall", "a", states)
    assert delivery is not None
    assert sender._send(delivery) == (None, False)
    other.deliver_due()
    assert len(oncall.requests) == 1
    clock.advance(CLAIM_MS / 1000)
    other.deliver_due()
    assert len({headers["webhook-id"] for _, headers, _ in oncall.requests}) == 1
    assert [status for status, _, _ in oncall.requests] == [200, 200]
    # What the first one says now is not heard.
    fleet.webhooks.failed("oncall", "a", 0, "late")
    assert fleet.webhooks.progress("oncall", states) == NONE_WAITS


@pytest.mark.parametrize("store", ["sqlite", pytest.param("postgresql", marks=pytest.mark.postgres)], indirect=True)
def test_a_replica_whose_clock_is_ahead_delivers_no_change_that_another_has_claimed(
    fleet: Fleet, oncall: Receiver, clock: ManualClock
) -> None:
    fleet.sender(oncall)
    fleet.step(None, 9.0)
    ahead = Webhook(fleet.target(oncall), fleet.webhooks, owner="b", clock=ManualClock(clock.now_ms() + 3_600_000))
    delivery = fleet.webhooks.claim("oncall", "a", ahead.target.states)
    assert delivery is not None
    ahead.deliver_due()
    # Nor is the pause after a failure shorter for it.
    fleet.webhooks.failed("oncall", "a", 8, "late")
    ahead.deliver_due()
    assert not oncall.requests
    assert ahead.waiting == 1


def test_the_end_is_not_sent_where_it_is_not_wanted_and_a_new_receiver_begins_now(
    fleet: Fleet, oncall: Receiver
) -> None:
    sender = fleet.sender(oncall, send_resolved=False)
    fleet.step(fleet.step(None, 9.0), 0.0, raised_ms=None)
    late = fleet.sender(oncall, name="late")
    fleet.step(None, 9.0, model="fraud")
    sender.deliver_due()
    late.deliver_due()
    got = [(part["receiver"], part["status"], part["commonLabels"]["model"]) for part in oncall.taken()]
    assert got == [("oncall", "firing", "churn"), ("oncall", "firing", "fraud"), ("late", "firing", "fraud")]
    assert json.loads(oncall.requests[0][2])["externalURL"] == ""
