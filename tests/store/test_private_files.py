"""Who may read what the store is kept in: it holds features of events."""

import os
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest

from monitor.clock import ManualClock, SystemClock
from monitor.errors import SettingsError
from monitor.sources.embedded_log import EmbeddedLog
from monitor.store.address import connect, sqlite_path
from monitor.store.backup import back_up
from monitor.store.restore import restore
from monitor.store.sql import SqlStore

CLOCK = ManualClock(0)


@pytest.fixture(autouse=True)
def usual_umask() -> Iterator[None]:
    """That of most machines, under which files are for everybody to read."""
    before = os.umask(0o022)
    yield
    os.umask(before)


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_a_new_store_is_its_owners_alone(tmp_path: Path) -> None:
    folder = tmp_path / "monitor-data"
    with SqlStore.open(f"sqlite:///{folder}/state.db", clock=SystemClock()) as store:
        store.claim(0)
        files = {path.name: mode(path) for path in folder.iterdir()}
    assert files == dict.fromkeys(("state.db", "state.db-wal", "state.db-shm"), 0o600)
    assert mode(folder) == 0o700


def test_a_store_behind_a_link_is_so_too(tmp_path: Path) -> None:
    (tmp_path / "volume").mkdir()
    (tmp_path / "state.db").symlink_to(tmp_path / "volume" / "state.db")
    SqlStore.open(f"sqlite:///{tmp_path}/state.db", clock=SystemClock()).close()
    assert mode(tmp_path / "volume" / "state.db") == 0o600


def test_what_is_there_keeps_its_mode(tmp_path: Path) -> None:
    folder = tmp_path / "monitor-data"
    folder.mkdir(mode=0o755)
    (folder / "state.db").touch(mode=0o644)
    SqlStore.open(f"sqlite:///{folder}/state.db", clock=SystemClock()).close()
    assert (mode(folder), mode(folder / "state.db")) == (0o755, 0o644)


def test_a_restored_store_is_its_owners_alone(tmp_path: Path) -> None:
    SqlStore.open(f"sqlite:///{tmp_path}/state.db", clock=SystemClock()).close()
    back_up(f"sqlite:///{tmp_path}/state.db", tmp_path / "backup.db", CLOCK)
    restore(tmp_path / "backup.db", f"sqlite:///{tmp_path}/new/state.db", CLOCK, actor="cli:ada")
    assert (mode(tmp_path / "new"), mode(tmp_path / "new" / "state.db")) == (0o700, 0o600)


def test_the_folder_of_a_new_embedded_log_is_its_owners_alone(tmp_path: Path) -> None:
    EmbeddedLog(tmp_path / "data" / "log", clock=SystemClock())
    assert mode(tmp_path / "data" / "log") == 0o700
    (tmp_path / "there").mkdir(mode=0o755)
    EmbeddedLog(tmp_path / "there", clock=SystemClock())
    assert mode(tmp_path / "there") == 0o755


def test_a_link_to_a_folder_that_is_not_there_is_refused(tmp_path: Path) -> None:
    (tmp_path / "state.db").symlink_to(tmp_path / "none" / "state.db")
    with pytest.raises(SettingsError, match=r"state\.db cannot be created: No such file or directory"):
        connect(f"sqlite:///{tmp_path}/state.db", 1.0, CLOCK)


def test_a_home_that_is_not_known_is_a_wrong_setting() -> None:
    with pytest.raises(SettingsError, match=r"^store\.url begins with ~no-such-user, a home that is not known"):
        sqlite_path("sqlite:///~no-such-user/state.db")


def test_a_home_that_is_known_is_taken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    assert sqlite_path("sqlite:///~/state.db") == tmp_path / "state.db"
