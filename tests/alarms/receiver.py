"""A real HTTP receiver of webhooks on the loopback address."""

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from tests.patience import joined


class Receiver(ThreadingHTTPServer):
    """Answers with the statuses that a test queues, then with 200; keeps what came."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.statuses: list[int] = []
        self.requests: list[tuple[int, dict[str, str], bytes]] = []
        """Status of the answer, headers, body."""
        self.page = b""
        """The body of each answer, HTML."""
        self.hangs = threading.Event()
        """While it is set, no request is answered."""
        self.drips = False
        """Whether a header line without an end comes, byte by byte."""
        self.goes_on = threading.Event()
        """Ends those that hang."""

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}/calibration"

    def taken(self) -> list[dict[str, Any]]:
        """What it answered well."""
        return [json.loads(body) for status, _, body in self.requests if status == 200]


class _Handler(BaseHTTPRequestHandler):
    server: Receiver

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["content-length"]))
        if self.server.drips:
            self.wfile.write(b"HTTP/1.1 200 OK\r\nx: ")
            with suppress(OSError):  # until the sender has gone
                while not self.server.goes_on.wait(0.01):
                    self.wfile.write(b"x")
            self.close_connection = True
            return
        if self.server.hangs.is_set():
            self.server.requests.append((0, dict(self.headers), body))
            self.server.goes_on.wait()
            return
        status = self.server.statuses.pop(0) if self.server.statuses else 200
        self.server.requests.append((status, {name.lower(): text for name, text in self.headers.items()}, body))
        self.send_response(status)
        self.send_header("content-type", "text/html")
        self.send_header("content-length", str(len(self.server.page)))
        self.end_headers()
        self.wfile.write(self.server.page)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the name in the library
        pass


@contextmanager
def receiver() -> Iterator[Receiver]:
    """A receiver that runs until the end of the block."""
    with Receiver() as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.05,))
        thread.start()
        try:
            yield server
        finally:
            server.goes_on.set()
            server.shutdown()
            joined(thread)
