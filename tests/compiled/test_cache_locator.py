"""Kernels compiled beforehand are used where nothing can be written."""

import copy
import os
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from tests.patience import PATIENCE_SECONDS

ROOT = Path(__file__).parents[2]
LOCATOR = "monitor.compiled.cache_locator.PrecompiledCacheLocator"
PROGRAM = textwrap.dedent(
    """
    from numba import njit

    @njit(cache=True)
    def double(x):
        return x + x

    @njit(cache=True)
    def quadruple(x):
        return double(double(x))

    if __name__ == "__main__":
        import sys
        print("result", quadruple(eval(sys.argv[1])))
    """
)


class Place:
    """A program, the directory of what it compiled, and a TMPDIR."""

    def __init__(self, folder: Path) -> None:
        self.compiled = folder / "compiled"
        self.temporary = folder / "tmp"
        self.program = folder / "program.py"
        self.temporary.mkdir()
        self.program.write_text(PROGRAM, encoding="utf-8")

    def close(self, path: Path, mode: int = 0o555) -> None:
        """Take the right to write to a directory and all below it."""
        for directory in [path, *(each for each in path.rglob("*") if each.is_dir())]:
            directory.chmod(mode)

    def run(self, argument: str) -> subprocess.CompletedProcess[str]:
        """Run it as somebody who may not do everything, if this is root."""
        powerless = ["setpriv", "--bounding-set", "-dac_override"] if os.getuid() == 0 else []
        return subprocess.run(
            [*powerless, sys.executable, str(self.program), argument],
            env={
                **os.environ,
                "PYTHONPATH": str(ROOT),
                "NUMBA_CACHE_DIR": str(self.compiled),
                "NUMBA_CACHE_LOCATOR_CLASSES": LOCATOR,
                "NUMBA_DEBUG_CACHE": "1",
                "TMPDIR": str(self.temporary),
            },
            capture_output=True,
            text=True,
            timeout=PATIENCE_SECONDS,
            check=False,
        )


@pytest.fixture(scope="module")
def compiled(tmp_path_factory: pytest.TempPathFactory) -> Place:
    made = Place(tmp_path_factory.mktemp("compiled"))
    first = made.run("2")
    assert first.returncode == 0, first.stderr
    # Where it can be written to, it is written to.
    assert first.stdout.count("data saved to") == 2
    assert len(list(made.compiled.rglob("*.nbi"))) == 2
    assert list(made.temporary.iterdir()) == []
    made.close(made.compiled)
    return made


@pytest.fixture
def place(compiled: Place, tmp_path: Path) -> Place:
    """The same program and what it compiled, with a TMPDIR of its own."""
    made = copy.copy(compiled)
    made.temporary = tmp_path / "tmp"
    made.temporary.mkdir()
    return made


def test_what_is_compiled_is_loaded_and_what_is_not_is_kept_elsewhere(place: Place) -> None:
    done = place.run("2")
    assert (done.returncode, done.stdout.splitlines()[-1]) == (0, "result 8"), done.stderr
    assert "saved" not in done.stdout
    assert "data loaded from" in done.stdout
    # Another type of argument was never compiled: it is, once, without an error.
    new = place.run("2.5")
    assert (new.returncode, new.stdout.splitlines()[-1]) == (0, "result 10.0"), new.stderr
    assert "data saved to" in new.stdout
    assert "saved" not in place.run("2.5").stdout


def test_without_a_place_for_new_ones_what_is_compiled_is_loaded(place: Place) -> None:
    # As many others might have made it, to be run by us.
    foreign = place.temporary / f"monitor-kernels-{os.getuid()}"
    foreign.mkdir()
    foreign.chmod(0o777)
    done = place.run("2")
    assert (done.returncode, done.stdout.splitlines()[-1]) == (0, "result 8"), done.stderr
    assert "saved" not in done.stdout
    assert list(foreign.iterdir()) == []


def test_kernels_of_another_version_are_linked_anew(place: Place) -> None:
    (folder,) = place.compiled.iterdir()
    linked = place.temporary / f"monitor-kernels-{os.getuid()}" / folder.name
    linked.mkdir(parents=True)
    linked.parent.chmod(0o700)
    for file in folder.iterdir():
        (linked / file.name).symlink_to(Path("/nowhere") / file.name)
    assert "saved" not in place.run("2").stdout
    assert {link.readlink() for link in linked.iterdir()} == set(folder.iterdir())
