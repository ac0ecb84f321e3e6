"""The unit of systemd hides nothing that the service needs, and the command beside it runs as the service does."""

import os
import shlex
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SYSTEMD = ROOT / "deploy" / "systemd"

STAND_IN = """#!/bin/sh
# Writes down what it is asked to run, one argument a line, and ends with a status of its own.
printf '%s\\n' "$@" > "$ASKED"
exit 7
"""


@pytest.fixture
def unit() -> dict[str, list[str]]:
    """Key -> its values, with folders in place of %S and %C."""
    told: dict[str, list[str]] = {}
    for line in (SYSTEMD / "calibration-monitor.service").read_text(encoding="utf-8").splitlines():
        key, equals, value = line.partition("=")
        if equals and not line.startswith("#"):
            told.setdefault(key, []).append(value.replace("%S", "/var/lib").replace("%C", "/var/cache"))
    return told


@pytest.fixture
def asked(tmp_path: Path) -> list[str]:
    """What the command asks of systemd-run."""
    stand_in = tmp_path / "systemd-run"
    stand_in.write_text(STAND_IN, encoding="utf-8")
    stand_in.chmod(0o755)
    done = subprocess.run(
        [SYSTEMD / "calibration-monitor", "keys", "create", "two words", "*"],
        env={"PATH": f"{tmp_path}:{os.environ['PATH']}", "ASKED": str(tmp_path / "asked")},
        cwd=tmp_path,
        check=False,
    )
    assert done.returncode == 7
    return (tmp_path / "asked").read_text(encoding="utf-8").splitlines()


def test_the_unit_does_not_hide_what_the_series_of_the_process_are_read_from(unit: dict[str, list[str]]) -> None:
    """Without /proc/stat, prometheus_client leaves out every process_* series, on which alerts and panels rest."""
    assert "ProcSubset" not in unit
    assert unit["ProtectProc"] == ["invisible"]


def test_a_command_runs_as_the_service_does(unit: dict[str, list[str]], asked: list[str]) -> None:
    properties = dict(each.removeprefix("--property=").split("=", 1) for each in asked if "--property=" in each)
    folders = properties.pop("StateDirectory").split()
    assert folders == [*unit["StateDirectory"], "calibration-monitor-backups"]
    assert {key: [value] for key, value in properties.items()} == {
        key: unit[key]
        for key in (
            *("DynamicUser", "User", "StateDirectoryMode", "CacheDirectory", "WorkingDirectory", "EnvironmentFile"),
            "UMask",
        )
    }
    assert {"--pipe", "--wait"} < set(asked)


def test_a_command_has_the_services_program_settings_and_environment(
    unit: dict[str, list[str]], asked: list[str]
) -> None:
    (service,) = unit["ExecStart"]
    program, serve, option, settings = shlex.split(service)
    assert (serve, option) == ("serve", "--config")
    environment = [each.removeprefix("--setenv=") for each in asked if "--setenv=" in each]
    assert environment == [f"MONITOR_CONFIG={settings}", *unit["Environment"]]
    assert asked[asked.index(program) :] == [program, "keys", "create", "two words", "*"]


def test_the_line_in_the_documentation_is_that_of_the_command(asked: list[str]) -> None:
    page = (ROOT / "docs" / "install.md").read_text(encoding="utf-8")
    start = page.index("# systemd-run ") + 2
    line = page[start : page.index("```", start)].replace("\\\n", " ")
    told = set(shlex.split(line)[1:])
    options = {each for each in asked if each.startswith("--")}
    assert {each for each in options - told if "=" in each} == {
        "--service-type=exec",
        "--setenv=PYTHONUNBUFFERED=1",
        "--setenv=MONITOR_CONFIG=/etc/calibration-monitor/monitor.yaml",
    }
    assert told - options == {
        "--config",
        "/etc/calibration-monitor/monitor.yaml",
        "/opt/calibration-monitor/bin/monitor",
        "check",
    }
