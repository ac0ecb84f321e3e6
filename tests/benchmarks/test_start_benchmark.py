"""Starts: processor time of reports and of a service, and what a service holds before it has read anything."""

import compileall
import os
import resource
import statistics
import subprocess
import sys
import zipfile
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import numpy as np
import pytest

from tests.benchmarks.budgets import note
from tests.benchmarks.sizing import Place, Served
from tests.patience import eventually

pytestmark = pytest.mark.benchmark

CHECKOUT: Final = Path(__file__).parents[2]
ROWS: Final = 5_000
REPEATS: Final = 5


def installed(folder: Path) -> Path:
    """A new installation: the wheel, unpacked, with the bytecode that pip compiles."""
    build = ["wheel", "--quiet", "--no-deps", "--no-build-isolation", "--wheel-dir", str(folder), str(CHECKOUT)]
    subprocess.run([sys.executable, "-m", "pip", *build], check=True)
    (wheel,) = folder.glob("*.whl")
    zipfile.ZipFile(wheel).extractall(folder / "installed")
    compileall.compile_dir(folder / "installed", quiet=1)
    return folder / "installed"


def seconds(command: Sequence[str], environ: dict[str, str], folder: Path | None = None) -> float:
    """Processor time of a process in a folder, with those that it starts."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(
        [sys.executable, *command], env={**os.environ, **environ}, cwd=folder, capture_output=True, check=True
    )
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def test_starts(tmp_path: Path) -> None:
    rng = np.random.default_rng(1)
    p = rng.beta(2.0, 3.0, ROWS)
    table = tmp_path / "scores.csv"
    np.savetxt(
        table,
        np.column_stack([p, rng.random(ROWS) < p**1.2]),
        fmt=("%.6f", "%d"),
        delimiter=",",
        header="prediction,outcome",
        comments="",
    )
    new = {"PYTHONPATH": str(installed(tmp_path)), "NUMBA_CACHE_DIR": str(tmp_path / "kept")}
    report = ["-m", "monitor", "report", str(table)]
    note("fresh report", f"{seconds(report, new, tmp_path):.1f} s")
    note("warm report", f"{statistics.median(seconds(report, new, tmp_path) for _ in range(REPEATS)):.2f} s")
    imported = statistics.median(seconds(["-c", "import monitor.cli.report"], new, tmp_path) for _ in range(REPEATS))
    note("import", f"{imported:.2f} s")
    # With the loops of the installation, which the first start compiles.
    seconds(["-c", "from monitor.app.warmup import warm_up; warm_up()"], {})
    served = Served(tmp_path, {**Place(tmp_path).settings(), "access": {"mode": "off"}})
    try:
        eventually(lambda: served.get("/readyz"), pause_seconds=0.1)
        note("service", f"{served.cpu():.2f} s, {served.memory() / 2**20:.0f} MiB")
    finally:
        served.stop()
