"""The demonstration as users run it, watched by a real Prometheus and a real Alertmanager. Started once a run."""

import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple

import pytest
import yaml

from tests.deploy.chart import CHART, of_values, only
from tests.patience import PATIENCE_SECONDS, eventually
from tests.real.child import start_child, tail
from tests.real.prometheus import Alertmanager, Prometheus, Webhook

RULES: Final = {
    "enabled": True,
    "runbookBase": "https://git.example.org/calibration-monitor/blob/main/",
    # In the demonstration, an hour passes in six seconds.
    "overrides": {"CalibrationDegraded": {"for": "3s"}, "CalibrationRefitFailed": {"disabled": True}},
}
"""The chart's values about rules: what a user would set who wants them otherwise."""
SPEED: Final = 600
"""Simulated seconds a second: the models begin to change three seconds after events begin to flow."""
SEED: Final = 32


__all__ = ["CHART", "RULES", "Demo"]


class Demo(NamedTuple):
    """A running demonstration.

    Attributes
    ----------
    url
        Where it answers.
    directory
        Where its log, its state and ``monitor.yaml`` are.
    """

    url: str
    directory: Path

    @property
    def address(self) -> str:
        """Its ``host:port``."""
        return self.url.removeprefix("http://")


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Demo]:
    """`monitor demo`, quick, from its first event on."""
    directory = tmp_path_factory.mktemp("demo")
    said = directory / "output.txt"
    command = ["demo", "--speed", str(SPEED), "--seed", str(SEED), "--port", "0", "--keep", str(directory / "kept")]
    with said.open("wb") as output:
        process = start_child([sys.executable, "-m", "monitor", *command], Path.cwd(), output)
    try:
        found = eventually(lambda: _printed(said, process), shown=lambda: tail(said))
        assert found is not None
        yield Demo(found.group(1), directory / "kept")
        process.send_signal(signal.SIGINT)
        assert process.wait(PATIENCE_SECONDS) == 0, tail(said)
    finally:
        if process.poll() is None:
            process.kill()
            process.wait()


def _printed(said: Path, process: "subprocess.Popen[bytes]") -> re.Match[str] | None:
    assert process.poll() is None, tail(said)
    return re.search(r"(http://127\.0\.0\.1:\d+)/metrics", said.read_text())


@pytest.fixture(scope="session")
def webhook() -> Iterator[Webhook]:
    """What Alertmanager tells of alerts."""
    with Webhook() as receiver:
        yield receiver


@pytest.fixture(scope="session")
def alertmanager(tmp_path_factory: pytest.TempPathFactory, webhook: Webhook) -> Iterator[Alertmanager]:
    """An Alertmanager that tells the webhook of each alert at once."""
    with Alertmanager(tmp_path_factory.mktemp("alertmanager"), webhook=webhook.url) as running:
        yield running


@pytest.fixture(scope="module")
def prometheus(
    tmp_path_factory: pytest.TempPathFactory, demo: Demo, alertmanager: Alertmanager
) -> Iterator[Prometheus]:
    """A Prometheus that scrapes the demonstration each second, with the rules as the chart renders them."""
    directory = tmp_path_factory.mktemp("prometheus")
    rules = directory / "rules.yaml"
    spec = only(of_values({"rules": RULES}), "PrometheusRule")["spec"]
    for group in spec["groups"]:
        for rule in group["rules"]:
            # So that tests need not wait for ten minutes until an alert is over.
            if "keep_firing_for" in rule:
                rule["keep_firing_for"] = "1s"
    rules.write_text(yaml.safe_dump(spec), encoding="utf-8")
    with Prometheus(directory, targets=[demo.address], rules=[rules], alertmanager=alertmanager.address) as running:
        yield running
