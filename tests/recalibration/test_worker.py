"""A refit, and the worker process that runs it."""

import json
import signal
import subprocess
import sys
import xml.etree.ElementTree as ET
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from monitor.errors import BrokenHandover, CorruptMap, InputError, NotEnoughData
from monitor.maps import METHODS, apply_map, fit_map
from monitor.maps.artifact import Artifact, from_bytes, to_bytes
from monitor.maps.labelled import LabelledEvents
from monitor.recalibration.data import refit_data
from monitor.recalibration.task_folder import RefitResult, RefitTask, read_result, write_task
from monitor.recalibration.worker import refit
from tests.recalibration.samples import sample

SECONDS = 300


def task(events: LabelledEvents, **changes: Any) -> RefitTask:
    plain = RefitTask("rc_1", "churn", "7", "beta", {}, 1_700_100_000_000, events, window_ms=10**12)
    return replace(plain, **changes)


def done(given: RefitTask, **options: Any) -> RefitResult:
    result = refit(given, draws=39, **options)
    assert result.error is None
    return result


def comparison_of(result: RefitResult) -> Mapping[str, Any]:
    assert result.comparison is not None
    return result.comparison


def map_of(result: RefitResult) -> Artifact:
    assert result.artifact is not None
    return from_bytes(result.artifact)


def test_a_refit_keeps_the_map_that_was_compared() -> None:
    events = sample(3000)
    steps: list[tuple[float, str]] = []
    found = done(task(events), progress=lambda step, share: steps.append((share, step)))
    held = refit_data(events, window_ms=10**12).held_out
    kept = map_of(found)
    assert kept.about == {
        "id": "rc_1",
        "model": "churn",
        "version": "7",
        "method": "beta",
        "options": dict(kept.about["options"]),
        "data_hash": comparison_of(found)["fit"]["data_hash"],
        "fitted_on": {key: comparison_of(found)["fit"][key] for key in ("n", "from", "to")},
        "created": "2023-11-16T02:00:00.000Z",
    }
    q = apply_map(kept.map, held.prediction)
    brier = comparison_of(found)["maps"]["challenger"]["measures"]["brier"]["value"]
    assert brier == pytest.approx(np.mean((q - held.outcome) ** 2))
    assert [share for share, _ in steps] == sorted(share for share, _ in steps)
    assert steps[0] == (0.0, "choosing the events")
    assert steps[-1] == (1.0, "done")


def test_the_same_task_gives_the_same_bytes() -> None:
    given = task(sample(2000, weighted=True), method="lore", window_ms=None)
    first, second = done(given), done(given)
    assert first.artifact == second.artifact
    assert json.dumps(first.comparison) == json.dumps(second.comparison)
    assert first.figures == second.figures


def test_pictures_are_of_what_there_is() -> None:
    full = done(task(sample(2000))).figures
    assert list(full) == ["reliability", "mlce_by_gamma", "local_map", "segments"]
    for picture in full.values():
        assert ET.fromstring(picture).tag.endswith("svg")
    assert list(done(task(sample(2000, dimensions=None))).figures) == ["reliability", "segments"]


def test_it_stands_against_what_serves() -> None:
    events = sample(6000, slope=2.0)
    champion = to_bytes(fit_map(METHODS["offset"], events), {"id": "rc_0"})
    found = done(task(events, champion=champion))
    assert comparison_of(found)["maps"]["champion"]["id"] == "rc_0"
    assert comparison_of(found)["maps"]["champion"]["method"] == "offset"
    assert comparison_of(found)["guard"]["against"] == "champion"
    assert comparison_of(found)["guard"]["passed"]


def test_a_change_of_calibration_is_where_the_data_begin() -> None:
    events = sample(6000, slope=1.0)
    flipped = events.outcome.copy()
    flipped[2500:] = np.where(np.random.default_rng(3).random(3500) < 0.4, 1, flipped[2500:])
    turned = replace(events, outcome=flipped)
    found = done(task(turned, window_ms=None))
    assert comparison_of(found)["fit"]["changed_at"] == comparison_of(found)["fit"]["from"]
    assert comparison_of(found)["fit"]["change_p_value"] <= 0.02
    assert comparison_of(found)["fit"]["n"] == pytest.approx(0.7 * 3500, abs=120)


def test_many_classes() -> None:
    found = done(task(sample(2000, classes=3, slope=2.0), method="temperature"))
    assert map_of(found).map.classes == 3
    assert "reliability" in found.figures


def test_what_cannot_be_is_refused_by_name() -> None:
    events = sample(1000)
    with pytest.raises(InputError, match="there is no recalibration method 'bete'; did you mean beta"):
        done(task(events, method="bete"))
    with pytest.raises(InputError, match="has no option 'gamma'"):
        done(task(events, options={"gamma": 1.0}))
    with pytest.raises(InputError, match="needs features, and these events have none"):
        done(task(sample(1000, dimensions=None), method="lore"))
    with pytest.raises(NotEnoughData, match="labelled events"):
        done(task(events.select(slice(0, 50))))
    with pytest.raises(CorruptMap):
        done(task(events, champion=b"no map"))


def command(*arguments: str) -> list[str]:
    return [sys.executable, "-m", "monitor.recalibration.worker", *arguments]


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
    (tmp_path / "events.npz").unlink()
    ended = run(tmp_path)
    assert ended.returncode == 1
    assert "BrokenHandover: events.npz cannot be read" in ended.stderr
    with pytest.raises(BrokenHandover, match=r"result\.json"):
        read_result(tmp_path)


def test_it_wants_one_folder() -> None:
    ended = subprocess.run(command(), capture_output=True, text=True, timeout=SECONDS, check=False)
    assert ended.returncode == 2
    assert ended.stderr == "usage: python -m monitor.recalibration.worker FOLDER\n"


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
sys.argv = ["monitor.recalibration.worker", sys.argv[1]]
try:
    runpy.run_module("monitor.recalibration.worker", run_name="__main__")
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
