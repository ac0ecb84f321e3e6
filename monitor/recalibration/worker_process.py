"""Start, watch and end one worker process."""

import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Final, NamedTuple

import structlog

_LAUNCHER: Final = Path(__file__).with_name("launcher.py")
_ERRORS: Final = "stderr.log"
_TAIL_BYTES: Final = 4096
_TERM_SECONDS: Final = 1.0
"""How long a worker may take to end after SIGTERM before it is killed."""

_log = structlog.get_logger(__name__)


class Progress(NamedTuple):
    """Progress that a worker reported."""

    share: float = 0.0
    """From 0 to 1."""
    step: str = "starting"


class WorkerProcess:
    """A running worker, in its own process group.

    Parameters
    ----------
    command
        Absolute path of a program, and its arguments.
    folder
        Where its standard error is written.
    """

    def __init__(self, command: Sequence[str], folder: Path) -> None:
        self.progress = Progress()
        self._errors = folder / _ERRORS
        self._ended = False
        with self._errors.open("wb") as errors:
            self._process = subprocess.Popen(  # noqa: S603 - the service's own command, without a shell
                [sys.executable, "-I", str(_LAUNCHER), str(os.getpid()), *command],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=errors,
                start_new_session=True,
            )
        self._reader = threading.Thread(target=self._read_progress, name="refit progress", daemon=True)
        self._reader.start()

    def wait(self, seconds: float) -> int | None:
        """Return the exit status if it ends within that time, below 0 for a signal; else None."""
        try:
            return self._process.wait(seconds)
        except subprocess.TimeoutExpired:
            return None

    def end(self) -> None:
        """End it and its child processes: SIGTERM first, SIGKILL a second later. It may have ended already."""
        if self._ended:
            return
        self._ended = True
        if self._process.poll() is None:
            self._signal(signal.SIGTERM)
            self.wait(_TERM_SECONDS)
        # Its children may be alive when it is not.
        self._signal(signal.SIGKILL)
        self._process.wait()
        self._reader.join()
        if self._process.stdout is not None:
            self._process.stdout.close()

    def error_output(self) -> str:
        """Return the end of its standard error."""
        with self._errors.open("rb") as errors:
            size = errors.seek(0, os.SEEK_END)
            errors.seek(max(0, size - _TAIL_BYTES))
            return errors.read().decode(errors="replace").strip()

    def _signal(self, number: signal.Signals) -> None:
        try:
            os.killpg(self._process.pid, number)
        except ProcessLookupError:
            return

    def _read_progress(self) -> None:
        if self._process.stdout is None:
            return
        for line in self._process.stdout:
            try:
                report = json.loads(line)
                share, step = float(report["progress"]), str(report["step"])
            except (ValueError, KeyError, TypeError):
                # Output of some library.
                _log.debug("output of a refit's worker", line=line.decode(errors="replace").strip())
                continue
            self.progress = Progress(min(max(share, 0.0), 1.0), step)


def describe_signal(status: int) -> str:
    """Describe an exit status below 0."""
    number = -status
    try:
        name = signal.Signals(number).name
    except ValueError:
        name = f"signal {number}"
    hint = ": the machine may have run out of memory" if number == signal.SIGKILL else ""
    return f"it was killed by {name}{hint}"
