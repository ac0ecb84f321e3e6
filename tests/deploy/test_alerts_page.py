"""The examples of docs/alerts.md are what they claim to be, and so are the settings of compose's Alertmanager."""

import json
import re
import subprocess
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest
import yaml

from monitor.app.settings import Settings
from tests.deploy.chart import of_values, only
from tests.patience import PATIENCE_SECONDS, eventually
from tests.real.debian import AMTOOL, program
from tests.real.prometheus import Alertmanager
from tests.real.promtool import check_rules

pytestmark = pytest.mark.timeout(1800)  # the first time, the programs may have to be fetched or built

PAGE: Final = Path(__file__).parents[2] / "docs" / "alerts.md"
RULES: Final = Path(__file__).parents[2] / "helm" / "rules"
BLOCKS: Final[list[dict[str, Any]]] = [
    yaml.safe_load(block)
    for block in re.findall(r"^```yaml\n(.*?)^```", PAGE.read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE)
]
WEBHOOKS, VALUES, ALERTMANAGER = BLOCKS
OF_COMPOSE: Final[dict[str, Any]] = yaml.safe_load(
    (PAGE.parents[1] / "deploy" / "alertmanager" / "alertmanager.yml").read_text(encoding="utf-8")
)


def test_the_example_of_webhooks_is_valid() -> None:
    (webhook,) = Settings.model_validate(WEBHOOKS).alerts.webhooks.values()
    assert webhook.url == "https://alerts.example.com/calibration"


def test_the_example_of_overrides_changes_what_it_names(tmp_path: Path) -> None:
    rendered = only(of_values(VALUES), "PrometheusRule")["spec"]
    path = tmp_path / "rules.yaml"
    path.write_text(yaml.safe_dump(rendered), encoding="utf-8")
    done = check_rules(path)
    assert done.returncode == 0, done.stdout + done.stderr
    found = {rule["alert"]: rule for group in rendered["groups"] for rule in group["rules"] if "alert" in rule}
    assert len(found) == 17
    assert "CalibrationRefitFailed" not in found
    assert (found["CalibrationDegraded"]["for"], found["CalibrationDegraded"]["labels"]["severity"]) == (
        "1h",
        "warning",
    )
    assert found["CalibrationDataStale"]["for"] == "15m"
    low = found["CalibrationLabelCoverageLow"]
    assert low["expr"] == VALUES["rules"]["overrides"]["CalibrationLabelCoverageLow"]["expr"]
    base = VALUES["rules"]["runbookBase"]
    assert low["annotations"]["runbook_url"] == f"{base}docs/runbooks/CalibrationLabelCoverageLow.md"


def test_the_example_that_leaves_a_model_out_is_the_rule_itself_but_for_that_model() -> None:
    name = "CalibrationLabelCoverageLow"
    (group,) = yaml.safe_load((RULES / f"{name}.yaml").read_text(encoding="utf-8"))["groups"]
    (rule,) = group["rules"]
    example = VALUES["rules"]["overrides"][name]["expr"]
    left_out = ',model!="reviewed"}'
    assert example.replace(left_out, "}") == rule["expr"]
    # It is left out of every series that is asked.
    asked = re.findall(r"\bcalibration[_:][a-z_:]+", example)
    assert asked
    assert example.count(left_out) == len(asked)


@pytest.fixture(scope="module")
def alertmanager_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("alertmanager") / "alertmanager.yml"
    path.write_text(yaml.safe_dump(ALERTMANAGER, sort_keys=False), encoding="utf-8")
    return path


