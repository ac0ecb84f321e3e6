"""SIGTERM to real processes: what waits is delivered, and the process ends as it would have ended without that."""

import json
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Final

import pytest

from tests.patience import PATIENCE_SECONDS

COUNT: Final = 3_000
HEAD: Final = f"""
import os, signal, sys, threading, time
from monitor.logging import File, PredictionLogger

def make(**arguments):
    return PredictionLogger("churn", to=File(sys.argv[1]), **arguments)

def log(predictions):
    for number in range({COUNT}):
        predictions.log(0.5, id=str(number))
    print("ready", flush=True)

def wait():
    while True:
        time.sleep(0.01)
"""


def end_by_sigterm(script: str, file: Path, *, seconds: float = 0.0) -> tuple[int, str]:
    """Run a script until it says that it is ready, and send SIGTERM then; its exit status, and what else it wrote."""
    process = subprocess.Popen([sys.executable, "-c", HEAD + script, str(file)], stdout=subprocess.PIPE, text=True)
    with process:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        time.sleep(seconds)
        process.send_signal(signal.SIGTERM)
        output, _ = process.communicate(timeout=PATIENCE_SECONDS)
    return process.returncode, output


def ids(file: Path) -> list[str]:
    return [json.loads(line)["id"] for line in file.read_text("utf-8").splitlines()] if file.exists() else []


ALL: Final = [str(number) for number in range(COUNT)]


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "events.jsonl"


def test_without_a_handler_it_is_delivered_and_the_status_is_that_of_the_signal(file: Path) -> None:
    assert end_by_sigterm("log(make()); wait()", file) == (-signal.SIGTERM, "")
    assert ids(file) == ALL


def test_two_loggers_and_a_main_thread_that_waits_for_another(file: Path) -> None:
    script = """
first, second = make(), make()
second.log(0.5, id="second")
log(first)
threading.Thread(target=wait, daemon=True).start()
threading.Event().wait()
"""
    assert end_by_sigterm(script, file) == (-signal.SIGTERM, "")
    assert sorted(ids(file)) == sorted([*ALL, "second"])


def test_a_handler_that_was_there_is_called_after_the_delivery_and_may_log_on(file: Path) -> None:
    script = """
def ended(number, frame):
    print("ended", number, sum(1 for _ in open(sys.argv[1])), predictions.stats().pending)
    predictions.log(0.5, id="last")
    sys.exit(3)

signal.signal(signal.SIGTERM, ended)
predictions = make()
log(predictions)
wait()
"""
    assert end_by_sigterm(script, file) == (3, f"ended 15 {COUNT} 0\n")
    assert ids(file) == [*ALL, "last"]


def test_a_handler_that_comes_later_decides_and_may_call_this_one(file: Path) -> None:
    """One that is installed between two loggers is called once."""
    script = """
predictions = make()
before = signal.getsignal(signal.SIGTERM)

def ended(number, frame):
    print("ended")
    before(number, frame)
    print("delivered", predictions.stats().pending, flush=True)
    sys.exit(4)

signal.signal(signal.SIGTERM, ended)
if len(sys.argv) > 2:
    other = make()
log(predictions)
wait()
"""
    assert end_by_sigterm(script, file) == (4, "ended\ndelivered 0\n")
    assert ids(file) == ALL
    file.unlink()
    assert end_by_sigterm(script.replace("len(sys.argv) > 2", "True"), file) == (4, "ended\ndelivered 0\n")
    assert ids(file) == ALL


@pytest.mark.parametrize(
    "script",
    [
        "made = [make(deliver_at_sigterm=False)]",
        "made = []; maker = threading.Thread(target=lambda: made.append(make())); maker.start(); maker.join()",
    ],
)
def test_none_is_installed_where_it_is_not_wanted_or_cannot_be(script: str, file: Path) -> None:
    script += "\nassert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL; log(made[0]); wait()"
    assert end_by_sigterm(script, file) == (-signal.SIGTERM, "")


def test_a_signal_that_is_ignored_stays_ignored(file: Path) -> None:
    script = """
signal.signal(signal.SIGTERM, signal.SIG_IGN)
log(make())
time.sleep(0.5)
sys.exit(5)
"""
    assert end_by_sigterm(script, file) == (5, "")


def test_a_destination_that_hangs_holds_the_end_for_its_bound_alone(file: Path) -> None:
    script = """
class Hangs:
    def deliver(self, events, seconds_left):
        time.sleep(60)
    def close(self): ...
    def forget_connection(self): ...

log(PredictionLogger("churn", to=Hangs(), exit_seconds=1.0)); wait()
"""
    began = time.monotonic()
    assert end_by_sigterm(script, file)[0] == -signal.SIGTERM
    assert time.monotonic() - began < 1.0 + PATIENCE_SECONDS / 2


@pytest.mark.parametrize("seconds", [0.0, 0.05, 0.2, 0.35])
def test_a_scorer_that_never_stops_logging_loses_nothing_that_it_logged(file: Path, seconds: float) -> None:
    """The signal comes anywhere in a call: what a call returned from is delivered, once and in order."""
    script = """
import mmap
predictions = make(max_events=10_000_000, max_bytes=1 << 34)
count = os.open(sys.argv[1] + ".count", os.O_RDWR | os.O_CREAT)
os.truncate(count, 8)
logged = memoryview(mmap.mmap(count, 8)).cast("q")
print("ready", flush=True)
number = 0
while True:
    predictions.log(0.5, id=str(number))
    number += 1
    logged[0] = number
"""
    assert end_by_sigterm(script, file, seconds=seconds) == (-signal.SIGTERM, "")
    logged = int.from_bytes(file.with_name(f"{file.name}.count").read_bytes(), sys.byteorder)
    delivered = ids(file)
    assert delivered == [str(number) for number in range(len(delivered))]
    assert len(delivered) in {logged, logged + 1}, "the last call may not have returned"
