"""From the demonstration's events to a pager: the service, Prometheus, Alertmanager and a webhook, all real."""

import json
import re
import shlex
import subprocess
import sys
import urllib.request
from datetime import datetime
from typing import Any

import pytest

from tests.deploy.conftest import RULES, Demo
from tests.patience import PATIENCE_SECONDS, eventually
from tests.real.prometheus import Alertmanager, Prometheus, Webhook
from tests.real.promtool import check_metrics

pytestmark = pytest.mark.timeout(1800)  # the first time, the programs may have to be fetched or built

DEGRADED = "CalibrationDegraded"


def about(alerts: list[dict[str, Any]], model: str) -> list[dict[str, Any]]:
    return [alert for alert in alerts if alert["labels"].get("model") == model]


def models(prometheus: Prometheus, expression: str) -> set[str]:
    """The models in the answer to a query."""
    return {sample.labels["model"] for sample in prometheus.query(f"count by (model) ({expression})")}


def test_the_overconfident_model_reaches_the_pager_and_the_calibrated_one_does_not(
    prometheus: Prometheus, alertmanager: Alertmanager, webhook: Webhook
) -> None:
    alert = eventually(lambda: about(webhook.alerts(DEGRADED), "overconfident"), shown=webhook.alerts)[0]
    assert alert["status"] == "firing"
    labels = alert["labels"]
    assert labels.items() >= {"version": "1", "severity": "critical"}.items()
    assert labels.keys().isdisjoint({"segment", "window", "label"})  # one alert, whatever it says by and by
    assert "instance" not in labels  # whichever replica says it, it is one alert
    text = alert["annotations"]["description"]
    assert text.startswith("Model overconfident, version 1: its predictions are wrong, by evidence")
    assert re.search(r"What is wrong: (shape|both) \(segment \S+\) since 20", text), text
    assert "The slope of its logits is 0." in text
    assert alert["annotations"]["runbook_url"] == f"{RULES['runbookBase']}docs/runbooks/{DEGRADED}.md"
    assert {alert["labels"]["alertname"] for alert in alertmanager.alerts()} >= {DEGRADED}

    # Over the same time, there was evidence on the others: they are calibrated, or their prior is off. None of them
    # fired.
    prometheus.wait_for('count_over_time(calibration_evidence{model="calibrated",detector="calibration"}[5m]) > 5')
    degraded = f'ALERTS{{alertname="{DEGRADED}"}}'
    eventually(lambda: models(prometheus, degraded) == {"overconfident"}, shown=lambda: prometheus.query(degraded))
    fired = f'count_over_time(ALERTS{{alertname="{DEGRADED}",alertstate="firing"}}[5m])'
    assert models(prometheus, fired) == {"overconfident"}
    assert {alert["labels"]["model"] for alert in webhook.alerts(DEGRADED)} == {"overconfident"}


def test_rest_says_what_prometheus_says_and_how_it_came(demo: Demo, prometheus: Prometheus) -> None:
    def firing() -> set[str]:
        return {row["model"] for row in _get(demo, "evidence")["versions"] if row["firing"]}

    eventually(lambda: firing() == {"overconfident", "rare-event"}, shown=lambda: _get(demo, "evidence"))
    rows = {row["model"]: row for row in _get(demo, "evidence")["versions"]}
    assert len(rows) == 5

    # Several detectors speak, and each fault is one alert all the same, in every place.
    def open_alerts() -> list[dict[str, Any]]:
        return list(_get(demo, "alerts?state=open")["alerts"])

    eventually(lambda: all(len(alert["witnesses"]) > 1 for alert in open_alerts()), shown=open_alerts)
    assert sorted(alert["model"] for alert in open_alerts()) == ["overconfident", "rare-event"]
    eventually(
        lambda: (
            {
                one.labels["model"]: one.value
                for one in prometheus.query("count by (model) (calibration_alert_state >= 2)")
            }
            == {"overconfident": 1, "rare-event": 1}
        )
    )
    # As of the time when they were last saved, it was at its line, and the others below.
    eventually(lambda: max(_known(_get(demo, "evidence"), "overconfident")) >= 0, shown=lambda: _get(demo, "evidence"))
    assert max(_known(_get(demo, "evidence"), "calibrated")) < 0
    (version,) = _get(demo, "models/overconfident/evidence?from=0")["versions"]
    past = version["history"]["detectors"]["calibration"]
    assert past["firing"][0] is False
    assert past["firing"][-1] is True
    exported = prometheus.query('calibration_evidence_line{model="overconfident",detector="calibration"}')
    assert {sample.value for sample in exported} == {version["detectors"][0]["log10_line"]}


def _known(body: dict[str, Any], model: str) -> list[float]:
    (row,) = [row for row in body["versions"] if row["model"] == model]
    return [value for value in row["above_line"] if value is not None]


