"""A real PostgreSQL server for tests and benchmarks, on the loopback only, from the binaries of ``pgserver``.

``python -m tests.real.postgres`` starts one by hand and prints where it listens.
"""

import importlib.util
import os
import pwd
import shutil
import signal
import subprocess
import sys
import uuid
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Final, Self

import psutil
import psycopg

from tests.patience import PATIENCE_SECONDS, eventually
from tests.real.child import free_ports, start_child, tail
from tests.real.lock import passing_folder

PASSWORD: Final = "s3cret/of:postgres@tests"

# pgserver's own way of running under root adds a user to the system and opens folders up to the root to everyone.
_UNPRIVILEGED: Final = "nobody"


@dataclass(frozen=True, eq=False)
class PostgresServer:
    """A running server: where it listens. A test takes a new database."""

    port: int

    def url(self, database: str, *, port: int | None = None) -> str:
        """Where a database is."""
        password = PASSWORD.replace("/", "%2F").replace(":", "%3A").replace("@", "%40")
        return f"postgresql://postgres:{password}@127.0.0.1:{port or self.port}/{database}"

    def new_database(self) -> str:
        """Create an empty database; its name."""
        name = f"test_{uuid.uuid4().hex}"
        with psycopg.connect(self.url("postgres"), autocommit=True) as connection:
            connection.execute(f"CREATE DATABASE {name}")
        return name


class PostgresProcess(PostgresServer):
    """A server of one's own, to be started and stopped; it keeps its port and its data from start to start.

    PostgreSQL refuses to run as root: then it runs as ``nobody``, in a folder that is theirs.
    """

    def __init__(self) -> None:
        super().__init__(free_ports(1)[0])
        # Not below pytest's own, into which nobody but its user is let.
        self._removed_at_the_end = ExitStack()
        self.directory = self._removed_at_the_end.enter_context(passing_folder("postgres-"))
        self.log = self.directory / "server.log"
        self._user = (-1, -1)
        packages = _packages()
        self._process: subprocess.Popen[bytes] | None = None
        if os.geteuid() == 0:
            entry = pwd.getpwnam(_UNPRIVILEGED)
            self._user = (entry.pw_uid, entry.pw_gid)
            os.chown(self.directory, *self._user)
            # They may not be let into the folder where the packages are. The binaries find what they need beside them.
            for folder in packages.glob("pgserver*"):
                shutil.copytree(folder, self.directory / "packages" / folder.name)
            packages = self.directory / "packages"
        self._binaries = packages / "pgserver" / "pginstall" / "bin"

    def __enter__(self) -> Self:
        try:
            self._initialise()
            self.start()
        except BaseException:
            self.__exit__(None, None, None)
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            self.stop()
        finally:
            self._removed_at_the_end.close()

    def start(self) -> None:
        """Start the server and wait until it answers."""
        settings = {
            "listen_addresses": "127.0.0.1",
            "unix_socket_directories": "",
            "port": str(self.port),
            "fsync": "off",
            "max_connections": "200",
        }
        options = [part for key, value in settings.items() for part in ("-c", f"{key}={value}")]
        with self.log.open("ab") as output:
            self._process = start_child(
                [self._binaries / "postgres", "-D", self.directory / "data", *options],
                self.directory,
                output,
                self._user,
            )
        eventually(self._answers, shown=lambda: tail(self.log))

    def _answers(self) -> bool:
        try:
            psycopg.connect(self.url("postgres"), connect_timeout=round(PATIENCE_SECONDS)).close()
        except psycopg.OperationalError as error:
            if self._process is not None and self._process.poll() is not None:
                raise RuntimeError(f"PostgreSQL did not start: {error}\n{tail(self.log)}") from error
            return False
        return True

    def stop(self, how: signal.Signals = signal.SIGINT) -> None:
        """Stop the server: SIGINT ends all sessions in order, SIGQUIT leaves at once, as a crash would."""
        if self._process is None:
            return
        process, self._process = self._process, None
        process.send_signal(how)
        try:
            process.wait(PATIENCE_SECONDS)
        except subprocess.TimeoutExpired as error:
            process.kill()
            process.wait()
            raise RuntimeError(f"PostgreSQL did not stop within {PATIENCE_SECONDS:g} s\n{tail(self.log)}") from error

    def processes(self) -> list[psutil.Process]:
        """The server's processes, to be paused as a host that hangs pauses them."""
        if self._process is None:
            return []
        parent = psutil.Process(self._process.pid)
        return [parent, *parent.children(recursive=True)]

    def _initialise(self) -> None:
        password = self.directory / "password"
        password.write_text(PASSWORD)
        with self.log.open("ab") as output:
            process = start_child(
                [
                    *(self._binaries / "initdb", "-D", self.directory / "data", "--username=postgres"),
                    *("--auth=scram-sha-256", f"--pwfile={password}"),
                    *("--encoding=UTF8", "--no-locale", "--no-sync"),
                ],
                self.directory,
                output,
                self._user,
            )
            if process.wait(PATIENCE_SECONDS):
                raise RuntimeError(f"initdb failed\n{tail(self.log)}")


@contextmanager
def suspended(server: PostgresProcess) -> Iterator[None]:
    """Pause all processes of a server within the block, as a virtual machine that is being moved pauses them."""
    processes = server.processes()
    for process in processes:
        process.suspend()
    try:
        yield
    finally:
        for process in processes:
            process.resume()


def program(name: str) -> Path:
    """Where one of PostgreSQL's programs is, such as pg_dump."""
    return _packages() / "pgserver" / "pginstall" / "bin" / name


def _packages() -> Path:
    package = importlib.util.find_spec("pgserver")
    if package is None or not package.submodule_search_locations:
        raise RuntimeError("pgserver is not installed: run `pip install -e '.[dev]'`")
    return Path(package.submodule_search_locations[0]).parent


if __name__ == "__main__":
    for ending in (signal.SIGINT, signal.SIGTERM):
        signal.signal(ending, lambda *_: sys.exit(0))
    with PostgresProcess() as server:
        print(server.url(server.new_database()), flush=True)
        signal.pause()
