"""The alert rules, checked and tested by the real promtool."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest
import yaml

from docs.generators.series import catalogue
from monitor.measures import MEASURES
from monitor.metrics.series import Level
from tests.real.promtool import check_rules, run_rule_tests

ROOT: Final = Path(__file__).parents[2]
FOLDER: Final = ROOT / "helm" / "rules"
RULES: Final = sorted(FOLDER.glob("*.yaml")) + sorted((FOLDER / "windows").glob("*.yaml"))
"""The usual ones, and the thresholds on windows, which are off unless they are asked for."""
CASES: Final = sorted((Path(__file__).parent / "rules").glob("*.yaml")) + sorted(
    (Path(__file__).parent / "rules" / "windows").glob("*.yaml")
)
USUAL: Final = (
    "CalibrationCapNearlyFull",
    "CalibrationChanged",
    "CalibrationCheckpointOld",
    "CalibrationConsumerLagging",
    "CalibrationDataStale",
    "CalibrationDeadLetters",
    "CalibrationDegraded",
    "CalibrationEvaluationFailing",
    "CalibrationEvidenceStale",
    "CalibrationIntervalsOutdated",
    "CalibrationLabelCoverageLow",
    "CalibrationMapHarmful",
    "CalibrationMonitorDown",
    "CalibrationPartitionUnread",
    "CalibrationPrevalenceShifted",
    "CalibrationRefitFailed",
    "CalibrationSettledEdgeStuck",
    "CalibrationShockNotCovered",
)
ON_WINDOWS: Final = ("CalibrationWindowAbovePrevalenceThreshold", "CalibrationWindowAboveShapeThreshold")
ALERTS: Final = USUAL + ON_WINDOWS
HEADINGS: Final = ["Meaning", "Impact", "Diagnosis", "Mitigation"]
# What Prometheus itself gives every target.
GIVEN: Final = {"up": set[str](), "ALERTS": {"alertname", "alertstate", "severity"}}
TARGET: Final = {"job", "instance", "namespace"}

SERIES: Final = {each.name: set(each.labels) for each in catalogue(MEASURES.values())} | GIVEN


def read(path: Path) -> dict[str, Any]:
    document: dict[str, Any] = yaml.safe_load(path.read_text(encoding="utf-8"))
    return document


def rules(path: Path) -> Iterator[dict[str, Any]]:
    for group in read(path)["groups"]:
        yield from group["rules"]


def alert(name: str) -> dict[str, Any]:
    (path,) = [path for path in RULES if path.stem == name]
    (found,) = rules(path)
    return found


RECORDING: Final = {each["record"]: each for path in RULES if path.stem == "recording" for each in rules(path)}
RECORDED: Final = set(RECORDING)


def names(text: str) -> set[str]:
    """The series that an expression, or a template with queries, names."""
    without_values = re.sub(r'"[^"]*"', "", text) if "{{" not in text else text
    return set(re.findall(r"\b(?:calibration[_:][a-z0-9_:]+|process_[a-z_]+|up(?=\{))", without_values))


def test_every_alert_has_a_file_of_its_own_and_a_file_of_cases() -> None:
    assert [path.stem for path in RULES] == [*USUAL, "recording", *ON_WINDOWS, "recording"]
    assert [path.stem for path in CASES] == list(ALERTS)
    for name in ALERTS:
        assert alert(name)["alert"] == name


@pytest.mark.timeout(1800)  # the first time, promtool has to be fetched
def test_promtool_accepts_all_rules_together() -> None:
    done = check_rules(*RULES)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "duplicate" not in done.stdout


@pytest.mark.parametrize("path", CASES, ids=lambda path: path.stem)
def test_cases(path: Path) -> None:
    done = run_rule_tests(path)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "SUCCESS" in done.stdout


def test_promtool_would_say_that_a_case_fails(tmp_path: Path) -> None:
    cases = read(ROOT / "tests" / "deploy" / "rules" / "CalibrationMonitorDown.yaml")
    cases["rule_files"] = [str((CASES[0].parent / path).resolve()) for path in cases["rule_files"]]
    cases["tests"] = [case | {"input_series": []} for case in cases["tests"][:1]]
    changed = tmp_path / "changed.yaml"
    changed.write_text(yaml.safe_dump(cases), encoding="utf-8")
    done = run_rule_tests(changed)
    assert done.returncode != 0
    assert "FAILED" in done.stdout + done.stderr


@pytest.mark.parametrize("name", ALERTS)
def test_every_alert_fires_in_one_case_and_not_in_another(name: str) -> None:
    (path,) = [path for path in CASES if path.stem == name]
    document = read(path)
    looks = [look for case in document["tests"] for look in case.get("alert_rule_test", [])]
    assert {look["alertname"] for look in looks} == {name}
    # What it says is compared to the letter.
    assert any(each["exp_annotations"]["description"] for look in looks for each in look["exp_alerts"])
    quiet = [
        case["name"]
        for case in document["tests"]
        if all(not look["exp_alerts"] for look in case.get("alert_rule_test", [])) and "promql_expr_test" not in case
    ]
    assert len(quiet) >= 2
    told = " ".join(case["name"] for case in document["tests"])
    assert "restart" in told or name == "CalibrationMonitorDown"
    assert any("replica" in word or "instance" in word for word in told.split())
    assert any(not case.get("input_series") for case in document["tests"]), "no case without any series"


@pytest.mark.parametrize("name", ALERTS)
def test_every_alert_says_how_grave_it_is_how_long_it_waits_and_what_to_do(name: str) -> None:
    found = alert(name)
    assert found["labels"]["severity"] in {"critical", "warning", "info"}
    assert re.fullmatch(r"\d+m", found["for"])
    assert re.fullmatch(r"\d+m", found["keep_firing_for"])
    told = found["annotations"]
    assert set(told) == {"summary", "description", "runbook_url"}
    # Where the expression keeps what it is about, the text names it by the label; elsewhere in words.
    for about in ("model", "version", "segment", "window"):
        assert about in told["description"]
    by = re.findall(r"(?:max|sum) by \(([a-z, ]+)\)", found["expr"])
    for about in {"model", "version", "segment", "window"} & set(", ".join(by[:1]).split(", ")):
        assert f"$labels.{about}" in told["description"]
    assert "$value" in told["description"] or "query" in told["description"]
    assert told["runbook_url"] == f"docs/runbooks/{name}.md"


@pytest.mark.parametrize("name", ALERTS)
def test_every_runbook_has_its_four_parts(name: str) -> None:
    page = (ROOT / alert(name)["annotations"]["runbook_url"]).read_text(encoding="utf-8")
    assert page.startswith(f"# {name}\n")
    assert re.findall(r"^## (.+)$", page, re.MULTILINE) == HEADINGS
    assert "```" in page.partition("## Diagnosis")[2].partition("## Mitigation")[0]
    found = alert(name)
    assert f"`{found['labels']['severity']}`" in page
    # What it asks Prometheus is there.
    for series in names(" ".join(re.findall(r"`([^`]+)`", page))) | names(page):
        assert series in SERIES or series in RECORDED, series


def test_every_runbook_belongs_to_an_alert_and_the_page_of_alerts_links_them_all() -> None:
    assert {path.stem for path in (ROOT / "docs" / "runbooks").glob("*.md")} == set(ALERTS)
    page = (ROOT / "docs" / "alerts.md").read_text(encoding="utf-8")
    for name in ALERTS:
        found = alert(name)
        (row,) = re.findall(rf"^\| \[{name}\]\(runbooks/{name}\.md\) \|.*$", page, re.MULTILINE)
        assert f"| {found['labels']['severity']} | {found['for']} | {found['keep_firing_for']} |" in row


@pytest.mark.parametrize("path", RULES, ids=lambda path: path.stem)
def test_every_series_that_a_rule_names_is_exported(path: Path) -> None:
    for rule in rules(path):
        named = names(rule["expr"])
        assert named
        for text in rule.get("annotations", {}).values():
            named |= names(text)
        assert named <= SERIES.keys() | RECORDED, named - SERIES.keys() - RECORDED


@pytest.mark.parametrize("path", RULES, ids=lambda path: path.stem)
def test_every_series_that_a_rule_names_is_exported_at_every_level(path: Path) -> None:
    """Alerts must not depend on how much of each window /metrics says."""
    of_values = {each.name for each in catalogue(MEASURES.values()) if each.level is Level.VALUES}
    for rule in rules(path):
        for text in (rule["expr"], *rule.get("annotations", {}).values()):
            assert names(text) <= of_values | GIVEN.keys() | RECORDED


@pytest.mark.parametrize("path", CASES, ids=lambda path: path.stem)
def test_the_series_of_the_cases_are_those_that_are_exported(path: Path) -> None:
    seen = set()
    for case in read(path)["tests"]:
        for series in case.get("input_series", []):
            name, _, labels = series["series"].partition("{")
            found = set(re.findall(r'(\w+)="', labels))
            assert found - TARGET == SERIES[name], series
            seen.add(name)
    # And what the alert asks, directly or by a recording rule, is in some case.
    asked = names(alert(path.stem)["expr"])
    recorded = {name: names(each["expr"]) for name, each in RECORDING.items()}
    while any(name in recorded for name in asked):
        asked = {part for name in asked for part in recorded.get(name, {name})}
    assert asked <= seen, asked - seen


def test_no_recording_rule_is_for_nothing() -> None:
    asked = {name for path in RULES for rule in rules(path) for name in names(rule["expr"])}
    dashboards = " ".join(path.read_text() for path in (ROOT / "helm" / "dashboards").glob("*.json"))
    assert {name for name in RECORDED if name not in asked and name not in dashboards} == set()
