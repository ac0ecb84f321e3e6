"""Folders of refits: one's own is left alone, and those of killed services are cleared and tell whose they were."""

from pathlib import Path

import pytest
from structlog.testing import capture_logs

from monitor.recalibration.folders import Abandoned, Claim, clear_abandoned, own_folder


def abandon(parent: Path, name: str, told: bytes) -> Path:
    """What a service that was killed leaves behind."""
    folder = parent / f"calibration-refit-{name}"
    (folder / "figures").mkdir(parents=True)
    (folder / "in-use").write_bytes(told)
    (folder / "events.arrow").write_bytes(b"x")
    return folder


def test_an_own_folder_goes_at_the_end_and_nobody_else_removes_it(tmp_path: Path) -> None:
    with own_folder(tmp_path, Claim("rc_1", "me")) as folder:
        (folder / "events.arrow").write_bytes(b"x")
        assert clear_abandoned(tmp_path) == []
        assert (folder / "events.arrow").exists()
    assert list(tmp_path.iterdir()) == []


def test_a_killed_services_folder_tells_whose_it_was(tmp_path: Path) -> None:
    with own_folder(tmp_path, Claim("rc_1", "gone")) as folder:
        told = (folder / "in-use").read_bytes()
    old = abandon(tmp_path, "old", told)
    with own_folder(tmp_path, Claim("rc_2", "me")) as mine:
        assert clear_abandoned(tmp_path) == [Abandoned(old, Claim("rc_1", "gone"))]
        assert [each.name for each in old.iterdir()] == ["in-use"], "nobody's events are left about"
        # Whoever comes next, perhaps with the store it belongs to, finds the claim until it is settled.
        (found,) = clear_abandoned(tmp_path)
        assert found.claim == Claim("rc_1", "gone")
        found.settle()
        assert list(tmp_path.iterdir()) == [mine]
        assert clear_abandoned(tmp_path) == []
        # Two services of one store may have found it.
        found.settle()


@pytest.mark.parametrize("told", [b"", b"\xff", b"[]", b'["rc_1"]', b'{"refit": "rc_1"}'])
def test_one_that_does_not_tell_goes_all_the_same(tmp_path: Path, told: bytes) -> None:
    abandon(tmp_path, "odd", told)
    with capture_logs() as logs:
        assert clear_abandoned(tmp_path) == []
    assert list(tmp_path.iterdir()) == []
    assert [entry["event"] for entry in logs] == ["it is not known which refit a folder was of"]


def test_what_is_called_otherwise_or_has_no_mark_stays(tmp_path: Path) -> None:
    (tmp_path / "calibration-refit-new").mkdir()
    other = tmp_path / "another"
    other.mkdir()
    (other / "in-use").touch()
    assert clear_abandoned(tmp_path) == []
    assert len(list(tmp_path.iterdir())) == 2
