"""A scorer under the servers that are used for it, ended by SIGTERM, as Kubernetes does: no prediction is lost.

Without a handler of ours, uvicorn's processes lost all that waited, with workers, without, and under gunicorn.
"""

import os
import signal
import subprocess
import sys
import urllib.error
import urllib.request
import uuid
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import pytest

from tests.logging.test_kafka import PARTITIONS, records
from tests.patience import PATIENCE_SECONDS, eventually
from tests.real.child import free_ports
from tests.real.kafka import KafkaBroker

pytestmark = pytest.mark.kafka

REQUESTS: Final = 60
SCORER: Final = """
import os
from monitor.logging import Kafka, PredictionLogger

predictions = PredictionLogger(
    "churn", to=Kafka(os.environ["BROKER"], os.environ["TOPIC"]), exit_seconds=60
)

def wsgi(environ, start):
    body = predictions.log(0.5).encode()
    start("200 OK", [("content-type", "text/plain"), ("content-length", str(len(body)))])
    return [body]

async def asgi(scope, receive, send):
    if scope["type"] == "http":
        body = predictions.log(0.5).encode()
        await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"%d" % len(body))]})
        await send({"type": "http.response.body", "body": body})
"""
GUNICORN: Final = ("gunicorn", "--workers", "2", "--graceful-timeout", "60")
SERVERS: Final = {
    "gunicorn": (*GUNICORN, "scorer:wsgi"),
    "gunicorn, preloaded": (*GUNICORN, "--preload", "scorer:wsgi"),
    "gunicorn, threads": (*GUNICORN, "--worker-class", "gthread", "--threads", "2", "scorer:wsgi"),
    "gunicorn, uvicorn's workers": (*GUNICORN, "--worker-class", "uvicorn.workers.UvicornWorker", "scorer:asgi"),
    "uvicorn": ("uvicorn", "scorer:asgi"),
    "uvicorn, workers": ("uvicorn", "--workers", "2", "scorer:asgi"),
}


@pytest.mark.parametrize("server", SERVERS)
def test_what_was_answered_is_in_the_log(server: str, kafka_broker: KafkaBroker, tmp_path: Path) -> None:
    topic = kafka_broker.create_topic(f"server-{uuid.uuid4().hex[:8]}", PARTITIONS)
    answers = score(SERVERS[server], kafka_broker, topic, tmp_path)
    assert sorted(key for _, key, _ in records(kafka_broker, topic)) == sorted(answers)


def score(server: Sequence[str], broker: KafkaBroker, topic: str, folder: Path) -> list[str]:
    """Id of each prediction that was answered, the last one just before SIGTERM."""
    (folder / "scorer.py").write_text(SCORER)
    name, *arguments = server
    (port,) = free_ports(1)
    bind = ["--bind", f"127.0.0.1:{port}"] if name == "gunicorn" else ["--port", str(port)]
    environ = os.environ | {"BROKER": broker.bootstrap, "TOPIC": topic}
    environ["PYTHONPATH"] = os.pathsep.join([str(folder), str(Path.cwd()), environ.get("PYTHONPATH", "")])
    command = [sys.executable, "-W", "ignore", "-m", name, *bind, *arguments]
    with (folder / "server.log").open("wb") as log:
        process = subprocess.Popen(command, cwd=folder, env=environ, stdout=log, stderr=log)
        try:
            first = eventually(lambda: ask(port) or "", shown=(folder / "server.log").read_text)
            answers = [first, *(answer for _ in range(REQUESTS) if (answer := ask(port)))]
        finally:
            process.send_signal(signal.SIGTERM)
            process.wait(PATIENCE_SECONDS)
    assert len(answers) == 1 + REQUESTS
    return answers


def ask(port: int) -> str | None:
    """Id of a prediction; None where no server answers."""
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/", timeout=PATIENCE_SECONDS) as response:
            return str(response.read().decode())
    except (urllib.error.URLError, ConnectionError):
        return None
