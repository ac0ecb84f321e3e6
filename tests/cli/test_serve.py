"""`monitor serve`, as whoever supervises it sees it."""

import json
import signal
import socket
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from monitor.demo import Traffic
from tests.cli.command import inside, monitor, one_error_line, start
from tests.real.child import free_ports

START_MS = 1_790_000_000_000
HOUR_MS = 3_600_000

SETTINGS = """
source: {{embedded: {{directory: log}}}}
store: {{url: "sqlite:///state.db"}}
models: {{defaults: {{horizon: 10m, allowed_lateness: 5m}}}}
windows: [{{length: 1h}}]
evaluation: {{interval: 500ms, draws: 19}}
api: {{port: {port}}}
access: {{mode: 'off'}}
"""


class Served:
    """A running `monitor serve`."""

    def __init__(self, folder: Path, **environ: str) -> None:
        (self.port,) = free_ports(1)
        self.folder = folder
        (folder / "monitor.yaml").write_text(SETTINGS.format(port=self.port), encoding="utf-8")
        self.output = folder / "output.txt"
        with self.output.open("wb") as output:
            self.process = start("serve", cwd=folder, output=output, **environ)

    def get(self, path: str) -> tuple[int, Any]:
        """Status and JSON body; 0 while nothing listens."""
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self.port}{path}", timeout=10) as answer:
                return answer.status, json.loads(answer.read())
        except urllib.error.HTTPError as error:
            with error:
                return error.code, json.loads(error.read())
        except OSError:
            return 0, None

    def eventually(self, holds: Callable[[], bool], seconds: float = 120.0) -> None:
        deadline = time.monotonic() + seconds
        while not holds():
            assert self.process.poll() is None, self.output.read_text()
            assert time.monotonic() < deadline, self.output.read_text()
            time.sleep(0.05)

    def total(self, series: str) -> float:
        """The sum of a series over its labels."""
        with urllib.request.urlopen(f"http://127.0.0.1:{self.port}/metrics", timeout=10) as answer:
            lines = answer.read().decode().splitlines()
        return sum(float(line.rsplit(" ", 1)[1]) for line in lines if line.startswith((f"{series} ", f"{series}{{")))

    def end(self, number: int = signal.SIGTERM) -> int:
        """Send a signal; the exit status."""
        self.process.send_signal(number)
        return self.process.wait(timeout=30)

    def log(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.output.read_text().splitlines()]


@pytest.fixture
def serve(tmp_path: Path) -> Iterator[Callable[..., Served]]:
    running: list[Served] = []

    def begin(**environ: str) -> Served:
        served = Served(tmp_path, **environ)
        running.append(served)
        return served

    yield begin
    for served in running:
        if served.process.poll() is None:
            served.process.kill()
            served.process.wait()


def test_events_become_reports_and_sigterm_keeps_them(tmp_path: Path, serve: Callable[..., Served]) -> None:
    traffic = Traffic("events", start_ms=START_MS, change_ms=START_MS + HOUR_MS, seed=8, rate=0.3)
    values = [message.value or b"-" for message in traffic.until(START_MS + 2 * HOUR_MS)]
    (tmp_path / "events.jsonl").write_bytes(b"\n".join(values))

    first = serve()
    first.eventually(lambda: first.get("/readyz")[0] == 200)
    assert f"{len(values):,} events" in inside("replay", "events.jsonl", cwd=tmp_path).stdout
    path = "/v1/models/overconfident/report?window=1h"
    first.eventually(lambda: first.get(path)[0] == 200 and first.get(path)[1]["n"] > 500)
    first.eventually(lambda: first.total("calibration_events_total") == len(values))
    # An evaluation may be under way that began before the last of them was read; the one after it is of all.
    evaluations = first.total("calibration_evaluations_total")
    first.eventually(lambda: first.total("calibration_evaluations_total") >= evaluations + 2)
    report = first.get(path)[1]
    status = first.end()
    assert status == 0, first.output.read_text()
    assert first.log()[-1] | {"timestamp": "", "instance": ""} == {
        "event": "stopped",
        "instance": "",
        "level": "info",
        "logger": "monitor.app.service",
        "records_read": len(values),
        "timestamp": "",
    }

    # What was saved at the end is there again: nothing is read a second time.
    second = serve()
    second.eventually(lambda: second.get(path)[0] == 200 and second.get(path)[1]["n"] > 0)
    again = second.get(path)[1]
    assert (again["n"], again["positives"], again["from"], again["to"]) == (
        report["n"],
        report["positives"],
        report["from"],
        report["to"],
    )
    assert second.end(signal.SIGINT) == 0
    assert second.log()[-1]["records_read"] == 0


def test_sigterm_while_the_kernels_are_compiled_ends_it_too(tmp_path: Path, serve: Callable[..., Served]) -> None:
    (tmp_path / "cache").mkdir()
    served = serve(NUMBA_CACHE_DIR=str(tmp_path / "cache"))
    served.eventually(lambda: served.get("/healthz")[0] == 200)
    status, body = served.get("/readyz")
    assert (status, body["phase"]) == (503, "starting")
    status = served.end()
    assert status == 0, served.output.read_text()


def test_rest_serves_while_the_broker_does_not(tmp_path: Path, serve: Callable[..., Served]) -> None:
    served = serve(MONITOR__SOURCE__KIND="kafka", MONITOR__SOURCE__KAFKA__BOOTSTRAP_SERVERS="127.0.0.1:1")
    served.eventually(
        lambda: served.get("/readyz")[0] == 503 and served.get("/readyz")[1]["phase"] == "source_unavailable"
    )
    assert "127.0.0.1:1" in served.get("/readyz")[1]["detail"]
    assert served.get("/v1/models")[0] == 200
    status = served.end()
    assert status == 0, served.output.read_text()


def test_a_taken_port_is_one_line_and_status_2(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        (tmp_path / "monitor.yaml").write_text(SETTINGS.format(port=port), encoding="utf-8")
        done = monitor("serve", cwd=tmp_path)
    assert done.returncode == 2
    assert one_error_line(done).startswith(f"api.port: cannot listen on 127.0.0.1:{port}: the port is taken")


def test_a_store_of_another_kind_is_one_line_and_status_1(tmp_path: Path) -> None:
    (tmp_path / "monitor.yaml").write_text(SETTINGS.format(port=0), encoding="utf-8")
    (tmp_path / "state.db").write_bytes(b"no database at all" * 100)
    done = monitor("serve", cwd=tmp_path)
    assert done.returncode == 1
    assert "is no SQLite file" in one_error_line(done)


def test_a_second_interrupt_ends_it_at_once(tmp_path: Path, serve: Callable[..., Served]) -> None:
    served = serve()
    served.eventually(lambda: served.get("/readyz")[0] == 200)
    served.process.send_signal(signal.SIGINT)
    served.process.send_signal(signal.SIGINT)
    try:
        status = served.process.wait(timeout=10)
    except subprocess.TimeoutExpired:
        pytest.fail(served.output.read_text())
    # The two may have come as one.
    assert status in {0, 1, 130}
