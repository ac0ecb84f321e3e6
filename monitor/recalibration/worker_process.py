"""Start, follow and end the worker process of one refit, and what passes between it and the service.

The service writes the task into a temporary file without a name, which is the worker's standard input: no other process
can open it, and the kernel removes it with the last of the two. It is an archive of numpy's, with JSON for what is no
column of events. The worker writes one JSON message per line to its standard output; the last one has the result.
"""

import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Final, NamedTuple, Self

import msgspec
import numpy as np
import structlog

from monitor.options import TOLERANCE
from monitor.recalibration.comparison import Comparison
from monitor.recalibration.data import HELD_OUT
from monitor.scores.labelled import LabelledEvents
from monitor.store.recalibrations import Job, Sample

_LAUNCHER: Final = Path(__file__).with_name("launcher.py")
_TAIL_BYTES: Final = 4096
_POLL_SECONDS: Final = 0.02
_TERM_SECONDS: Final = 1.0
"""How long a worker may take to end after SIGTERM before it is killed."""

_log = structlog.get_logger(__name__)


@dataclass(frozen=True, eq=False)
class RefitTask:
    """All that a worker needs for one refit, but for its sample.

    Attributes
    ----------
    job
        The refit.
    created_ms
        When the refit started, milliseconds since the epoch; part of the artifact.
    champion
        Artifact of the map that serves; None if there is none.
    held_out
        Share of the latest events that the fit never sees, above 0 and below 1.
    tolerance
        Error of the logits up to which a verdict is "calibrated".
    """

    job: Job
    created_ms: int
    champion: bytes | None = None
    held_out: float = HELD_OUT
    tolerance: float = TOLERANCE


class _Head(NamedTuple):
    """What is no column of events."""

    task: RefitTask
    population: int
    left_out: Mapping[str, int]
    segments: Sequence[str]


_COLUMNS: Final = ("prediction", "outcome", "weight", "time_ms")


def write_task(task: RefitTask, sample: Sample, file: IO[bytes]) -> None:
    """Write a task and its events, in order of time, to a file for :func:`read_task`."""
    events, population, left_out = sample
    columns = {name: getattr(events, name) for name in _COLUMNS}
    if events.features is not None:
        columns["features"] = events.features
    # Keys of segments may hold any character, and names of columns are names of files.
    columns |= {f"segment {number}": values for number, values in enumerate(events.segments.values())}
    head = msgspec.json.encode(_Head(task, population, left_out, list(events.segments)))
    np.savez(file, allow_pickle=False, head=np.frombuffer(head, np.uint8), **columns)


def read_task(file: IO[bytes]) -> tuple[RefitTask, Sample]:
    """Read what :func:`write_task` wrote."""
    with np.load(file, allow_pickle=False) as columns:
        head = _read_head(columns["head"].tobytes())
        events = LabelledEvents(
            **{name: columns[name] for name in _COLUMNS},
            features=columns.get("features"),
            segments={key: columns[f"segment {number}"] for number, key in enumerate(head.segments)},
        )
    return head.task, Sample(events, head.population, head.left_out)


@dataclass(frozen=True, eq=False)
class RefitResult:
    """A fitted map with its comparison and figures; or only why there is none.

    Attributes
    ----------
    artifact
        The map, as :func:`monitor.maps.artifact.to_bytes` wrote it.
    comparison
        How the map compares with what serves and with no map.
    figures
        Name -> JSON of the figure, as the page of the refit draws it.
    failure
        Error that lies in the task, so that another attempt would fail too.
    """

    artifact: bytes | None = None
    comparison: Comparison | None = None
    figures: Mapping[str, bytes] = field(default_factory=dict)
    failure: str | None = None


@dataclass(frozen=True, eq=False)
class WorkerMessage:
    """A line of a worker's standard output."""

    progress: float
    """Share of the work that is done, from 0 to 1."""
    step: str
    result: RefitResult | None = None


_decode: Final = msgspec.json.Decoder(WorkerMessage).decode
_read_head: Final = msgspec.json.Decoder(_Head).decode


class WorkerProcess:
    """A running worker, in its own process group; it is ended at the end of a ``with`` block.

    Parameters
    ----------
    command
        Absolute path of a program, and its arguments.
    task, sample
        What it reads from standard input.
    """

    def __init__(self, command: Sequence[str], task: RefitTask, sample: Sample) -> None:
        self.latest = WorkerMessage(0.0, "starting")
        """The last message of the worker."""
        self.error_output = ""
        """The end of its standard error, once it has ended."""
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115 - closed when the process has ended
        with tempfile.TemporaryFile() as file:
            write_task(task, sample, file)
            file.seek(0)
            self._process = subprocess.Popen(  # noqa: S603 - the service's own command, without a shell
                [sys.executable, "-I", str(_LAUNCHER), str(os.getpid()), *command],
                stdin=file,
                stdout=subprocess.PIPE,
                stderr=self._errors,
                start_new_session=True,
            )
        self._reader = threading.Thread(target=self._read, name="refit progress", daemon=True)
        self._reader.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        """End it and its child processes: SIGTERM first, SIGKILL a second later. It may have ended already."""
        if self.wait(0.0) is None:
            self._signal(signal.SIGTERM)
            if self.wait(_TERM_SECONDS) is None:
                self._signal(signal.SIGKILL)
        self._process.wait()
        self._reader.join()
        with self._errors as errors:
            size = errors.seek(0, os.SEEK_END)
            errors.seek(max(0, size - _TAIL_BYTES))
            self.error_output = errors.read().decode(errors="replace").strip()

    def wait(self, seconds: float) -> int | None:
        """Return the exit status if it ends within that time, below 0 for a signal; else None."""
        if self._process.returncode is None and sys.platform == "linux":
            # Its children may be alive when it is not. They are killed before it is reaped: then its id is free, and
            # the group of that id may be another's.
            deadline = time.monotonic() + seconds
            while os.waitid(os.P_PID, self._process.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is None:
                if time.monotonic() >= deadline:
                    return None
                time.sleep(_POLL_SECONDS)
            self._signal(signal.SIGKILL)
        try:
            return self._process.wait(seconds)
        except subprocess.TimeoutExpired:
            return None

    def _signal(self, number: signal.Signals) -> None:
        try:
            os.killpg(self._process.pid, number)
        except ProcessLookupError:
            return

    def _read(self) -> None:
        if self._process.stdout is None:
            raise AssertionError("its standard output is a pipe")
        with self._process.stdout as lines:
            for line in lines:
                try:
                    self.latest = _decode(line)
                except msgspec.DecodeError:
                    # Output of some library, or the blank line before each message.
                    if text := line.decode(errors="replace").strip():
                        _log.debug("output of a refit's worker", line=text)


def describe_signal(status: int) -> str:
    """Describe an exit status below 0."""
    number = -status
    try:
        name = signal.Signals(number).name
    except ValueError:
        name = f"signal {number}"
    hint = ": the machine may have run out of memory" if number == signal.SIGKILL else ""
    return f"it was killed by {name}{hint}"