def test_the_models_that_drift_otherwise_are_told_apart(prometheus: Prometheus) -> None:
    shifted = 'ALERTS{alertname="CalibrationPrevalenceShifted"}'
    prometheus.wait_for(f'{shifted} and on (model) calibration_alert_offset_logit{{model="rare-event"}} > 0')
    eventually(lambda: models(prometheus, shifted) == {"rare-event"}, shown=lambda: prometheus.query(shifted))
    # Both began when their change point says: not before the events of the demonstration.
    change = 'min by (model) (calibration_change_point_timestamp_seconds{detector="calibration"})'
    since = {sample.labels["model"] for sample in prometheus.query(f"{change} > 0")}
    assert since <= {"overconfident", "rare-event"}


def test_nothing_else_is_alerted_of_a_service_that_is_well(prometheus: Prometheus) -> None:
    """Not even pending, once the service has read what was there when it started."""
    # What is wrong has changed, too; and a drift counts as a common shock.
    expected = {DEGRADED, "CalibrationPrevalenceShifted", "CalibrationChanged", "CalibrationShockNotCovered"}

    def alerted() -> set[str]:
        return {sample.labels["alertname"] for sample in prometheus.query("count by (alertname) (ALERTS)")}

    prometheus.wait_for('up{job="calibration-monitor"} == 1 and on () calibration:records_read:rate5m > 0')
    eventually(lambda: alerted() <= expected, shown=alerted)
    fired = prometheus.query('count by (alertname) (count_over_time(ALERTS{alertstate="firing"}[5m]))')
    assert {sample.labels["alertname"] for sample in fired} <= expected
    # Of the calibrated models nothing ever was: neither in Prometheus nor in the service.
    assert models(prometheus, 'count_over_time(ALERTS{model!=""}[5m])') <= {"overconfident", "rare-event"}
    assert models(prometheus, "max_over_time(calibration_alert_state[5m]) > 1") <= {"overconfident", "rare-event"}


def test_the_rules_are_the_charts_with_what_its_values_change(prometheus: Prometheus) -> None:
    rules = {rule["name"]: rule for group in prometheus.rules() for rule in group["rules"]}
    assert "CalibrationRefitFailed" not in rules
    assert rules[DEGRADED]["duration"] == 3
    assert rules["CalibrationPrevalenceShifted"]["duration"] == 5 * 60
    assert {rule["name"]: rule.get("lastError") for rule in rules.values() if rule["health"] == "err"} == {}


def test_promtool_finds_nothing_to_say_about_what_the_running_service_exports(
    demo: Demo, prometheus: Prometheus
) -> None:
    prometheus.wait_for("calibration_bin_labelled and on () calibration_http_requests_total")
    with urllib.request.urlopen(f"{demo.url}/metrics", timeout=PATIENCE_SECONDS) as answer:
        exposition = answer.read()
    done = check_metrics(exposition)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    # Also of what only a service that runs has.
    for series in ("calibration_bin_labelled", "calibration_cohort_labelled", "calibration_http_requests_total"):
        assert f"\n{series}{{".encode() in exposition


def test_the_pager_is_told_that_it_is_over_once_a_map_serves(
    demo: Demo, prometheus: Prometheus, webhook: Webhook
) -> None:
    """The last test here: it repairs the model, by the command that its alert shows."""
    prometheus.wait_for(f'ALERTS{{alertname="{DEGRADED}",alertstate="firing",model="overconfident"}}')
    (alert,) = _get(demo, "alerts?state=open&model=overconfident&kind=calibration")["alerts"]
    command = shlex.split(_get(demo, f"alerts/{alert['id']}")["document"]["remedy"]["command"])
    assert command[:3] == ["monitor", "recalibrate", "overconfident"]
    assert command[-1] == "--wait"
    more = ["--method", "temperature", "--promote", "--url", demo.url]
    done = subprocess.run(
        [sys.executable, "-m", *command, *more], capture_output=True, text=True, timeout=PATIENCE_SECONDS, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    (alert,) = _get(demo, "alerts?model=overconfident&kind=calibration&state=resolved")["alerts"]
    assert alert["resolved_because"] == "promoted"

    def resolved() -> list[dict[str, Any]]:
        ended = [one for one in about(webhook.alerts(DEGRADED), "overconfident") if one["status"] == "resolved"]
        return [one for one in ended if datetime.fromisoformat(one["endsAt"]) > promoted]

    promoted = datetime.fromisoformat(alert["resolved_at"])
    # As the same alert that fired.
    (fired, *_), (over, *_) = webhook.alerts(DEGRADED), eventually(resolved, shown=lambda: webhook.alerts(DEGRADED))
    assert (over["labels"], over["fingerprint"]) == (fired["labels"], fired["fingerprint"])
    assert not prometheus.query(f'ALERTS{{alertname="{DEGRADED}",alertstate="firing",model="overconfident"}}')


def _get(demo: Demo, path: str) -> dict[str, Any]:
    with urllib.request.urlopen(f"{demo.url}/v1/{path}", timeout=PATIENCE_SECONDS) as answer:
        body: dict[str, Any] = json.load(answer)
        return body
