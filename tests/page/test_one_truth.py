"""One truth: whoever looks, wherever, sees the same alerts in the same states."""

import json
import re
import urllib.request
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import httpx
import pytest
from playwright.sync_api import Page, expect

from monitor.app.service import Service
from monitor.events.encode import encode_labelled
from monitor.store.alert import OPEN, Finding
from tests.alarms.findings import finding
from tests.alarms.receiver import Receiver, receiver
from tests.app.alert_service import START_MS, metrics, running, say, service_of_alerts, settings_of
from tests.cli.command import inside
from tests.patience import PATIENCE_SECONDS, eventually

KINDS: Final = {"calibration": "Predictions are wrong", "change": "Outcomes have changed"}


@pytest.fixture
def oncall() -> Iterator[Receiver]:
    with receiver() as server:
        yield server


@pytest.fixture
def service(tmp_path: Path, oncall: Receiver) -> Iterator[Service]:
    with service_of_alerts(tmp_path, oncall.url) as made:
        yield made


def test_every_place_says_the_same_over_the_life_of_two_alerts(
    service: Service, oncall: Receiver, page: Page, tmp_path: Path
) -> None:
    """The page, REST, the command line, /metrics and webhooks: whatever detectors speak, a change is one alert."""
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

    def shown_on_the_page(states: dict[str, str]) -> None:
        """The list of open alerts, the navigation and the page of the model say the same."""
        page.goto(f"{service.server.url}/alerts?state=open")
        seen = {KINDS[kind]: state for kind, state in states.items() if state != "pending"}
        rows = page.locator("tbody tr")
        expect(rows).to_have_count(len(seen))
        for what, state in seen.items():
            expect(rows.filter(has=page.get_by_role("link", name=what)).locator(".pill")).to_contain_text(state)
        expect(page.get_by_title("open alerts")).to_have_text([str(len(seen))] if seen else [])
        page.goto(f"{service.server.url}/models/churn")
        of_model = page.locator("h1 + .pill")
        if states:
            # Of several the one that nobody has leads.
            expect(of_model).to_contain_text(min(states.values(), key=["firing", "acknowledged", "pending"].index))
        else:
            expect(of_model).not_to_have_text(re.compile("firing|acknowledged|pending"))

    def become(states: dict[str, str], numbers: dict[str, float], *findings: Finding) -> dict[str, dict[str, Any]]:
        """Say findings, until alerts have these states, by kind, and /metrics these numbers; return the open ones."""
        say(service, *findings)
        eventually(lambda: exported() == numbers, shown=exported)
        eventually(lambda: {one["kind"]: one["state"] for one in alerts("pending", *OPEN).values()} == states)
        shown_on_the_page(states)
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


def test_every_place_says_the_same_of_a_fleet_at_its_limit(page: Page, tmp_path: Path) -> None:
    """A model beyond the cap is nowhere, and everywhere it is said that and why its events are refused."""
    config = tmp_path / "monitor.yaml"
    tree = settings_of(tmp_path, caps={"models": 1})
    config.write_text(json.dumps(tree), encoding="utf-8")
    with running(tree, models=("churn", "fraud")) as service:
        url = service.server.url

        def read(path: str, **request: Any) -> tuple[int, dict[str, Any]]:
            answer = httpx.request(request.pop("method", "GET"), f"{url}/{path}", timeout=PATIENCE_SECONDS, **request)
            return answer.status_code, answer.json()

        eventually(
            lambda: read("v1/models")[1]["caps"] and read("v1/models")[1]["models"], shown=lambda: service.status
        )
        fleet = read("v1/models")[1]
        assert [model["model"] for model in fleet["models"]] == ["churn"]
        (cap,) = fleet["caps"]
        assert (cap["setting"], cap["used"], cap["limit"]) == ("caps.models", 1, 1)
        status, missing = read("v1/models/fraud/report")
        assert (status, missing["detail"]) == (404, "no model 'fraud'; models are 'churn'")
        # What is sent now is refused in the words of the dead letter of what was in the log.
        event = json.loads(encode_labelled("fraud", "late", START_MS, 0.3, 0))
        status, refused = read("v1/events", method="POST", json=[event])
        (error,) = refused["errors"]
        assert (status, refused["accepted"], error["reason"]) == (422, 0, "refused_model")
        page.goto(url)
        expect(page.locator("table.fleet tbody tr")).to_have_count(1)
        expect(page.locator("main")).to_contain_text(cap["warning"])
        page.goto(f"{url}/models/fraud")
        expect(page.locator("main")).to_contain_text("There is no model fraud")
        exported = metrics(service)
        assert 'calibration_cap_used_ratio{cap="models",model="",segment_key=""} 1.0' in exported
        assert 'calibration_events_total{result="refused",type="labelled"} 3601.0' in exported
        checked = inside("check", "--config", str(config), cwd=tmp_path).stdout
        assert cap["warning"] in checked
        letters = inside("dead-letters", "list", "--config", str(config), "--json", cwd=tmp_path).stdout
        assert error["detail"] in letters
