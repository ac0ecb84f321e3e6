"""Loops are compiled at their first call, and numba is imported then."""

import importlib
import subprocess
import sys
import textwrap
import threading
from pathlib import Path
from typing import Any

import pytest

from monitor.compiled import kept
from monitor.compiled.folders import Folders
from monitor.loops import load_numba
from tests.patience import ended_or_within, eventually, joined

PROGRAM = textwrap.dedent(
    """
    import sys
    from concurrent.futures import ThreadPoolExecutor

    import numpy as np
    from monitor.local import neighbour_loops
    from monitor.local.neighbour_loops import city_block

    assert "numba" not in sys.modules
    points = np.array([[0.0, 1.0]])
    with ThreadPoolExecutor(8) as pool:
        distances = list(pool.map(lambda _: float(city_block(points, others=points.T + 2.0)[0, 0]), range(8)))
    assert distances == [4.0] * 8, distances

    from numba.core.dispatcher import Dispatcher

    # A loop calls others of its module by their names, which are functions of numba for numba alone.
    assert isinstance(city_block.prepare().py_func.__globals__["_distances"], Dispatcher)
    assert not isinstance(neighbour_loops._distances, Dispatcher)
    assert city_block.__name__ == "city_block" and "L1 distances" in city_block.__doc__
    """
)


def test_the_first_calls_of_a_loop_may_come_from_several_threads() -> None:
    finished = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=False)
    assert finished.returncode == 0, finished.stderr


TWO_LOOPS = """
from monitor.loops import njit

@njit()
def twice(x):
    return add(x, x)

@njit()
def add(x, y):
    return x + y
"""


def test_no_thread_calls_a_loop_before_those_that_it_calls_are_numbas(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "two_loops.py").write_text(TWO_LOOPS, encoding="utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(kept, "folders", lambda: Folders((tmp_path,), tmp_path))  # so that numba compiles
    twice = importlib.import_module("two_loops").twice
    numba, results, made = load_numba(), [], []
    other = threading.Thread(target=lambda: results.append(twice(2)))
    njit = numba.njit

    def njit_meanwhile(*functions: Any, **options: Any) -> Any:
        made.append(options)
        if len(made) == 2:  # that of add
            other.start()
            eventually(lambda: ended_or_within(other, "_form"), pause_seconds=0.001)
        return njit(*functions, **options)

    monkeypatch.setattr(numba, "njit", njit_meanwhile)
    assert twice(1) == 2
    joined(other)
    assert results == [4]
