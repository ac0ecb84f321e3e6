"""Servers that the tests start: on free ports of the loopback, and never outliving the tests."""

import os
import random
import socket
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import IO

_WORKERS = 16
"""More than a test run has processes."""

_drawn: dict[int, socket.socket | None] = {}
"""The numbers of this process, each with the mark that keeps others from it."""

# Run between fork and exec of the server, in an interpreter of its own: `preexec_fn` is unsafe once threads run. The
# kernel's death signal (1 is PR_SET_PDEATHSIG, 9 SIGKILL) survives the exec, but no change of user: that comes first.
# Where there is none, stop() has to do.
_LAUNCHER = """
import os, sys
linux = sys.platform == "linux"
if linux:
    import ctypes
    prctl = ctypes.CDLL(None).prctl
parent, user, group = map(int, sys.argv[1:4])
if user >= 0:
    os.setgroups([])
    os.setgid(group)
    os.setuid(user)
if linux:
    prctl(1, 9)
    if os.getppid() != parent:
        os._exit(1)
os.execvp(sys.argv[4], sys.argv[4:])
"""


def start_child(
    command: Sequence[str | Path], directory: Path, output: IO[bytes], user: tuple[int, int] = (-1, -1)
) -> subprocess.Popen[bytes]:
    """Start a server that dies with the thread that called this, however that ends; as (user, group) if given."""
    return subprocess.Popen(
        [sys.executable, "-I", "-S", "-c", _LAUNCHER, *map(str, (os.getpid(), *user, *command))],
        cwd=directory,
        stdin=subprocess.DEVNULL,
        stdout=output,
        stderr=subprocess.STDOUT,
    )


def free_ports(count: int) -> list[int]:
    """Distinct loopback ports that nobody listens on.

    They lie below the range from which systems number outgoing connections, so that a stopped server finds its port
    still free when it is started again. Each process of a test run draws from numbers of its own, and keeps what it
    drew until it ends: a server that takes seconds to start would find its port taken by that of the other process, or
    of another run.
    """
    ports: list[int] = []
    numbers = random.SystemRandom()
    while len(ports) < count:
        port = numbers.randrange(20_000 + _worker() % _WORKERS, 32_000, _WORKERS)
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
        if port not in _drawn and _keep(port):
            ports.append(port)
    return ports


def _keep(port: int) -> bool:
    """Let nobody else on this machine draw a number while this process lives; False where somebody has drawn it."""
    mark = None
    if sys.platform == "linux":
        # A name without a file: it belongs to the same network as the port, and goes with the process.
        mark = socket.socket(socket.AF_UNIX)
        try:
            mark.bind(f"\0calibration-monitor-tests-{port}")
        except OSError:
            mark.close()
            return False
    _drawn[port] = mark
    return True


def _worker() -> int:
    """The number of this process among those of a test run, as pytest-xdist numbers them from ``gw0``."""
    return int(os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw"))


def tail(path: Path, lines: int = 40) -> str:
    """The last lines of a log, for an error message."""
    return "\n".join(path.read_text(errors="replace").splitlines()[-lines:])
