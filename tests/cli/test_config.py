"""`monitor config`."""

from pathlib import Path

import pytest
import yaml

from monitor.app.settings import Settings
from tests.cli.command import inside, one_error_line

SECRETS = """
store: {url: "postgresql://monitor:hunter2@db/calibration"}
source: {kafka: {ssl_password: hunter2, group_id: blue}}
"""


def test_the_settings_in_force_have_no_secrets(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MONITOR__API__PORT", "9123")
    (tmp_path / "monitor.yaml").write_text(SECRETS, encoding="utf-8")
    done = inside("config", cwd=tmp_path)
    assert done.returncode == 0
    assert "hunter2" not in done.stdout
    tree = yaml.safe_load(done.stdout)
    assert tree["source"]["kafka"]["group_id"] == "blue"
    assert tree["api"]["port"] == 9123


def test_the_file_may_be_named_on_the_line_or_in_the_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "other.yaml").write_text("log: {level: debug}", encoding="utf-8")
    named = inside("config", "--config", "other.yaml", cwd=tmp_path)
    assert yaml.safe_load(named.stdout)["log"]["level"] == "debug"
    monkeypatch.setenv("MONITOR_CONFIG", "other.yaml")
    assert yaml.safe_load(inside("config", cwd=tmp_path).stdout)["log"]["level"] == "debug"


def test_the_default_file_is_one_to_start_from(tmp_path: Path) -> None:
    done = inside("config", "--default", cwd=tmp_path)
    assert done.returncode == 0
    (tmp_path / "monitor.yaml").write_text(done.stdout, encoding="utf-8")
    again = inside("config", cwd=tmp_path)
    # Paths are printed absolute: they begin in the folder of the file.
    assert yaml.safe_load(again.stdout.replace(f"{tmp_path}/", "")) == Settings().model_dump(mode="json")


def test_the_reference_is_a_page(tmp_path: Path) -> None:
    done = inside("config", "--reference", cwd=tmp_path)
    assert done.stdout.startswith("# Settings\n")
    assert "`bootstrap_servers`" in done.stdout


def test_one_thing_at_a_time(tmp_path: Path) -> None:
    done = inside("config", "--default", "--reference", cwd=tmp_path)
    assert done.returncode == 2
    assert "either --default or --reference" in one_error_line(done)
