"""What is written down of the settings agrees with them."""

from pathlib import Path

import pytest
import yaml

from monitor.app.settings import Settings, load_settings
from monitor.app.settings.document import default_file, effective, reference
from monitor.app.settings.fields import leaves

ROOT = Path(__file__).parents[3]


def test_monitor_yaml_loads_and_says_what_the_defaults_say(tmp_path: Path) -> None:
    file = tmp_path / "monitor.yaml"
    file.write_text(default_file(), encoding="utf-8")
    assert effective(load_settings(file, {})).replace(f"{tmp_path}/", "") == effective(Settings())


def test_monitor_yaml_names_every_setting() -> None:
    tree = yaml.safe_load(default_file())
    for leaf in leaves():
        inner = tree
        for part in leaf.path:
            assert part in inner, leaf.path
            inner = inner[part]


@pytest.mark.parametrize(("name", "written"), [("monitor.yaml", default_file), ("settings.md", reference)])
def test_the_committed_page_is_up_to_date(name: str, written: object) -> None:
    assert callable(written)
    flag = "--default" if name == "monitor.yaml" else "--reference"
    assert (ROOT / "docs" / name).read_text(encoding="utf-8") == written(), f"run: monitor config {flag} > docs/{name}"


def test_every_setting_says_what_it_means() -> None:
    assert [leaf.path for leaf in leaves() if not leaf.description] == []


def test_no_line_of_monitor_yaml_is_wider_than_a_screen() -> None:
    assert max(map(len, default_file().splitlines())) <= 120


def test_the_settings_in_force_hide_secrets_and_nothing_else() -> None:
    settings = Settings.model_validate(
        {
            "store": {"url": "postgresql://monitor:hunter2@db/x"},
            "source": {"kafka": {"ssl_password": "hunter2", "group_id": "seen"}},
        }
    )
    shown = effective(settings)
    assert "hunter2" not in shown
    tree = yaml.safe_load(shown)
    assert tree["store"]["url"] == "postgresql://monitor:***@db/x"
    assert tree["source"]["kafka"]["ssl_password"] == "**********"
    assert tree["source"]["kafka"]["group_id"] == "seen"
    assert tree["models"]["defaults"]["horizon"] == "24h"
    assert tree["evaluation"] == Settings().evaluation.model_dump(mode="json")
