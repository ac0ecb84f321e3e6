"""Alerts in the service as a whole: raised, exported, delivered, and handled from the command line."""

import json
import re
import urllib.request
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from monitor.alarms.watcher import Watched
from monitor.app.parts import make_topics, make_writer
from monitor.app.replay import route
from monitor.app.service import Service
from monitor.app.settings import Settings
from monitor.clock import SystemClock
from monitor.events.encode import encode_labelled
from monitor.store.alert import OPEN, Finding
from tests.alarms.findings import Script, finding
from tests.alarms.receiver import Receiver, receiver
from tests.cli.command import inside, one_error_line
from tests.patience import PATIENCE_SECONDS, eventually

START_MS = 1_790_000_000_000
HOUR_MS = 3_600_000
SECRET = "MDEyMzQ1Njc4OTAxMjM0NTY3ODkwMTIzNDU2Nzg5MDE="


@pytest.fixture
def oncall() -> Iterator[Receiver]:
    with receiver() as server:
        yield server


@pytest.fixture
def service(tmp_path: Path, patient: None, oncall: Receiver) -> Iterator[Service]:
    tree: dict[str, Any] = {
        "source": {"embedded": {"directory": str(tmp_path / "log"), "partitions": 1}},
        "store": {"url": f"sqlite:///{tmp_path / 'state.db'}"},
        "models": {"defaults": {"horizon": "10m", "allowed_lateness": "5m"}},
        "windows": [{"length": "1h"}],
        "evaluation": {"interval": "200ms", "draws": 0},
        "pipeline": {"checkpoint_interval": "100ms"},
        "alerts": {"webhooks": {"oncall": {"url": oncall.url, "secret": SECRET}}},
        "api": {"port": 0},
        "access": {"mode": "off"},
    }
    chosen = Settings.model_validate(tree)
    writer = make_writer(chosen, SystemClock())
    times = [*range(START_MS, START_MS + HOUR_MS, 1000), START_MS + 3 * HOUR_MS]
    events = [encode_labelled("churn", f"id-{at}", at, 0.3, int(at % 3 == 0), version="7") for at in times]
    writer.write([route(value, make_topics(chosen)) for value in events])
    writer.close()
    service = Service(chosen, clock=SystemClock())
    say(service, finding(7.2))
    service.start()
    yield service
    service.stop()


def say(service: Service, *findings: Finding) -> None:
    """Let the evidence amount to these findings."""
    script = Script(*findings).now
    service.evaluation.watcher.update = lambda epochs: Watched({}, script)  # type: ignore[method-assign]


def metrics(service: Service) -> str:
    with urllib.request.urlopen(f"{service.server.url}/metrics", timeout=PATIENCE_SECONDS) as answer:
        return str(answer.read(), "utf-8")


def test_an_alert_reaches_people_and_they_answer(service: Service, oncall: Receiver, tmp_path: Path) -> None:
    oncall.statuses = [500, 500]

    def monitor(*arguments: str) -> str:
        done = inside("alerts", *arguments, "--url", service.server.url, cwd=tmp_path)
        assert done.returncode == 0, done.stderr
        return done.stdout

    # A first webhook that fails twice.
    eventually(oncall.taken, shown=lambda: (service.status, monitor("list")))
    assert [status for status, _, _ in oncall.requests] == [500, 500, 200]
    state = 'calibration_alert_state{kind="calibration",model="churn",version="7"}'
    eventually(lambda: f"{state} 2.0" in metrics(service), shown=lambda: metrics(service))
    delivered = 'calibration_webhook_deliveries_total{result="delivered",webhook="oncall"} 1.0'
    eventually(lambda: delivered in metrics(service), shown=lambda: metrics(service))
    (alert,) = json.loads(monitor("list", "--json"))["alerts"]
    listed = monitor("list")
    assert alert["id"] in listed
    assert "10^7.2" in listed
    assert monitor("list", "--state", "pending") == "no alerts\n"
    # Muted for a second, it fires again by itself.
    assert "is acknowledged by anonymous until 20" in monitor("ack", alert["id"], "--assign-to", "ada", "--until", "1s")
    eventually(lambda: len(oncall.taken()) == 3, shown=lambda: monitor("show", alert["id"]))
    assert "firing by service: it was muted until now" in monitor("show", alert["id"])
    assert [part["commonAnnotations"]["assigned_to"] for part in oncall.taken()[1:]] == ["ada", "ada"]
    assert "is acknowledged by anonymous\n" in monitor("ack", alert["id"], "--note", "the join was fixed")
    shown = monitor("show", alert["id"])
    assert "churn 7 is too sure of itself" in shown
    assert "acknowledged by anonymous: the join was fixed" in shown
    assert "evidence    well past the alert line (160 x): 10^7.2, the line is 10^5.0" in shown
    assert json.loads(monitor("show", alert["id"], "--json"))["state"] == "acknowledged"
    eventually(lambda: f"{state} 3.0" in metrics(service))
    say(service, finding(0.1, settled_minute=1, raised_ms=None))
    eventually(lambda: len(oncall.taken()) == 5)
    assert [part["status"] for part in oncall.taken()] == [*["firing"] * 4, "resolved"]
    assert monitor("list") == "no alerts\n"
    assert alert["id"] in monitor("list", "--state", "all")
    # A refusal is bad use, and one line.
    refused = inside("alerts", "ack", alert["id"], "--url", service.server.url, cwd=tmp_path)
    assert (refused.returncode, f"{alert['id']} is resolved" in one_error_line(refused)) == (2, True)
    unknown = inside("alerts", "show", "al_17", "--url", service.server.url, cwd=tmp_path)
    assert (unknown.returncode, one_error_line(unknown)) == (2, "no alert is called 'al_17'")


