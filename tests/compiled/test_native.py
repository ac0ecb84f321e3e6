"""A loop that was compiled once runs without numba, does what it did, and goes on doing so beside numba."""

import logging
import os
import subprocess
import sys
from pathlib import Path
from typing import Final

import pytest

from monitor.compiled import kept, native
from monitor.compiled.folders import Folders
from monitor.loops import CompiledLoop
from tests.patience import PATIENCE_SECONDS

ROOT: Final = Path(__file__).parents[2]
PROGRAM: Final = """
import sys
from typing import NamedTuple

import numpy as np

from monitor.loops import njit

class Pair(NamedTuple):
    first: np.ndarray
    second: float

@njit()
def scaled(pair, by):
    return Pair(pair.first * by, pair.second + _checked(by)), pair.first.sum() > 0.0

@njit()
def _checked(by):
    if by < 0:
        raise ValueError("less than nothing")
    return by

@njit()
def drawn(rng, rows):
    total = 0.0
    for row in rows:
        total += row.share * rng.random()
    return total

@njit(fastmath={"reassoc"})
def copied(rows, at):
    return rows[at:].copy()

def work():
    pair, positive = scaled(Pair(np.array([1.0, 2.0]), 0.5), by=2)
    print(pair, positive)
    try:
        scaled(Pair(np.array([1.0]), 0.5), -1)
    except ValueError as error:
        print("refused:", error)
    print(drawn(np.random.default_rng(1), np.ones(3, [("share", "f8"), ("kind", "i1")])))
    arrays = [copied(np.arange(5_000), at) for at in range(2_000)]
    print(sum(map(len, arrays)), arrays[7][0], arrays[7].flags.owndata, sys.getrefcount(arrays[7]))

work()
print("numba" in sys.modules)
print(copied(np.arange(4.0), 1))  # of this kind there is nothing yet, so that it is compiled
import numba
assert numba.njit(lambda x: x + 1)(1) == 2
work()
"""


def run(program: Path, kept: Path) -> list[str]:
    done = subprocess.run(
        [sys.executable, "-c", "import program"],
        env={
            **os.environ,
            "PYTHONPATH": f"{ROOT}:{program.parent}",
            "NUMBA_CACHE_DIR": str(kept),
            "PYTHONWARNINGS": "error",
        },
        capture_output=True,
        text=True,
        timeout=PATIENCE_SECONDS,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


def test_a_loop_without_numba_does_what_numba_does(tmp_path: Path) -> None:
    program, kept = tmp_path / "program.py", tmp_path / "kept"
    program.write_text(PROGRAM, encoding="utf-8")
    first = run(program, kept)
    assert first[:2] == ["Pair(first=array([2., 4.]), second=2.5) True", "refused: less than nothing"]
    assert first[4] == "True"
    for file in kept.glob("program.copied-*"):
        if b"float64" in file.read_bytes():
            file.unlink()
    again = run(program, kept)
    assert again[4] == "False"
    assert [*again[:4], *again[5:]] == [*first[:4], *first[5:]]


def test_code_of_a_release_that_was_not_tried_is_numbas_to_load(tmp_path: Path) -> None:
    program, kept = tmp_path / "program.py", tmp_path / "kept"
    program.write_text(f"import numba\nnumba.__version__ = '9.9.0'\n{PROGRAM}", encoding="utf-8")
    assert run(program, kept) == run(program, kept)
    assert list(kept.glob("*.nbc"))
    assert not list(kept.glob("*.nbn"))


def test_code_with_a_name_that_is_not_there_is_compiled_anew(tmp_path: Path) -> None:
    """LLVM would end the process where a name is missing."""
    program, kept = tmp_path / "program.py", tmp_path / "kept"
    program.write_text(PROGRAM, encoding="utf-8")
    first = run(program, kept)
    script = """
import pickle, sys
from pathlib import Path
from monitor.compiled.content import digest
from monitor.compiled.native import Native
for file in Path(sys.argv[1]).glob("*.nbn"):
    native = Native(*pickle.loads(file.read_bytes()[32:]))
    data = pickle.dumps(tuple(native._replace(needed=[*native.needed, "gone"])))
    file.write_bytes(digest(data) + data)
"""
    subprocess.run([sys.executable, "-c", script, str(kept)], env={**os.environ, "PYTHONPATH": str(ROOT)}, check=True)
    assert run(program, kept) == first


def test_a_numba_with_other_modules_loads_its_code_itself(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(kept, "folders", lambda: Folders((tmp_path,), tmp_path))
    assert CompiledLoop(doubled, fastmath=False)(1) == 2
    assert len(list(tmp_path.glob("*.nbn"))) == 1
    native._extensions.cache_clear()
    monkeypatch.setattr(native, "_EXTENSIONS", ("_gone",))
    with caplog.at_level(logging.WARNING, logger="monitor.compiled.native"):
        loop = CompiledLoop(doubled, fastmath=False)
        assert loop(1) == 2
    assert loop._dispatcher is not None
    assert "loops are loaded by numba, which takes a second longer: numba._gone is not in" in caplog.text
    native._extensions.cache_clear()


def doubled(x: int) -> int:
    return x + x
