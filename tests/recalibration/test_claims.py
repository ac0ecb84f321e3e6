"""Claims on refits: a service leaves those of others alone, and removes those of killed services."""

import errno
import fcntl
import os
import shutil
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from monitor.recalibration.claims import Claim, Claims
from tests.recalibration.abandoned import abandon

MINE = Claim("rc_2", "me")


@pytest.fixture
def claims(tmp_path: Path) -> Claims:
    """Of a store, whose last service was killed."""
    abandon("store", tmp_path, Claim("rc_1", "gone"))
    assert len(files(tmp_path)) == 1
    return Claims("store", tmp_path)


def files(folder: Path) -> list[Path]:
    return [path for path in folder.rglob("*") if not path.is_dir()]


def test_a_claim_goes_at_the_end_and_nobody_else_removes_it(tmp_path: Path) -> None:
    with Claims("store", tmp_path).hold(MINE):
        assert Claims("store", tmp_path).remove_abandoned() == []
        (file,) = files(tmp_path)
        assert file.stat().st_mode & 0o077 == 0 or file.parent.stat().st_mode & 0o077 == 0
    assert files(tmp_path) == []


def test_it_goes_too_where_the_work_fails(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="no"), Claims("store", tmp_path).hold(MINE):
        raise ValueError("no")
    assert files(tmp_path) == []


def test_a_killed_services_claim_is_returned_once(claims: Claims, tmp_path: Path) -> None:
    with claims.hold(MINE):
        assert claims.remove_abandoned() == [Claim("rc_1", "gone")]
        assert len(files(tmp_path)) == 1
        assert claims.remove_abandoned() == []


def test_services_of_other_stores_leave_it_alone(claims: Claims, tmp_path: Path) -> None:
    assert Claims("another", tmp_path).remove_abandoned() == []
    assert claims.remove_abandoned() == [Claim("rc_1", "gone")]


@pytest.mark.parametrize("content", [b"", b"\xff", b"[]", b'["rc_1"]', b"1"])
def test_an_unreadable_claim_is_removed(claims: Claims, tmp_path: Path, content: bytes) -> None:
    (file,) = tmp_path.glob("*/*.claim")
    file.write_bytes(content)
    with capture_logs() as logs:
        assert claims.remove_abandoned() == []
    assert files(tmp_path) == []
    assert [entry["event"] for entry in logs] == ["a claim of a killed service cannot be read"]


@pytest.mark.parametrize("how", ["open", "link", "file"])
def test_where_others_may_write_nothing_is_read_or_removed(tmp_path: Path, how: str) -> None:
    claims = Claims("store", tmp_path / "tmp")
    (tmp_path / "tmp").mkdir()
    with claims.hold(MINE):
        (home,) = (tmp_path / "tmp").iterdir()
    home.rmdir()
    planted = tmp_path / "planted"
    planted.mkdir(mode=0o755)
    # Opening this one would block for ever.
    os.mkfifo(planted / "x.claim")
    if how == "open":
        planted.rename(home)
    elif how == "link":
        home.symlink_to(planted)
    else:
        home.touch(mode=0o600)
    before = sorted(tmp_path.rglob("*"))
    with capture_logs() as logs:
        assert claims.remove_abandoned() == []
        with claims.hold(MINE):
            assert sorted(tmp_path.rglob("*")) == before
    assert [entry["event"].split(":")[0] for entry in logs] == ["a refit has no claim"]


def test_a_folder_that_the_system_removed_is_made_again(tmp_path: Path) -> None:
    claims = Claims("store", tmp_path)
    with claims.hold(MINE), claims.hold(Claim("rc_1", "me")):
        shutil.rmtree(next(tmp_path.iterdir()))
        with claims.hold(Claim("rc_3", "me")):
            assert len(files(tmp_path)) == 1
    assert files(tmp_path) == []


def test_many_claims_are_made_and_removed_at_once(tmp_path: Path) -> None:
    def work(number: int) -> None:
        claims = Claims("store", tmp_path)
        for attempt in range(40):
            with claims.hold(Claim(f"rc_{number}", str(attempt))):
                assert claims.remove_abandoned() == []

    with capture_logs() as logs, ThreadPoolExecutor(8) as pool:
        list(pool.map(work, range(8)))
    assert logs == []
    assert files(tmp_path) == []


def test_where_nothing_can_be_locked_that_is_logged(
    claims: Claims, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise OSError(errno.ENOLCK, "no locks")

    monkeypatch.setattr(fcntl, "flock", refuse)
    with capture_logs() as logs:
        assert claims.remove_abandoned() == []
        with claims.hold(MINE):
            pass
    assert [entry["event"].split(":")[0] for entry in logs] == [
        "a claim of a killed service cannot be read",
        "a refit has no claim",
    ]
