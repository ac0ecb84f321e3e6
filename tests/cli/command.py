"""Runs the command line as a user does: in a process of its own."""

import contextlib
import io
import json
import os
import socketserver
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import IO, Final
from unittest import mock

from monitor.cli.main import run
from monitor.clock import SystemClock
from monitor.events.log import Topics
from monitor.events.model import Record
from monitor.sources.embedded import EmbeddedSource
from monitor.sources.embedded_log import EmbeddedLog
from tests.patience import PATIENCE_SECONDS, joined
from tests.real.forked import Forked

TIMEOUT_SECONDS: Final = 2 * PATIENCE_SECONDS
"""Of a command that is run to its end: before it begins, it may have to compile its kernels."""

PATIENT: Final = {
    "monitor.app.service._PIPELINE_SECONDS": PATIENCE_SECONDS,
    "monitor.app.service._REFIT_SECONDS": PATIENCE_SECONDS,
}
"""Constants by which a service takes as long as the machine needs.

An end in order is then told by its exit status from one that was cut short, on any machine; how long an end may take is
tested where a clock can be turned.
"""

_FORWARDER: Final = """#!{python} -IS
import json, os, socket, sys
settings = {{name: value for name, value in os.environ.items() if name.startswith("MONITOR")}}
with socket.create_connection(("127.0.0.1", {port})) as connection:
    with connection.makefile("rw") as stream:
        print(json.dumps([sys.argv[1:], os.getcwd(), settings]), file=stream, flush=True)
        status, out, err = json.loads(stream.readline())
sys.stdout.write(out)
sys.stderr.write(err)
sys.exit(status)
"""


def environment(**more: str) -> dict[str, str]:
    """This process's environment without settings of the service, and with these."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("MONITOR")}
    return {**kept, "COLUMNS": "100", **more}


def monitor(
    *arguments: str,
    cwd: Path | None = None,
    timeout: float = TIMEOUT_SECONDS,
    **environ: str,
) -> subprocess.CompletedProcess[str]:
    """Run a command to its end."""
    return subprocess.run(
        [sys.executable, "-m", "monitor", *arguments],
        cwd=cwd,
        env=environment(**environ),
        capture_output=True,
        text=True,
        timeout=timeout,
        check=False,
    )


def inside(*arguments: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    """Run a command in this process: the same, without loading the libraries anew."""
    out, err = io.StringIO(), io.StringIO()
    with contextlib.chdir(cwd), contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        status = run(arguments)
    return subprocess.CompletedProcess(arguments, status, out.getvalue(), err.getvalue())


def forked(
    *arguments: str, cwd: Path, constants: Mapping[str, object] | None = None
) -> subprocess.CompletedProcess[str]:
    """Run a command to its end in a forked process, with constants that differ; all that it wrote is in stderr."""
    output = cwd / "output.txt"
    with output.open("wb") as stream:
        process = start(*arguments, cwd=cwd, output=stream, constants=constants)
    return subprocess.CompletedProcess(arguments, process.wait(TIMEOUT_SECONDS), "", output.read_text(encoding="utf-8"))


class _Forwarded(socketserver.StreamRequestHandler):
    """Runs one command that the program of :func:`monitor_in_path` sent."""

    def handle(self) -> None:
        arguments, cwd, settings = json.loads(self.rfile.readline())
        with mock.patch.dict(os.environ, settings):
            done = inside(*arguments, cwd=Path(cwd))
        self.wfile.write(json.dumps([done.returncode, done.stdout, done.stderr]).encode() + b"\n")


@contextlib.contextmanager
def monitor_in_path(folder: Path) -> Iterator[str]:
    """A PATH whose `monitor` runs commands in this process: for shell scripts that call it several times.

    Standard input is not passed on.
    """
    with socketserver.TCPServer(("127.0.0.1", 0), _Forwarded) as server:
        folder.mkdir()
        program = folder / "monitor"
        program.write_text(_FORWARDER.format(python=sys.executable, port=server.server_address[1]), encoding="utf-8")
        program.chmod(0o755)
        thread = threading.Thread(target=server.serve_forever, args=(0.05,))
        thread.start()
        try:
            yield f"{folder}{os.pathsep}{os.environ['PATH']}"
        finally:
            server.shutdown()
            joined(thread)


def start(
    *arguments: str, cwd: Path, output: IO[bytes], constants: Mapping[str, object] | None = None, **environ: str
) -> Forked:
    """Start a command that goes on until it is ended."""
    differ = PATIENT | dict(constants or {})
    return Forked("monitor", *arguments, cwd=cwd, output=output, environ=environment(**environ), constants=differ)


def one_error_line(done: subprocess.CompletedProcess[str]) -> str:
    """The one line of an expected error."""
    lines = done.stderr.splitlines()
    assert len(lines) == 1, done.stderr
    assert lines[0].startswith("error: ")
    return lines[0].removeprefix("error: ")


def written(folder: Path, *topics: str) -> dict[str, list[tuple[int, Record]]]:
    """Topic -> (partition, record) of all that stands in the embedded log ``log`` of a folder."""
    source = EmbeddedSource(EmbeddedLog(folder / "log", clock=SystemClock()), Topics(dict.fromkeys(topics)))
    written_to: dict[str, list[tuple[int, Record]]] = {topic: [] for topic in topics}
    try:
        for partition in source.poll(0.1, 1).assigned:
            source.start(partition, {})
        # The first poll also says where partitions begin, with batches that hold nothing.
        empty = 0
        while empty < 2:
            records = 0
            for batch in source.poll(0.1, 10_000).batches:
                written_to[batch.topic] += [(batch.partition, record) for record in batch.records]
                records += len(batch.records)
            empty = 0 if records else empty + 1
    finally:
        source.close()
    return written_to
