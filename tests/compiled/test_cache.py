"""A compiled loop is loaded where nothing that went into it has changed, and nowhere else."""

import importlib.util
import logging
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import pytest
from llvmlite import binding as llvm
from llvmlite.binding.targets import FeatureMap
from numba.core.compiler import CompileResult

from monitor.compiled import cache, kept
from monitor.compiled.folders import Folders
from monitor.loops import CompiledLoop
from tests.long import short_of
from tests.patience import PATIENCE_SECONDS

ROOT: Final = Path(__file__).parents[2]
LOOPS: Final = """
import numpy as np

from monitor.loops import njit

FACTOR = 2
TABLE = np.array([1.0, 2.0])

@njit()
def times(x):
    return x * FACTOR

@njit()
def times_twice(x):
    '''Docstring.'''
    return times(times(x)) + TABLE[0]

@njit()
def plus_one(x):
    return x + 1
"""
MAIN: Final = """
if __name__ == "__main__":
    import sys
    print("result", times_twice(eval(sys.argv[1])))
"""


def dispatcher_of(path: Path, source: str, name: str) -> Any:
    """The loop of that name, as numba has it, in a new module of this source."""
    path.parent.mkdir(exist_ok=True)
    path.write_text(source, encoding="utf-8")
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return getattr(module, name).prepare()


def content_of(path: Path, source: str, name: str = "times_twice") -> bytes:
    content = dispatcher_of(path, source, name)._cache.content
    assert isinstance(content, bytes)
    return content


def test_what_a_loop_does_not_use_may_change(tmp_path: Path) -> None:
    content = content_of(tmp_path / "some_loops.py", LOOPS)
    for old, new in {"FACTOR = 2": "# why\nFACTOR = 2", "x + 1": "x + 2"}.items():
        assert content_of(tmp_path / f"{len(old)}_loops.py", LOOPS.replace(old, new)) == content
    assert content_of(tmp_path / "other_loops.py", LOOPS, "plus_one") != content


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("times(times(x))", "times(x)"),
        ("x * FACTOR", "x / FACTOR"),  # in a loop that it calls
        ("FACTOR = 2", "FACTOR = 3"),
        ("FACTOR = 2", "FACTOR = 2.0"),
        ("FACTOR = 2", "FACTOR = np.int8(2)"),
        ("[1.0, 2.0]", "[1.0, 3.0]"),
        ("[1.0, 2.0]", "[1.0, 2.0], np.float32"),
        ("+ TABLE[0]", "- TABLE[0]"),
        ("njit()\ndef times(", "njit(fastmath=True)\ndef times("),
        ("njit()\ndef times_twice(", "njit(fastmath={'nsz', 'nnan'})\ndef times_twice("),
    ],
)
def test_what_a_loop_uses_makes_another_loop(tmp_path: Path, old: str, new: str) -> None:
    changed = LOOPS.replace(old, new)
    assert changed != LOOPS
    assert content_of(tmp_path / "changed.py", changed) != content_of(tmp_path / "loops.py", LOOPS)


def test_loops_that_call_each_other_have_a_content(tmp_path: Path) -> None:
    source = LOOPS.replace("return x * FACTOR", "return times_twice(x - 1) if x > 0 else FACTOR")
    assert content_of(tmp_path / "changed.py", source) != content_of(tmp_path / "loops.py", LOOPS)


PAIRS: Final = """
from typing import NamedTuple

from monitor.loops import njit

class Pair(NamedTuple):
    first: int
    second: int

@njit()
def difference(pair):
    return pair.first - pair.second

@njit()
def made(first, second):
    return Pair(first, second).first
"""


def test_fields_in_another_order_make_another_loop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The bytecode is the same, and so is what numba calls the argument: what was compiled would mix the fields up."""
    monkeypatch.setattr(kept, "folders", lambda: Folders((tmp_path,), tmp_path))
    swapped = PAIRS.replace("first: int\n    second: int", "second: int\n    first: int")
    for number, (source, wanted) in enumerate([(PAIRS, 3), (swapped, -3), (PAIRS, 3)]):
        difference = dispatcher_of(tmp_path / f"a{number}" / "pairs.py", source, "difference")
        assert difference(difference.py_func.__globals__["Pair"](5, 2)) == wanted
    contents = {content_of(tmp_path / f"b{number}.py", one, "made") for number, one in enumerate([PAIRS, swapped])}
    assert len(contents) == 2


def test_a_loop_may_not_use_variables_of_another_function(tmp_path: Path) -> None:
    source = (
        PAIRS
        + """
def make(by):
    @njit()
    def times(x):
        return x * by
    return times

