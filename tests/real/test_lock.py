"""What one run of the tests leaves to the next, and to those beside it."""

import os
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from tests.patience import PATIENCE_SECONDS
from tests.real.lock import one_at_a_time, passing_folder

ROOT = Path(__file__).parents[2]


def run(program: str, *arguments: str | Path, powerless: bool = False) -> subprocess.CompletedProcess[str]:
    """Run a program in a process of its own, which, if this is root, may not do everything."""
    able = ["setpriv", "--bounding-set", "-dac_override"] if powerless and os.getuid() == 0 else []
    return subprocess.run(
        [*able, sys.executable, "-c", program, *map(str, arguments)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=PATIENCE_SECONDS,
        check=False,
    )


LOCKS = """
import sys
from pathlib import Path
from tests.real.lock import one_at_a_time
with one_at_a_time(Path(sys.argv[1])):
    print("held")
"""


def test_a_lock_that_another_user_made_is_taken(tmp_path: Path) -> None:
    lock = tmp_path / "cache" / ".lock"
    with one_at_a_time(lock):
        assert lock.exists()
    lock.chmod(0o444)
    done = run(LOCKS, lock, powerless=True)
    assert done.stdout == "held\n", done.stderr


DIES = """
import os, signal, sys, tempfile
tempfile.tempdir = sys.argv[1]
from tests.real.lock import passing_folder
with passing_folder("server-") as folder:
    (folder / "data").write_text("much")
    print(folder, flush=True)
    os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.fixture
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The place of temporary files."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    return tmp_path


def test_what_a_killed_run_left_is_removed_by_the_next_and_what_is_in_use_stays(temporary: Path) -> None:
    with passing_folder("server-") as ours:
        left = Path(run(DIES, temporary).stdout.strip())
        assert (left / "data").read_text() == "much"
        with passing_folder("server-") as other:
            assert not left.exists()
            assert ours.is_dir()
            assert other.is_dir()
        assert ours.is_dir()
    (marks,) = temporary.iterdir()
    assert list(marks.iterdir()) == []


def test_what_others_may_have_marked_is_not_removed(temporary: Path) -> None:
    (temporary / "somebodys").mkdir()
    marks = temporary / f"calibration-monitor-tests-{os.geteuid()}"
    marks.mkdir()
    marks.chmod(0o777)
    (marks / "somebodys").touch()
    with pytest.raises(RuntimeError, match="others may write"), passing_folder("server-"):
        pass
    assert (temporary / "somebodys").is_dir()
