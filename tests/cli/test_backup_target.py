"""Where `monitor backup` writes: a name that ends as a folder's does is never taken for a file."""

from pathlib import Path

import pytest

from monitor.clock import SystemClock
from monitor.store.sql import SqlStore
from tests.cli.command import inside, one_error_line


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """That of a service with a store."""
    (tmp_path / "monitor.yaml").write_text(f"store: {{url: 'sqlite:///{tmp_path}/state.db'}}\n", encoding="utf-8")
    SqlStore.open(f"sqlite:///{tmp_path}/state.db", clock=SystemClock()).close()
    return tmp_path


def test_a_folder_that_is_not_there_is_not_made_a_file(folder: Path) -> None:
    done = inside("backup", "backups/", cwd=folder)
    assert done.returncode == 2
    said = one_error_line(done)
    assert said.startswith("the backup's folder backups/ is not there: make it (mkdir -p backups)")
    assert "leave the / at the end out" in said
    assert not (folder / "backups").exists()
    (folder / "backups").mkdir()
    for target in ("backups/", "backups"):
        assert inside("backup", target, cwd=folder).returncode == 0
        (made,) = (folder / "backups").iterdir()
        assert made.name.startswith("calibration-monitor-")
        made.unlink()


def test_a_file_in_the_folders_place_is_told(folder: Path) -> None:
    (folder / "backups").write_text("a backup of an earlier night")
    done = inside("backup", "backups/", cwd=folder)
    assert done.returncode == 2
    assert "backups/ is a file: move backups away, and make the folder" in one_error_line(done)
    assert (folder / "backups").read_text() == "a backup of an earlier night"


def test_where_there_is_no_store_the_whole_path_is_named(tmp_path: Path) -> None:
    """From another folder than the service's, the default path leads to nothing, and looks the same."""
    whole = tmp_path / "monitor-data" / "state.db"
    said = one_error_line(inside("backup", "backup.db", cwd=tmp_path))
    assert said.startswith(f"there is no store at {whole}: ")
    told = inside("check", cwd=tmp_path).stdout
    assert f"there is no store at {whole}: `monitor serve` creates it" in told
    assert f"{tmp_path / 'monitor-data' / 'log'} is not there yet" in told
