"""The settings of access control."""

from pathlib import Path

import pytest

from monitor.errors import SettingsError
from monitor.settings import load_settings


@pytest.mark.parametrize("word", ["off", "'off'", "false"])
def test_off_needs_no_quotes(tmp_path: Path, word: str) -> None:
    # To YAML, off is false.
    file = tmp_path / "monitor.yaml"
    file.write_text(f"access: {{mode: {word}}}", encoding="utf-8")
    assert load_settings(file, {}).access.mode == "off"


@pytest.mark.parametrize("word", ["on", "true", "none", "null", "0"])
def test_nothing_else_switches_it_off(tmp_path: Path, word: str) -> None:
    file = tmp_path / "monitor.yaml"
    file.write_text(f"access: {{mode: {word}}}", encoding="utf-8")
    with pytest.raises(SettingsError, match=r"access\.mode must be required or off, got"):
        load_settings(file, {})


def test_it_is_required_unless_it_is_switched_off_on_a_loopback_address(tmp_path: Path) -> None:
    assert load_settings(None, {}).access.mode == "required"
    assert load_settings(None, {"MONITOR__ACCESS__MODE": "off"}).access.mode == "off"
    with pytest.raises(SettingsError, match=r"access.mode must be required where api.host is 0.0.0.0: off is for a"):
        load_settings(None, {"MONITOR__ACCESS__MODE": "off", "MONITOR__API__HOST": "0.0.0.0"})
