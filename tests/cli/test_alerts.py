"""`monitor alerts` against an API over a socket, with alerts that were made of streams."""

import os
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from unittest import mock

import pytest

from monitor.clock import SimulatedTime
from monitor.http.server import ApiServer
from monitor.store.alert import Alert
from tests.alarms.findings import NOW_MS, advanced
from tests.alarms.receiver import receiver
from tests.alarms.streams import stream
from tests.alarms.test_attribution import moved
from tests.cli.command import inside, one_error_line
from tests.http.test_alerts import Alerts


@pytest.fixture(scope="module")
def alert_and_url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Alert, str]]:
    drawn = stream(
        moved(offset=0.8, segment="region=eu"),
        of={"region=eu": 20, "region=jp": 30, "region=us": 60},
        lines={"calibration": 1e5},
    )
    found = drawn.explain()[0]["calibration"]
    with closing(Alerts(tmp_path_factory.mktemp("alerts"))) as service, ApiServer(service.app()) as server:
        alert = service.step(None, advanced(None, replace(found, log10_evidence=7.24), NOW_MS))
        yield alert, server.url


def lines_of(*arguments: str, folder: Path) -> list[str]:
    """What a command prints; no line is longer than a terminal is wide, and none is cut."""
    with mock.patch.dict(os.environ, {"COLUMNS": "80"}):
        done = inside("alerts", *arguments, cwd=folder)
    assert (done.returncode, done.stderr) == (0, "")
    assert "\N{HORIZONTAL ELLIPSIS}" not in done.stdout
    lines = [line.rstrip() for line in done.stdout.splitlines()]
    assert max(map(len, lines)) <= 80
    return [line for line in lines if line]


def test_a_list_says_what_is_wrong(alert_and_url: tuple[Alert, str], tmp_path: Path) -> None:
    alert, url = alert_and_url
    assert lines_of("list", "--url", url, folder=tmp_path) == [
        f"{alert.id}  firing        170 x          calibration of churn 7",
        "  Predictions of churn 7 for region=eu are too low since 2026-09-21 16:45 UTC:",
        "  50% predicted, 64% came true. It has become 2.2 times as likely (in odds)",
        "  there as the model says. Adding 0.80 (0.70 to 0.90) to every logit there",
        "  repairs it.",
    ]
    assert lines_of("list", "--state", "resolved", "--url", url, folder=tmp_path) == ["no alerts"]


def test_the_clock_of_a_simulation_is_told_from_that_of_the_service(tmp_path: Path) -> None:
    simulated = SimulatedTime(NOW_MS, 1_793_304_000_000, 120.0)
    with closing(Alerts(tmp_path)) as service, ApiServer(service.app(simulation=lambda: simulated), port=0) as server:
        alert = service.fire()
        lines = lines_of("show", alert.id, "--url", server.url, folder=tmp_path)
    (clock,) = [line for line in lines if line.startswith("events are simulated, and theirs is ")]
    assert clock.endswith(" UTC; by the clock:")
    assert lines[lines.index(clock) + 1].endswith("UTC  firing by service")


def test_a_page_of_a_proxy_is_one_line(tmp_path: Path) -> None:
    with receiver() as proxy:
        proxy.page = b"<html>Log in</html>"
        done = inside("alerts", "ack", "al_1", "--url", proxy.url, cwd=tmp_path)
    path = f"{proxy.url}/v1/alerts/al_1/acknowledgement"
    assert one_error_line(done) == (
        f"POST {path} is answered 200 OK with text/html, which is no answer of the service: does a proxy or a log-in"
        " page answer in its place?"
    )
    assert done.returncode == 1


def test_one_alert_says_since_when_for_whom_and_what_to_do(alert_and_url: tuple[Alert, str], tmp_path: Path) -> None:
    alert, url = alert_and_url
    shown = lines_of("show", alert.id, "--url", url, folder=tmp_path)
    assert shown[0] == f"{alert.id}  firing        170 x          calibration of churn 7"
    assert shown[4:11] == [
        "evidence    well past the alert line (170 x): 10^7.2, the line is 10^5.0",
        "changed     2026-09-21 16:45 UTC; 2026-09-21 16:40 to 2026-09-21 16:51",
        "since then  3,000 predictions with an outcome of 3,000, in 2.5 h",
        "settled to  2026-09-21 19:15 UTC",
        f"explained   {url}/help/answers.html#label-prior_shift",
        "what to do",
        "  monitor recalibrate churn --version 7 --since 2026-09-21T16:45:00Z --wait",
    ]
    rows = [line.split() for line in shown]
    assert ["region=eu", "3,000", "10^6.5", *["0.80", "(0.70", "to", "0.90)", "0.97", "(0.88", "to", "1.07)"]] in rows
    assert ["from", "0.3", "343", "35.0%", "53.9%", "33.3%"] in rows
    assert shown[-1] == "2026-09-21 14:13 UTC  firing by service"
