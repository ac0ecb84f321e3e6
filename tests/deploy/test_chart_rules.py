"""Alert rules, scrapes and dashboards as the chart hands them to the operators."""

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.deploy.chart import CHART, every, of_file, of_values, only
from tests.real.promtool import check_rules

FILES = sorted((CHART / "rules").glob("*.yaml"))
ON_WINDOWS = sorted((CHART / "rules" / "windows").glob("*.yaml"))


@pytest.mark.parametrize(("windows", "files"), [(False, FILES), (True, [*FILES, *ON_WINDOWS])])
def test_the_rules_are_those_of_the_files(windows: bool, files: list[Path]) -> None:
    assert ON_WINDOWS
    written = [group for file in files for group in yaml.safe_load(file.read_text(encoding="utf-8"))["groups"]]
    values = {"rules": {"enabled": True, "windows": windows}}
    assert only(of_values(values), "PrometheusRule")["spec"]["groups"] == written


def test_prometheus_accepts_the_rules(tmp_path: Path) -> None:
    for name in ("production", "hostile"):
        file = tmp_path / f"{name}.yaml"
        spec = only(of_file(name), "PrometheusRule")["spec"]
        file.write_text(yaml.safe_dump(spec), encoding="utf-8")
        done = check_rules(file)
        assert done.returncode == 0, done.stdout + done.stderr
        assert f"SUCCESS: {sum(len(group['rules']) for group in spec['groups'])} rules found" in done.stdout


def test_every_alert_has_the_runbook_and_labels_of_the_values() -> None:
    base = "https://git.example.org/ml/calibration-monitor/blob/main/"
    rendered = only(of_file("production"), "PrometheusRule")
    assert rendered["metadata"]["labels"]["release"] == "prometheus"
    for name, alert in _alerts(rendered).items():
        assert alert["annotations"]["runbook_url"] == f"{base}docs/runbooks/{name}.md"
        assert alert["labels"]["team"] == "ml-platform"
        assert alert["labels"]["severity"]


def test_overrides_change_what_they_name_and_nothing_else() -> None:
    before = _alerts(only(of_values({"rules": {"enabled": True}}), "PrometheusRule"))
    changed, gone, kept = sorted(before)[:3]
    override = {"for": "17m", "severity": "ticket", "expr": 'up{job="x"} == 0'}
    overrides = {changed: override, gone: {"disabled": True}, kept: {"disabled": False}}
    after = _alerts(only(of_values({"rules": {"enabled": True, "overrides": overrides}}), "PrometheusRule"))
    assert set(before) - set(after) == {gone}
    assert {name: rule for name, rule in after.items() if name != changed} == {
        name: rule for name, rule in before.items() if name not in {changed, gone}
    }
    assert after[changed] == {
        **before[changed],
        "for": "17m",
        "expr": override["expr"],
        "labels": {**before[changed]["labels"], "severity": "ticket"},
    }


def test_prometheus_scrapes_with_a_key_and_by_the_name_that_the_rules_know() -> None:
    objects = of_file("production")
    scrape = only(objects, "ServiceMonitor")
    (endpoint,) = scrape["spec"]["endpoints"]
    assert endpoint["authorization"] == {
        "type": "Bearer",
        "credentials": {"name": "calibration-scrape", "key": "api-key"},
    }
    assert endpoint["relabelings"] == [
        {"targetLabel": "job", "replacement": "calibration-monitor", "action": "replace"}
    ]
    assert scrape["metadata"]["labels"]["release"] == "prometheus"
    # One Service, so that no pod is scraped twice; and the one that also has pods that are not ready.
    wanted = scrape["spec"]["selector"]["matchLabels"].items()
    (service,) = (each for each in every(objects, "Service") if wanted <= each["metadata"]["labels"].items())
    assert service["spec"]["clusterIP"] == "None"
    assert service["spec"]["publishNotReadyAddresses"] is True
    assert service["spec"]["ports"][0]["name"] == endpoint["port"]


def test_every_dashboard_is_where_grafana_looks() -> None:
    files = sorted((CHART / "dashboards").glob("*.json"))
    assert files
    found = [
        each
        for each in every(of_file("production"), "ConfigMap")
        if each["metadata"]["labels"].get("grafana_dashboard") == "1"
    ]
    shown = {key: json.loads(text) for each in found for key, text in each["data"].items()}
    assert shown == {f"calibration-monitor-{file.name}": json.loads(file.read_text(encoding="utf-8")) for file in files}
    for each in found:
        assert each["metadata"]["annotations"]["grafana_folder"] == "Calibration"
        # Of all annotations and data, Kubernetes keeps so much.
        assert len(json.dumps(each)) < 1_000_000


def _alerts(rule: dict[str, Any]) -> dict[str, dict[str, Any]]:
    return {each["alert"]: each for group in rule["spec"]["groups"] for each in group["rules"] if "alert" in each}
