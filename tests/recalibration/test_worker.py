"""A refit, and the worker process that runs it."""

import json
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, BinaryIO

import msgspec
import numpy as np
import pytest

from monitor.errors import CorruptMap, InputError, NotEnoughData
from monitor.maps import METHODS, apply_map, fit_map
from monitor.maps.artifact import Artifact, from_bytes, to_bytes
from monitor.recalibration.data import refit_data
from monitor.recalibration.worker import refit
from monitor.recalibration.worker_process import RefitResult, RefitTask, WorkerMessage, write_task
from monitor.scores.labelled import LabelledEvents
from monitor.store.recalibrations import Job, JobState, Sample
from tests.long import short_rows
from tests.recalibration.samples import sample

SECONDS = 300


Given = tuple[RefitTask, Sample]


def task(
    events: LabelledEvents,
    *,
    method: str = "beta",
    options: Mapping[str, Any] | None = None,
    window_ms: int | None = 10**12,
    left_out: Mapping[str, int] | None = None,
    **changes: Any,
) -> Given:
    job = Job(
        "churn", "7", method, options or {}, window_ms, id="rc_1", state=JobState.RUNNING, requested_ms=0, actor="ada"
    )
    return RefitTask(job, created_ms=1_700_100_000_000, **changes), Sample(events, len(events), left_out or {})


def done(given: Given, **options: Any) -> RefitResult:
    result = refit(*given, draws=39, **options)
    assert result.failure is None
    return result


def comparison_of(result: RefitResult) -> Mapping[str, Any]:
    assert result.comparison is not None
    return result.comparison.to_dict()


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
    assert first.comparison == second.comparison
    assert first.figures == second.figures


def test_pictures_are_of_what_there_is() -> None:
    full = done(task(sample(2000))).figures
    assert list(full) == ["reliability", "mlce_by_gamma", "local_map", "segments"]
    for name, kind in {"reliability": "reliability", "mlce_by_gamma": "lines", "local_map": "plane"}.items():
        assert json.loads(full[name])["kind"] == kind
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


COMMAND = [sys.executable, "-m", "monitor.recalibration.worker"]


def run(folder: Path, given: Given, command: Sequence[str] = COMMAND) -> "subprocess.CompletedProcess[str]":
    with task_file(folder, given) as file:
        return subprocess.run(command, stdin=file, capture_output=True, text=True, timeout=SECONDS, check=False)


def task_file(folder: Path, given: Given) -> BinaryIO:
    with (folder / "task").open("wb") as file:
        write_task(*given, file)
    return (folder / "task").open("rb")


def messages(output: str) -> list[WorkerMessage]:
    return [msgspec.json.decode(line, type=WorkerMessage) for line in output.splitlines() if line]


def result_of(ended: "subprocess.CompletedProcess[str]") -> RefitResult:
    assert (ended.returncode, ended.stderr) == (0, "")
    result = messages(ended.stdout)[-1].result
    assert result is not None
    return result


def test_a_worker_fits_compares_draws_and_reports(tmp_path: Path) -> None:
    events = sample(4000, slope=2.0)
    champion = to_bytes(fit_map(METHODS["offset"], events), {"id": "rc_0"})
    ended = run(tmp_path, task(events, champion=champion, left_out={"features missing": 2}, tolerance=0.2))
    result = result_of(ended)
    shares = [message.progress for message in messages(ended.stdout)]
    assert shares == sorted(shares)
    assert (shares[0], shares[-1]) == (0.0, 1.0)
    assert "fitting Beta calibration" in [message.step for message in messages(ended.stdout)]
    document = comparison_of(result)
    assert document["guard"]["against"] == "champion"
    assert document["fit"]["left_out"] == {"features missing": 2}
    assert document["maps"]["none"]["verdict"]["tolerance"] == 0.2
    assert list(result.figures) == ["reliability", "mlce_by_gamma", "local_map", "segments"]
    kept = map_of(result)
    assert kept.about["id"] == "rc_1"
    assert apply_map(kept.map, [0.95])[0] < 0.95


@pytest.mark.parametrize(
    ("given", "failure"),
    short_rows(
        [
            (task(sample(60)), "42 labelled events to fit on (60 of the window), at least 100"),
            (task(sample(900, dimensions=None), method="lore"), "lore needs features, and these events have none"),
            (task(sample(900), champion=b"no map"), "the map that serves: "),
        ],
        1,
    ),
)
def test_an_error_that_lies_in_the_task_is_in_the_result(tmp_path: Path, given: Given, failure: str) -> None:
    result = result_of(run(tmp_path, given))
    assert (result.artifact, result.comparison) == (None, None)
    assert result.failure is not None
    assert result.failure.startswith(failure)


def test_the_task_arrives_as_it_was_sent(tmp_path: Path) -> None:
    values = ["", "größer als 3", "a,b", "\n"] * 300
    p = np.linspace(0.1, 0.9, 1200)
    y = np.random.default_rng(1).random(1200) < p
    events = LabelledEvents.of(p, y.astype(int), segments={"Schlüssel:x": values})
    given = task(events, method="group_wise_beta", options={"segment": "Schlüssel:x"})
    assert result_of(run(tmp_path, given)).comparison == refit(*given).comparison


def test_an_unexpected_error_ends_it_with_1_and_leaves_no_result(tmp_path: Path) -> None:
    task_file(tmp_path, task(sample(900))).close()
    (tmp_path / "task").write_bytes((tmp_path / "task").read_bytes()[:-1000])
    with (tmp_path / "task").open("rb") as file:
        ended = subprocess.run(COMMAND, stdin=file, capture_output=True, text=True, timeout=SECONDS, check=False)
    assert ended.returncode == 1
    assert "BadZipFile" in ended.stderr
    assert messages(ended.stdout)[-1].result is None


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_a_signal_ends_it_at_once_and_leaves_no_result(tmp_path: Path, number: signal.Signals) -> None:
    with (
        task_file(tmp_path, task(sample(20_000), method="lore")) as file,
        subprocess.Popen(COMMAND, stdin=file, stdout=subprocess.PIPE, text=True) as process,
    ):
        assert process.stdout is not None
        for line in process.stdout:
            if any(message.progress >= 0.1 for message in messages(line)):
                break
        process.send_signal(number)
        assert process.wait(SECONDS) == -number
        assert all(message.result is None for message in messages(process.stdout.read()))


PEAK = """
import resource, runpy, sys
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
    ended = run(tmp_path, task(events, method="lore"), [sys.executable, "-c", PEAK])
    assert ended.returncode == 0, ended.stderr
    assert messages(ended.stdout)[-1].result is not None
    peak = int(ended.stderr)
    print(f"refit of {n:,} x {dimensions}: {peak / 1024:,.0f} MB at most")
    assert peak < 1024**2
