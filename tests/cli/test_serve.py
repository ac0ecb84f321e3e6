"""`monitor serve`, as whoever supervises it sees it."""

import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from monitor.simulation.traffic import Traffic
from tests.cli.command import environment, forked, inside, one_error_line
from tests.cli.kafka_service import Served
from tests.last_events import last_events
from tests.patience import PATIENCE_SECONDS, eventually

START_MS = 1_790_000_000_000
MINUTE_MS = 60_000
HOUR_MS = 60 * MINUTE_MS

SETTINGS = """
source: {{embedded: {{directory: log}}}}
store: {{url: "sqlite:///state.db"}}
models: {{defaults: {{horizon: 10m, allowed_lateness: 5m}}}}
windows: [{{length: 1h}}]
evaluation: {{interval: 500ms, draws: 19}}
api: {{port: {port}}}
access: {{mode: 'off'}}
"""


class Supervised(Served):
    """A running `monitor serve` on the settings above."""

    def __init__(self, folder: Path, **environ: str) -> None:
        (folder / "monitor.yaml").write_text(SETTINGS.format(port=0), encoding="utf-8")
        super().__init__(folder, **environ)

    def total(self, series: str) -> float:
        """The sum of a series over its labels."""
        return sum(value for (name, _), value in self.samples().items() if name == series)

    def end(self, number: int = signal.SIGTERM) -> int:
        """Send a signal; the exit status."""
        self.process.send_signal(number)
        return self.process.wait(PATIENCE_SECONDS)


@pytest.fixture
def serve(tmp_path: Path) -> Iterator[Callable[..., Supervised]]:
    with ExitStack() as running:
        yield lambda **environ: running.enter_context(Supervised(tmp_path, **environ))


def test_events_become_reports_and_sigterm_keeps_them(tmp_path: Path, serve: Callable[..., Supervised]) -> None:
    traffic = Traffic("events", start_ms=START_MS, change_ms=START_MS + HOUR_MS, seed=8, rate=0.3)
    values = [message.value or b"-" for message in traffic.until(START_MS + 2 * HOUR_MS)]
    last_ms = START_MS + 2 * HOUR_MS + 20 * MINUTE_MS
    values += last_events(last_ms)
    (tmp_path / "events.jsonl").write_bytes(b"\n".join(values))

    first = serve()
    first.ready()
    assert f"{len(values):,} events" in inside("replay", "events.jsonl", cwd=tmp_path).stdout
    path = "/v1/models/overconfident/report?window=1h"
    first.eventually(lambda: first.total("calibration_events_total") == len(values), first.samples)
    # By horizon and lateness behind the last events, less a pane: nothing is settled between these and the others.
    settled = ("calibration_settled_timestamp_seconds", frozenset({("model", "overconfident")}))
    first.eventually(lambda: first.samples().get(settled, 0.0) * 1000 >= last_ms - 16 * MINUTE_MS, first.samples)
    report = first.get(path)[1]
    assert report["n"] > 500
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
    second.ready()
    second.eventually(lambda: second.get(path)[0] == 200)
    again = second.get(path)[1]
    assert (again["n"], again["positives"], again["from"], again["to"]) == (
        report["n"],
        report["positives"],
        report["from"],
        report["to"],
    )
    assert second.end(signal.SIGINT) == 0
    assert second.log()[-1]["records_read"] == 0


def test_sigterm_while_the_kernels_are_compiled_ends_it_too(tmp_path: Path, serve: Callable[..., Supervised]) -> None:
    (tmp_path / "cache").mkdir()
    # Of this name of a processor the package holds none.
    served = serve(NUMBA_CACHE_DIR=str(tmp_path / "cache"), NUMBA_CPU_NAME="generic")
    served.eventually(lambda: served.get("/healthz")[0] == 200)
    status, body = served.get("/readyz")
    assert (status, body["phase"]) == (503, "starting")
    status = served.end()
    assert status == 0, served.output.read_text()


def test_rest_serves_while_the_broker_does_not(tmp_path: Path, serve: Callable[..., Supervised]) -> None:
    served = serve(MONITOR__SOURCE__KIND="kafka", MONITOR__SOURCE__KAFKA__BOOTSTRAP_SERVERS="127.0.0.1:1")
    status, detail = served.says("127.0.0.1:1")
    assert (status, detail.partition(": ")[0]) == (503, "source_unavailable")
    assert served.get("/v1/models")[0] == 200
    status = served.end()
    assert status == 0, served.output.read_text()


def test_a_taken_port_is_one_line_and_status_2(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        (tmp_path / "monitor.yaml").write_text(SETTINGS.format(port=port), encoding="utf-8")
        done = forked("serve", cwd=tmp_path)
    assert done.returncode == 2
    assert one_error_line(done).startswith(f"api.port: cannot listen on 127.0.0.1:{port}: the port is taken")


def test_a_store_of_another_kind_is_one_line_and_status_1(tmp_path: Path) -> None:
    (tmp_path / "monitor.yaml").write_text(SETTINGS.format(port=0), encoding="utf-8")
    (tmp_path / "state.db").write_bytes(b"no database at all" * 100)
    done = forked("serve", cwd=tmp_path)
    assert done.returncode == 1
    assert "is not a SQLite file" in one_error_line(done)


def test_an_address_that_is_none_is_one_line_and_status_2(tmp_path: Path) -> None:
    (tmp_path / "monitor.yaml").write_text("store: {url: 'user:secret'}", encoding="utf-8")
    done = forked("serve", cwd=tmp_path)
    assert done.returncode == 2
    assert one_error_line(done).startswith("store.url must look like sqlite:///")
    assert "secret" not in done.stderr


# A service whose end would take for ever, in a main thread that no signal wakes.
STUCK = """
import signal, threading
from monitor.app.service import Service

def stop(service):
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    print("ending", flush=True)
    threading.Event().wait()

Service.stop = stop
from monitor.cli.main import main
main()
"""


def test_a_second_interrupt_ends_it_whatever_it_waits_for(tmp_path: Path) -> None:
    (tmp_path / "monitor.yaml").write_text(SETTINGS.format(port=0), encoding="utf-8")
    output = tmp_path / "output.txt"
    with output.open("wb") as stream:
        process = subprocess.Popen(
            [sys.executable, "-c", STUCK, "serve"],
            cwd=tmp_path,
            env=environment(TMPDIR=str(tmp_path)),
            stdout=stream,
            stderr=subprocess.STDOUT,
        )
    try:
        for said in ("kernels compiled", "ending\n"):
            eventually(lambda said=said: said in output.read_text(), shown=output.read_text)  # type: ignore[misc]
            process.send_signal(signal.SIGINT)
        assert process.wait(PATIENCE_SECONDS) == 130, output.read_text()
    finally:
        process.kill()
        process.wait(PATIENCE_SECONDS)
