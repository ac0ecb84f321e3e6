"""A worker that fits nothing and whose guard decides as it is told: the process that tests answers for it.

So it need not load the libraries, which would take a hundred times as long as what it does.
"""

import io
import socketserver
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

import msgspec

from monitor.maps.artifact import to_bytes
from monitor.maps.identity import Identity
from monitor.recalibration.comparison import Comparison
from monitor.recalibration.worker_process import RefitResult, WorkerMessage, read_task
from tests.patience import joined
from tests.recalibration.comparisons import comparison

_PROGRAM: Final = """
import socket, sys
with socket.create_connection(("127.0.0.1", int(sys.argv[1]))) as connection:
    connection.sendall(sys.argv[2].encode() + b"\\n" + sys.stdin.buffer.read())
    connection.shutdown(socket.SHUT_WR)
    with connection.makefile("rb") as answer:
        sys.stdout.buffer.write(answer.read())
"""


@contextmanager
def obedient_worker() -> Iterator[list[str]]:
    """The command of such a worker, but for how it is to end."""
    with socketserver.TCPServer(("127.0.0.1", 0), _Answer) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.05,))
        thread.start()
        try:
            yield [sys.executable, "-IS", "-c", _PROGRAM, str(server.server_address[1])]
        finally:
            server.shutdown()
            joined(thread)


class _Answer(socketserver.StreamRequestHandler):
    def handle(self) -> None:
        how = self.rfile.readline().decode().strip()
        task, sample = read_task(io.BytesIO(self.rfile.read()))
        passed = how != "rejected"
        document = comparison(n=len(sample.events))
        against = "none" if task.champion is None else "champion"
        reasons = [] if passed else ["It is not better.", "It is worse."]
        document["guard"] |= {"passed": passed, "reasons": reasons, "against": against}
        artifact = to_bytes(Identity(), {"id": task.job.id, "model": task.job.model})
        if how == "unreadable":
            artifact = artifact[:-100]
        line = msgspec.json.encode(
            WorkerMessage(1.0, "done", RefitResult(artifact, Comparison.of(document), {"reliability": b"{}"}))
        )
        if how == "spoils":
            line = line[:-100]
        self.wfile.write(line + b"\n")