def amtool(*arguments: str | Path) -> str:
    done = subprocess.run(
        [program(AMTOOL), *arguments], capture_output=True, text=True, check=False, timeout=PATIENCE_SECONDS
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_amtool_accepts_the_example_of_alertmanager(alertmanager_file: Path) -> None:
    told = amtool("check-config", alertmanager_file)
    assert "SUCCESS" in told
    assert "2 receivers" in told
    assert "5 inhibit rules" in told


@pytest.mark.parametrize(
    ("labels", "receiver"),
    [
        (("alertname=CalibrationDegraded", "severity=critical"), "pager"),
        (("alertname=CalibrationDeadLetters", "severity=warning"), "tickets"),
        (("alertname=SomethingElse", "severity=critical"), "tickets"),
    ],
)
def test_the_example_sends_each_to_whom_it_says(
    alertmanager_file: Path, labels: tuple[str, ...], receiver: str
) -> None:
    told = amtool("config", "routes", "test", f"--config.file={alertmanager_file}", *labels)
    assert told.strip() == receiver


# ---------------------------------------------------------------------- what is muted, and what is not

DOWN: Final = "CalibrationMonitorDown"
Alert = tuple[str, dict[str, str]]
BLUE: Final = {"namespace": "ml", "service": "blue", "job": "calibration-monitor"}
GREEN: Final = BLUE | {"service": "green"}
ELSEWHERE: Final = BLUE | {"namespace": "shop"}
PLAIN: Final = {"job": "calibration-monitor"}
"""Of a scrape that gives neither namespace nor service."""
CHURN: Final = {"model": "churn", "version": "1"}
FRAUD: Final = {"model": "fraud", "version": "1"}
OF_AN_INSTANCE: Final = ("CalibrationCheckpointOld", "CalibrationEvaluationFailing")
OF_A_RELEASE: Final = (
    "CalibrationDataStale",
    "CalibrationConsumerLagging",
    "CalibrationEvidenceStale",
    "CalibrationLabelCoverageLow",
    "CalibrationPartitionUnread",
    "CalibrationSettledEdgeStuck",
)
SHIFTED: Final = "CalibrationPrevalenceShifted"
CHANGED: Final = "CalibrationChanged"

NOTHING_READS: Final[list[Alert]] = [(DOWN, BLUE), (DOWN, PLAIN)]
ONE_IS_DOWN: Final[list[Alert]] = [(DOWN, GREEN | {"instance": "a"})]
MUTED: Final[list[Alert]] = [
    *((name, release | {"instance": "a"}) for name in (*OF_AN_INSTANCE, DOWN) for release in (BLUE, PLAIN)),
    *((name, release) for name in OF_A_RELEASE for release in (BLUE, PLAIN)),
    *((name, GREEN | {"instance": "a"}) for name in OF_AN_INSTANCE),
    # What is wrong with a model mutes the less that is wrong with it, of the same version and release.
    (SHIFTED, BLUE | CHURN),
    (CHANGED, BLUE | CHURN),
    (CHANGED, BLUE | FRAUD),
]
TOLD: Final[list[Alert]] = [
    *((name, GREEN | {"instance": "b"}) for name in OF_AN_INSTANCE),
    *((name, GREEN) for name in OF_A_RELEASE),
    *((name, ELSEWHERE | {"instance": "a"}) for name in OF_AN_INSTANCE),
    *((name, ELSEWHERE) for name in OF_A_RELEASE),
    (DOWN, ELSEWHERE | {"instance": "c"}),
    ("CalibrationDegraded", BLUE | CHURN),
    *((SHIFTED, labels) for labels in (BLUE | FRAUD, GREEN | CHURN | {"version": "2"}, ELSEWHERE | CHURN)),
    *((CHANGED, labels) for labels in (GREEN | CHURN, BLUE | CHURN | {"version": "2"})),
    ("CalibrationDeadLetters", BLUE),
]


@pytest.fixture(scope="module", params=["page", "compose"])
def running(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Alertmanager]:
    """An Alertmanager with the settings of the page, or of compose, whose receivers send nothing anywhere."""
    settings = {"page": ALERTMANAGER, "compose": OF_COMPOSE}[request.param]
    quiet = settings | {"receivers": [{"name": each["name"]} for each in settings["receivers"]]}
    with Alertmanager(tmp_path_factory.mktemp(request.param), settings=quiet) as found:
        yield found


def fire(alertmanager: Alertmanager, alerts: list[Alert]) -> None:
    """Tell an Alertmanager of alerts, as Prometheus does."""
    body = json.dumps([{"labels": labels | {"alertname": name}} for name, labels in alerts]).encode()
    asked = urllib.request.Request(
        f"{alertmanager.url}/api/v2/alerts", data=body, headers={"content-type": "application/json"}
    )
    with urllib.request.urlopen(asked, timeout=PATIENCE_SECONDS) as answer:
        assert answer.status == 200


def muted(alertmanager: Alertmanager) -> list[dict[str, str]]:
    """The labels of the alerts that it tells nobody of."""
    return [alert["labels"] for alert in alertmanager.alerts() if alert["status"]["state"] == "suppressed"]


def shown(alerts: list[Alert]) -> list[list[tuple[str, str]]]:
    return in_order([labels | {"alertname": name} for name, labels in alerts])


def in_order(found: list[dict[str, str]]) -> list[list[tuple[str, str]]]:
    return sorted(sorted(labels.items()) for labels in found)


def test_what_is_down_or_at_fault_mutes_what_follows_from_it_and_nothing_else(running: Alertmanager) -> None:
    everything = NOTHING_READS + ONE_IS_DOWN + MUTED + TOLD
    fire(running, everything)
    # Each that mutes, mutes one of these: so once they are muted, it was heeded.
    eventually(lambda: len(muted(running)) >= len(MUTED), shown=lambda: muted(running))
    assert in_order([alert["labels"] for alert in running.alerts()]) == shown(everything)
    assert in_order(muted(running)) == shown(MUTED)


def test_compose_mutes_what_the_page_mutes() -> None:
    assert OF_COMPOSE["inhibit_rules"] == ALERTMANAGER["inhibit_rules"]