times = make(2)
"""
    )
    with pytest.raises(TypeError, match="times uses variables of another function: give them as arguments"):
        content_of(tmp_path / "loops.py", source, "times")


def test_a_loop_may_use_only_what_can_be_described(tmp_path: Path) -> None:
    with pytest.raises(TypeError, match=r"FACTOR in a loop must be a number, an array or another loop, got \[2\]"):
        content_of(tmp_path / "loops.py", LOOPS.replace("FACTOR = 2", "FACTOR = [2]"))


class Installation:
    """A program with loops, and the folder of what it compiled."""

    def __init__(self, folder: Path) -> None:
        self.kept = folder / "kept"
        self.temporary = folder / "tmp"
        self.temporary.mkdir(parents=True)
        self.program = folder / "program.py"
        self.program.write_text(LOOPS + MAIN, encoding="utf-8")

    @property
    def files(self) -> list[Path]:
        return sorted(self.kept.glob("*.nb?"))

    def run(self, argument: str) -> subprocess.CompletedProcess[str]:
        """Run it as somebody who may not do everything, if this is root."""
        powerless = ["setpriv", "--bounding-set", "-dac_override"] if os.getuid() == 0 else []
        done = subprocess.run(
            [*powerless, sys.executable, str(self.program), argument],
            env={
                **os.environ,
                "PYTHONPATH": str(ROOT),
                "NUMBA_CACHE_DIR": str(self.kept),
                "NUMBA_DEBUG_CACHE": "1",
                "TMPDIR": str(self.temporary),
            },
            capture_output=True,
            text=True,
            timeout=PATIENCE_SECONDS,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        return done

    def result(self, argument: str) -> tuple[str, int, int]:
        """Its result, how many loops it loaded, and how many it compiled and kept."""
        lines = self.run(argument).stdout.splitlines()
        loaded = sum(line.startswith("[cache] data loaded") for line in lines)
        saved = sum(line.startswith("[cache] data saved") and line.endswith(".nbc'") for line in lines)
        return lines[-1], loaded, saved


def test_a_copy_of_an_installation_loads_what_the_first_compiled(tmp_path: Path) -> None:
    first = Installation(tmp_path / "first")
    assert first.result("1") == ("result 5.0", 0, 2)
    assert [file.name.partition("-")[0] for file in first.files] == [
        *["__main__.times"] * 2,
        *["__main__.times_twice"] * 2,
    ]
    assert first.result("1") == ("result 5.0", 1, 0)
    copied = Installation(tmp_path / "copied")
    first.kept.rename(copied.kept)
    os.utime(copied.program, (1.0, 1.0))
    assert copied.result("1") == ("result 5.0", 1, 0)
    # Of other types, it is another form.
    assert copied.result("1.5") == ("result 7.0", 0, 2)
    assert len(copied.files) == 8
    # What a crash of the machine left of a file is not loaded; it is compiled anew, and kept whole.
    for file in copied.files:
        file.write_bytes(file.read_bytes()[:-1])
    assert copied.result("1") == ("result 5.0", 0, 2)
    assert copied.result("1") == ("result 5.0", 1, 0)
    # A loop that a loop calls has changed, and the loop itself has not.
    copied.program.write_text(copied.program.read_text(encoding="utf-8").replace("x * FACTOR", "x - FACTOR"), "utf-8")
    assert copied.result("1") == ("result -2.0", 0, 2)


@pytest.mark.parametrize("foreign", short_of([True, False], 1))
def test_where_nothing_can_be_written_what_is_there_is_loaded(tmp_path: Path, foreign: bool) -> None:
    image = Installation(tmp_path / "image")
    image.run("1")
    kept = image.files
    image.kept.chmod(0o555)
    own = image.temporary / f"monitor-kernels-{os.getuid()}"
    if foreign:  # As many others might have made it, to be run by us.
        own.mkdir()
        own.chmod(0o777)
    assert image.result("1") == ("result 5.0", 1, 0)
    # What is not there is compiled, and kept among temporary files where no other user can write.
    assert image.result("1.5") == ("result 7.0", 0, 0 if foreign else 2)
    assert image.result("1.5") == ("result 7.0", 0 if foreign else 1, 0)
    assert len(list(own.iterdir())) == (0 if foreign else 4)
    assert image.files == kept


@pytest.mark.parametrize(
    ("environment", "same"),
    [
        ({}, False),
        ({"NUMBA_CPU_NAME": "generic"}, True),
        ({"NUMBA_CPU_NAME": "x86-64-v3"}, False),
        ({"NUMBA_CPU_NAME": "x86-64-v3", "NUMBA_CPU_FEATURES": ""}, True),
    ],
)
def test_code_for_a_named_processor_fits_wherever_it_is_named(
    monkeypatch: pytest.MonkeyPatch, environment: dict[str, str], same: bool
) -> None:
    targets = []
    for name in ("NUMBA_CPU_NAME", "NUMBA_CPU_FEATURES"):
        monkeypatch.delenv(name, raising=False)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    for features in ({"avx2": True}, {"avx2": False}):
        monkeypatch.setattr(llvm, "get_host_cpu_features", lambda of=features: FeatureMap(of))
        targets.append(kept.target.__wrapped__())
    assert len(set(targets)) == 2 - same


def test_without_room_a_loop_is_compiled_and_it_is_logged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(kept, "folders", lambda: Folders((tmp_path,), tmp_path / "gone"))
    plus_one: Callable[[int], int] = dispatcher_of(tmp_path / "loops.py", LOOPS, "plus_one")
    with caplog.at_level(logging.WARNING, logger="monitor.compiled.cache"):
        assert plus_one(1) == 2
    assert "the next start compiles again" in caplog.text


def test_a_numba_that_keeps_code_in_another_way_keeps_it_itself(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(cache, "CompileResult", object)
    loop = CompiledLoop(abs_of, fastmath=False)
    with caplog.at_level(logging.WARNING, logger="monitor.compiled.cache"):
        dispatcher = loop.prepare()
    assert "its own cache is used" in caplog.text
    assert type(dispatcher._cache).__name__ == "FunctionCache"
    monkeypatch.setattr(cache, "CompileResult", CompileResult)
    assert isinstance(CompiledLoop(abs_of, fastmath=False).prepare()._cache, cache.LoopCache)


def abs_of(x: int) -> int:
    return x if x >= 0 else -x
