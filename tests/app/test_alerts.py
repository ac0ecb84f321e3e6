"""Alerts in the service as a whole: raised, exported, delivered, and handled from the command line."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from monitor.app.service import Service
from tests.alarms.findings import finding
from tests.alarms.receiver import Receiver, receiver
from tests.app.alert_service import metrics, say, service_of_alerts
from tests.cli.command import inside, one_error_line
from tests.patience import eventually


@pytest.fixture
def oncall() -> Iterator[Receiver]:
    with receiver() as server:
        yield server


@pytest.fixture
def service(tmp_path: Path, patient: None, oncall: Receiver) -> Iterator[Service]:
    with service_of_alerts(tmp_path, oncall.url) as made:
        yield made


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
    assert "160 x" in listed
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
