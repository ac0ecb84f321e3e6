"""Programs in processes that are forked from one that has loaded the libraries and the compiled loops.

Each has its own memory, files, signals and end, as one that was started anew has; it only begins seconds sooner.
"""

import importlib
import multiprocessing
import os
import runpy
import signal
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import IO, Final

_CONTEXT: Final = multiprocessing.get_context("forkserver")
_CONTEXT.set_forkserver_preload(["tests.real.preloaded"])


class Forked:
    """A running ``python -m`` of a module, with what is used of :class:`subprocess.Popen`.

    Parameters
    ----------
    command
        The module and its arguments.
    cwd
        Where it runs.
    output
        File behind whose end it writes.
    environ
        All of its environment; this process's by default.
    constants
        Constants of other modules that differ, by their paths.
    """

    def __init__(
        self,
        *command: str,
        cwd: Path,
        output: IO[bytes],
        environ: Mapping[str, str] = os.environ,
        constants: Mapping[str, object] | None = None,
    ) -> None:
        given = (command, cwd, output.name, dict(environ), dict(constants or {}))
        # A daemon ends with the test run at the latest.
        self._process = _CONTEXT.Process(target=_run, args=given, daemon=True)
        self._process.start()

    @property
    def pid(self) -> int:
        """Its process id."""
        assert self._process.pid is not None
        return self._process.pid

    def poll(self) -> int | None:
        """Its exit status, or -N where signal N ended it; None while it runs."""
        return self._process.exitcode

    def wait(self, timeout: float | None = None) -> int:
        """Wait until it has ended; its exit status as :meth:`poll` returns it."""
        self._process.join(timeout)
        status = self.poll()
        if status is None:
            raise subprocess.TimeoutExpired("forked", timeout or 0.0)
        return status

    def send_signal(self, number: int) -> None:
        """Send a signal, unless it has ended."""
        if self.poll() is None:
            os.kill(self.pid, number)

    def terminate(self) -> None:
        """Ask it to end."""
        self.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        """End it at once."""
        self.send_signal(signal.SIGKILL)


def _run(
    command: Sequence[str], cwd: Path, output: str, environ: Mapping[str, str], constants: Mapping[str, object]
) -> None:
    file = os.open(output, os.O_WRONLY | os.O_APPEND)
    for number in (1, 2):
        os.dup2(file, number)
    os.close(file)
    os.chdir(cwd)
    os.environ.clear()
    os.environ.update(environ)
    tempfile.tempdir = None
    for path, value in constants.items():
        module, _, name = path.rpartition(".")
        setattr(importlib.import_module(module), name, value)
    sys.argv[1:] = command[1:]
    runpy.run_module(command[0], run_name="__main__", alter_sys=True)
