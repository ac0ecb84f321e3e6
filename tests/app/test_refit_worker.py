"""The worker as the service starts it: a process of its own."""

import json
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from monitor.app.refit_task import read_result, write_task
from monitor.errors import BrokenHandover
from monitor.maps import METHODS, apply_map, fit_map
from monitor.maps.artifact import from_bytes, to_bytes
from monitor.maps.labelled import LabelledEvents
from monitor.recalibration.fitting_task import RefitTask
from tests.recalibration.samples import sample

SECONDS = 300


def task(events: LabelledEvents, **changes: Any) -> RefitTask:
    plain = RefitTask("rc_1", "churn", "7", "beta", {}, 1_700_100_000_000, events, window_ms=10**12)
    return replace(plain, **changes)


def command(*arguments: str) -> list[str]:
    return [sys.executable, "-m", "monitor.app.refit_worker", *arguments]


def run(folder: Path) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(command(str(folder)), capture_output=True, text=True, timeout=SECONDS, check=False)


def test_a_worker_fits_compares_draws_and_tells(tmp_path: Path) -> None:
    events = sample(4000, slope=2.0)
    champion = to_bytes(fit_map(METHODS["offset"], events), {"id": "rc_0"})
    write_task(tmp_path, task(events, champion=champion, left_out={"features missing": 2}, tolerance=0.2))
    ended = run(tmp_path)
    assert (ended.returncode, ended.stderr) == (0, "")
    told = [json.loads(line) for line in ended.stdout.splitlines()]
    shares = [each["progress"] for each in told]
    assert shares == sorted(shares)
    assert (shares[0], shares[-1]) == (0.0, 1.0)
    assert "fitting Beta calibration" in [each["step"] for each in told]
    found = read_result(tmp_path)
    assert found.comparison is not None
    assert found.artifact is not None
    assert found.comparison["guard"]["against"] == "champion"
    assert found.comparison["fit"]["left_out"] == {"features missing": 2}
    assert found.comparison["maps"]["none"]["verdict"]["tolerance"] == 0.2
    assert list(found.figures) == ["reliability", "mlce_by_gamma", "local_map", "segments"]
    kept = from_bytes(found.artifact)
    assert kept.about["id"] == "rc_1"
    assert apply_map(kept.map, [0.95])[0] < 0.95


@pytest.mark.parametrize(
    ("changes", "error", "detail"),
    [
        ({"events": sample(60)}, "NotEnoughData", "42 labelled events to fit on (60 of the window), at least 100"),
        ({"method": "lore", "events": sample(900, dimensions=None)}, "InputError", "lore needs features"),
        ({"champion": b"no map"}, "CorruptMap", "the map that serves: "),
    ],
)
def test_what_lies_in_the_task_is_told_in_the_result(
    tmp_path: Path, changes: dict[str, Any], error: str, detail: str
) -> None:
    write_task(tmp_path, replace(task(sample(900)), **changes))
    ended = run(tmp_path)
    assert (ended.returncode, ended.stderr) == (0, "")
    found = read_result(tmp_path)
    assert found.error == error
    assert found.detail is not None
    assert found.detail.startswith(detail)


def test_what_is_unexpected_ends_it_with_1_and_leaves_no_result(tmp_path: Path) -> None:
    write_task(tmp_path, task(sample(900)))
    (tmp_path / "events.arrow").unlink()
    ended = run(tmp_path)
    assert ended.returncode == 1
    assert "BrokenHandover: events.arrow cannot be read" in ended.stderr
    with pytest.raises(BrokenHandover, match=r"result\.json"):
        read_result(tmp_path)


def test_it_wants_one_folder() -> None:
    ended = subprocess.run(command(), capture_output=True, text=True, timeout=SECONDS, check=False)
    assert ended.returncode == 2
    assert ended.stderr == "usage: python -m monitor.app.refit_worker FOLDER\n"


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_a_signal_ends_it_at_once_and_leaves_no_result(tmp_path: Path, number: signal.Signals) -> None:
    write_task(tmp_path, task(sample(20_000), method="lore"))
    with subprocess.Popen(command(str(tmp_path)), stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        for line in process.stdout:
            if json.loads(line)["progress"] >= 0.1:
                break
        process.send_signal(number)
        assert process.wait(SECONDS) == -number
    with pytest.raises(BrokenHandover, match=r"result\.json"):
        read_result(tmp_path)


PEAK = """
import resource, runpy, sys
sys.argv = ["monitor.app.refit_worker", sys.argv[1]]
try:
    runpy.run_module("monitor.app.refit_worker", run_name="__main__")
finally:
    sys.stderr.write(str(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss))
"""


@pytest.mark.benchmark
def test_a_large_sample_fits_into_a_gigabyte(tmp_path: Path) -> None:
    rng = np.random.default_rng(1)
    n, dimensions = 100_000, 50
    x = rng.normal(size=(n, dimensions))
    z = 1.2 * x[:, 0]
    y = rng.random(n) < 1.0 / (1.0 + np.exp(-z))
    events = LabelledEvents.of(1.0 / (1.0 + np.exp(-1.5 * z)), y.astype(int), features=x)
    write_task(tmp_path, task(events, method="lore"))
    ended = subprocess.run(
        [sys.executable, "-c", PEAK, str(tmp_path)], capture_output=True, text=True, timeout=SECONDS, check=False
    )
    assert ended.returncode == 0, ended.stderr
    assert read_result(tmp_path).comparison is not None
    peak = int(ended.stderr)
    print(f"refit of {n:,} x {dimensions}: {peak / 1024:,.0f} MB at most")
    assert peak < 1024**2
