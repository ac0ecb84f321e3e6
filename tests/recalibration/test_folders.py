"""Where refits work: one's own folder is left alone, those of killed services are removed and tell whose they were."""

import errno
import fcntl
import os
import shutil
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from monitor.recalibration.folders import Claim, RefitFolders
from tests.recalibration.abandoned import abandon


@pytest.fixture
def place(tmp_path: Path) -> RefitFolders:
    """Of a store, where a service was killed."""
    abandon("store", tmp_path, Claim("rc_1", "gone"))
    assert len(left(tmp_path)) == 5
    return RefitFolders("store", tmp_path)


def left(folder: Path) -> list[Path]:
    """All that is there, without the folder of a store itself."""
    return [each for home in folder.iterdir() for each in home.rglob("*")] + list(folder.iterdir())


def test_an_own_folder_goes_at_the_end_and_nobody_else_removes_it(tmp_path: Path) -> None:
    place, another = RefitFolders("store", tmp_path), RefitFolders("store", tmp_path)
    with place.new_folder(Claim("rc_1", "me")) as folder:
        (folder / "events.arrow").write_bytes(b"x")
        assert another.remove_abandoned() == []
        assert (folder / "events.arrow").exists()
    assert list(tmp_path.iterdir()) == []


def test_it_goes_too_where_the_work_fails(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="no"), RefitFolders("store", tmp_path).new_folder(Claim("rc_1", "me")):
        raise ValueError("no")
    assert list(tmp_path.iterdir()) == []


def test_a_killed_services_folder_is_taken_once(place: RefitFolders, tmp_path: Path) -> None:
    with place.new_folder(Claim("rc_2", "me")) as mine:
        assert place.remove_abandoned() == [Claim("rc_1", "gone")]
        assert {mine, mine.with_suffix(".claim")} == {each for each in left(tmp_path) if each.parent != tmp_path}
        assert place.remove_abandoned() == []


def test_services_of_other_stores_find_nothing_of_it(place: RefitFolders, tmp_path: Path) -> None:
    assert RefitFolders("another", tmp_path).remove_abandoned() == []
    assert place.remove_abandoned() == [Claim("rc_1", "gone")]


@pytest.mark.parametrize("told", [b"", b"\xff", b"[]", b'["rc_1"]', b'{"refit": "rc_1"}'])
def test_one_that_does_not_tell_goes_all_the_same(place: RefitFolders, tmp_path: Path, told: bytes) -> None:
    (mark,) = tmp_path.glob("*/*.claim")
    mark.write_bytes(told)
    with capture_logs() as logs:
        assert place.remove_abandoned() == []
    assert list(tmp_path.iterdir()) == []
    assert [entry["event"] for entry in logs] == ["an abandoned claim does not name its refit"]


def test_a_link_in_a_folder_leads_nowhere(place: RefitFolders, tmp_path: Path) -> None:
    (folder,) = (each for each in tmp_path.glob("*/*") if each.is_dir())
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "precious").touch()
    (folder / "link").symlink_to(elsewhere)
    assert place.remove_abandoned() == [Claim("rc_1", "gone")]
    assert not folder.exists()
    assert (elsewhere / "precious").exists()


@pytest.mark.parametrize("how", ["open", "link", "file"])
def test_where_others_may_write_nothing_is_read_or_removed(tmp_path: Path, how: str) -> None:
    place = RefitFolders("store", tmp_path / "tmp")
    (tmp_path / "tmp").mkdir()
    with place.new_folder(Claim("rc_1", "me")) as folder:
        home = folder.parent
    planted = tmp_path / "planted"
    planted.mkdir(mode=0o755)
    # Who opens this one waits for ever.
    os.mkfifo(planted / "x.claim")
    if how == "open":
        planted.rename(home)
    elif how == "link":
        home.symlink_to(planted)
    else:
        home.touch(mode=0o600)
    assert place.remove_abandoned() == []
    with capture_logs() as logs, place.new_folder(Claim("rc_2", "me")) as folder:
        assert home not in folder.parents
        assert folder.stat().st_mode & 0o077 == 0
    assert not folder.exists()
    assert [entry["event"].split(":")[0] for entry in logs] == ["others may write to the folder of refits"]


def test_what_a_system_removed_meanwhile_is_made_again(tmp_path: Path) -> None:
    place = RefitFolders("store", tmp_path)
    with place.new_folder(Claim("rc_1", "me")) as folder, place.new_folder(Claim("rc_2", "me")) as other:
        shutil.rmtree(folder.parent)
        with place.new_folder(Claim("rc_3", "me")) as third:
            assert third.parent == folder.parent == other.parent
    assert list(tmp_path.iterdir()) == []


def test_many_begin_and_end_at_once(tmp_path: Path) -> None:
    def work(number: int) -> None:
        place = RefitFolders("store", tmp_path)
        for attempt in range(40):
            with place.new_folder(Claim(f"rc_{number}", str(attempt))) as folder:
                (folder / "events.arrow").touch()
            assert place.remove_abandoned() == []

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(work, range(8)))
    assert list(tmp_path.iterdir()) == []


def test_what_cannot_be_locked_is_told_and_nothing_fails(
    place: RefitFolders, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise OSError(errno.ENOLCK, "no locks")

    monkeypatch.setattr(fcntl, "flock", refuse)
    with capture_logs() as logs:
        assert place.remove_abandoned() == []
    assert [entry["event"] for entry in logs] == ["an abandoned claim cannot be read"]
    assert len(left(tmp_path)) == 5
