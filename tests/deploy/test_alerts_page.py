"""The examples of docs/alerts.md are what they claim to be."""

import re
import subprocess
from pathlib import Path
from typing import Any, Final

import pytest
import yaml

from tests.deploy.chart import of_values, only
from tests.patience import PATIENCE_SECONDS
from tests.real.debian import AMTOOL, program
from tests.real.promtool import check_rules

pytestmark = pytest.mark.timeout(1800)  # the first time, the programs may have to be fetched or built

PAGE: Final = Path(__file__).parents[2] / "docs" / "alerts.md"
BLOCKS: Final[list[dict[str, Any]]] = [
    yaml.safe_load(block)
    for block in re.findall(r"^```yaml\n(.*?)^```", PAGE.read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE)
]
VALUES, ALERTMANAGER = BLOCKS


def test_the_example_of_overrides_changes_what_it_names(tmp_path: Path) -> None:
    rendered = only(of_values(VALUES), "PrometheusRule")["spec"]
    path = tmp_path / "rules.yaml"
    path.write_text(yaml.safe_dump(rendered), encoding="utf-8")
    done = check_rules(path)
    assert done.returncode == 0, done.stdout + done.stderr
    found = {rule["alert"]: rule for group in rendered["groups"] for rule in group["rules"] if "alert" in rule}
    assert len(found) == 9
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
    assert "2 inhibit rules" in told


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
