"""While kernels are compiled a line says so: once, after a second, and only where something is compiled."""

import logging
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from monitor.compiled.notice import CompilationNotice

LINE = "compiling numerical kernels before their first use in this installation: this may take a minute"

LOGGER = "monitor.compiled.notice"


def logged(caplog: pytest.LogCaptureFixture) -> list[str]:
    """The messages of the notice; other threads may log something meanwhile."""
    return [record.getMessage() for record in caplog.records if record.name == LOGGER]


class Clock:
    def __init__(self) -> None:
        self.now = 5.0

    def __call__(self) -> float:
        return self.now


def compilation(module: str = "monitor.inference.draw_loops") -> Any:
    return SimpleNamespace(data={"dispatcher": SimpleNamespace(py_func=SimpleNamespace(__module__=module))})


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def notice(clock: Clock) -> CompilationNotice:
    return CompilationNotice(clock)


def test_compiling_for_a_second_is_said_once(
    notice: CompilationNotice, clock: Clock, caplog: pytest.LogCaptureFixture
) -> None:
    for _ in range(3):
        notice.on_start(compilation())
        clock.now += 0.4
        notice.on_end(compilation())
        clock.now += 100.0  # nothing is compiled meanwhile
        if clock.now < 250.0:
            assert logged(caplog) == []
    assert logged(caplog) == [LINE]
    notice.on_start(compilation())
    clock.now += 10.0
    notice.on_end(compilation())
    assert logged(caplog) == [LINE]


def test_it_is_said_while_a_kernel_that_calls_others_is_compiled(
    notice: CompilationNotice, clock: Clock, caplog: pytest.LogCaptureFixture
) -> None:
    notice.on_start(compilation())
    clock.now += 0.9
    notice.on_start(compilation("numba.np.arraymath"))
    assert logged(caplog) == []
    clock.now += 0.2
    notice.on_end(compilation("numba.np.arraymath"))
    assert logged(caplog) == [LINE]
    assert {record.levelno for record in caplog.records if record.name == LOGGER} == {logging.WARNING}


def test_kernels_of_others_are_not_ours_to_speak_of(
    notice: CompilationNotice, clock: Clock, caplog: pytest.LogCaptureFixture
) -> None:
    notice.on_start(compilation("somebody.elses"))
    clock.now += 60.0
    notice.on_end(compilation("somebody.elses"))
    notice.on_start(compilation())
    clock.now += 0.5
    notice.on_end(compilation())
    assert logged(caplog) == []


def test_in_a_new_installation_it_is_on_standard_error_and_later_it_is_not(tmp_path: Path) -> None:
    """Kernels that take seconds to compile, with an empty cache and then with a full one.

    The package may hold those of this processor, but none for the least that it could be.
    """
    script = (
        "from monitor.measures import smce_witness; from monitor.scores import ScoreTable; "
        "import numpy as np; t = ScoreTable.from_events(np.linspace(0, 1, 99), np.arange(99) % 2); "
        "print(smce_witness(t).size)"
    )
    written = []
    for _ in range(2):
        done = subprocess.run(
            [sys.executable, "-c", script],
            capture_output=True,
            text=True,
            check=True,
            timeout=300,
            env={"NUMBA_CACHE_DIR": str(tmp_path), "NUMBA_CPU_NAME": "generic", "PATH": "/usr/bin:/bin"},
        )
        assert done.stdout == "99\n"
        written.append(done.stderr)
    assert written == [f"{LINE}\n", ""]
