"""A path of the settings that begins with a home that is not known: one line that names the setting."""

import os
import pwd
from collections.abc import Mapping
from pathlib import Path

import pytest
import yaml

from tests.cli.command import inside, one_error_line

LOG = {"source": {"embedded": {"directory": "~no-such-user/log"}}, "store": {"url": "sqlite:///state.db"}}
STORE = {"store": {"url": "sqlite:///~no-such-user/state.db"}}
KEYS = {"access": {"keys_file": "~no-such-user/keys.yaml"}}
HOME = {"store": {"url": "sqlite:///~/state.db"}}


def write(folder: Path, tree: Mapping[str, object]) -> None:
    (folder / "monitor.yaml").write_text(yaml.safe_dump({"api": {"port": 0}, **tree}), encoding="utf-8")


@pytest.mark.parametrize(
    ("tree", "key", "command"),
    [
        (LOG, "source.embedded.directory", ("serve",)),
        (LOG, "source.embedded.directory", ("restore", "backup.db")),
        (STORE, "store.url", ("serve",)),
        (STORE, "store.url", ("backup", "backup.db")),
        (STORE, "store.url", ("restore", "backup.db")),
        (KEYS, "access.keys_file", ("keys", "list")),
    ],
)
def test_a_command_ends_with_the_settings_name(
    tmp_path: Path, tree: Mapping[str, object], key: str, command: tuple[str, ...]
) -> None:
    write(tmp_path, tree)
    done = inside(*command, cwd=tmp_path)
    assert done.returncode == 2
    assert one_error_line(done).startswith(f"{key} begins with ~no-such-user, a home that is not known")


@pytest.mark.parametrize(
    ("tree", "key"), [(LOG, "source.embedded.directory"), (STORE, "store.url"), (KEYS, "access.keys_file")]
)
def test_a_check_tells_it_and_goes_on(tmp_path: Path, tree: Mapping[str, object], key: str) -> None:
    write(tmp_path, tree)
    done = inside("check", cwd=tmp_path)
    assert done.returncode == 1
    told = [line for line in done.stdout.splitlines() if line.startswith("fail")]
    assert told
    assert all(f"{key} begins with ~no-such-user" in line for line in told)
    assert "port  " in done.stdout


def test_a_user_without_a_home_is_told_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As in a container whose user has no entry in the list of users."""

    def nobody(uid: int) -> pwd.struct_passwd:
        raise KeyError(uid)

    monkeypatch.delenv("HOME", raising=False)
    monkeypatch.setattr(pwd, "getpwuid", nobody)
    write(tmp_path, HOME)
    assert not os.environ.get("HOME")
    done = inside("backup", "backup.db", cwd=tmp_path)
    assert done.returncode == 2
    assert "store.url begins with ~, a home that is not known (HOME is not set" in one_error_line(done)