def test_every_place_says_the_same_over_the_life_of_two_alerts(
    service: Service, oncall: Receiver, tmp_path: Path
) -> None:
    """Lists, /metrics and webhooks: whatever detectors speak, each change is one alert everywhere."""
    change: dict[str, Any] = {"kind": "change", "since_ms": finding(0.0).since_ms}
    ids: list[str] = []

    def alerts(*state: str) -> dict[str, dict[str, Any]]:
        done = inside("alerts", "list", "--json", "--state", "all", "--url", service.server.url, cwd=tmp_path)
        with urllib.request.urlopen(f"{service.server.url}/v1/alerts", timeout=PATIENCE_SECONDS) as answer:
            listed = json.load(answer)["alerts"]
        assert json.loads(done.stdout)["alerts"] == listed
        return {alert["id"]: alert for alert in listed if not state or alert["state"] in state}

    def exported() -> dict[str, float]:
        lines = re.findall(r'^calibration_alert_state\{kind="(\w+)",.*\} (.+)$', metrics(service), re.MULTILINE)
        return {kind: float(value) for kind, value in lines}

    def become(states: dict[str, str], numbers: dict[str, float], *findings: Finding) -> dict[str, dict[str, Any]]:
        """Say findings, until alerts have these states, by kind, and /metrics these numbers; return the open ones."""
        say(service, *findings)
        eventually(lambda: exported() == numbers, shown=exported)
        eventually(lambda: {one["kind"]: one["state"] for one in alerts("pending", *OPEN).values()} == states)
        return alerts(*OPEN)

    # The first of the fixture is over; from here on all is of this test.
    eventually(oncall.taken)
    become({}, {"calibration": 0.0}, finding(0.1, settled_minute=1, raised_ms=None))
    eventually(lambda: len(oncall.taken()) == 2)
    before = set(alerts())
    pending = finding(4.5, settled_minute=2, **change)
    become({"change": "pending"}, {"change": 1.0}, pending)
    at_ms = finding(0.0, settled_minute=3).settled_ms
    fires = finding(5.5, settled_minute=3, raised_ms=at_ms, **change)
    ids += become({"change": "firing"}, {"change": 2.0}, fires)
    # A second detector joins, and says more: it is the same alert, and nobody is paged again.
    worse = finding(6.0, settled_minute=4)
    joined = become(
        {"calibration": "firing"},
        {"calibration": 2.0, "change": 0.0},
        worse,
        replace(fires, settled_ms=worse.settled_ms),
    )
    assert [*joined] == ids
    assert [one["detector"] for one in joined[ids[0]]["witnesses"]] == ["calibration", "change"]
    assert inside("alerts", "ack", ids[0], "--url", service.server.url, cwd=tmp_path).returncode == 0
    become(
        {"calibration": "acknowledged"},
        {"calibration": 3.0, "change": 0.0},
        worse,
        replace(fires, settled_ms=worse.settled_ms),
    )
    # It stands, and outcomes change once more: that is another alert.
    over = finding(0.1, settled_minute=5, kind="change", raised_ms=None)
    become(
        {"calibration": "acknowledged"},
        {"calibration": 3.0, "change": 0.0},
        replace(worse, settled_ms=over.settled_ms),
        over,
    )
    eventually(lambda: [one["detector"] for one in alerts()[ids[0]]["witnesses"]] == ["calibration"])
    again = finding(7.0, settled_minute=8, kind="change", since_ms=over.settled_ms)
    both = become(
        {"calibration": "acknowledged", "change": "firing"},
        {"calibration": 3.0, "change": 2.0},
        replace(worse, settled_ms=again.settled_ms),
        again,
    )
    ids += [one for one in both if one not in ids]
    quiet = [finding(0.1, settled_minute=9, kind=kind, raised_ms=None) for kind in ("calibration", "change")]
    become({}, {"calibration": 0.0, "change": 0.0}, *quiet)
    assert set(alerts("resolved")) == before | set(ids)
    eventually(lambda: len(oncall.taken()) == 7)
    sent = [(part["commonLabels"]["alert"], part["status"]) for part in oncall.taken()[2:]]
    first, second = ids
    # Firing, acknowledged, and resolved.
    assert sent[:3] == [(first, "firing"), (first, "firing"), (second, "firing")]
    assert sorted(sent[3:]) == sorted([(first, "resolved"), (second, "resolved")])
