"""Reading, joining, saving and closing, in a process as users run it: processor time, memory, and a restart."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Final

import pytest
import yaml

from tests.benchmarks.budgets import note
from tests.benchmarks.intake import Intake
from tests.benchmarks.sizing import Size, write_log

pytestmark = [pytest.mark.benchmark, pytest.mark.timeout(3600)]

ONE: Final = Size(1_000_000, days=1.5)
MANY: Final = Size(1_000_000, models=200, segments=4, days=1.5)
PENDING: Final = Size(1_000_000, answered=0.0, horizon="10d")
TEN_MILLION: Final = Size(10_000_000, answered=0.0, horizon="10d")
_MIB: Final = 1 << 20


def prepare(folder: Path, size: Size) -> Path:
    """Write the log and the settings."""
    write_log(folder, size)
    tree = {
        "source": {"embedded": {"directory": str(folder / "log")}},
        "store": {"url": f"sqlite:///{folder / 'state.db'}"},
        "models": {"defaults": {"horizon": size.horizon, "segments": ["region"] if size.segments else []}},
        "access": {"mode": "off"},
        # Standard output is for the result.
        "log": {"level": "error"},
    }
    file = folder / "monitor.yaml"
    file.write_text(yaml.safe_dump(tree), encoding="utf-8")
    return file


def intake(file: Path) -> Intake:
    """Read the log in a process of its own."""
    command = [sys.executable, "-m", "tests.benchmarks.intake", str(file)]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
    return Intake(**json.loads(done.stdout.splitlines()[-1]))


@pytest.mark.parametrize(("size", "row"), [(ONE, "one series, processor"), (MANY, "1,000 series")])
def test_reading_costs_the_same_for_one_series_and_for_a_thousand(size: Size, row: str, tmp_path: Path) -> None:
    done = intake(prepare(tmp_path, size))
    rate = done.records / done.read_seconds
    note(row, f"{rate:,.0f} per processor second, {done.peak_mib:,.0f} MiB at most, {done.empty_mib:,.0f} when empty")
    # Generous: the budgets are for a machine with nothing else to do.
    assert rate > 40_000
    assert done.peak_mib < 900


def test_bytes_of_a_pending_prediction(tmp_path: Path) -> None:
    few, many = tmp_path / "few", tmp_path / "many"
    one = intake(prepare(few, PENDING)), intake(few / "monitor.yaml")
    ten = intake(prepare(many, TEN_MILLION)), intake(many / "monitor.yaml")
    assert (one[1].pending, ten[1].pending) == (PENDING.predictions, TEN_MILLION.predictions)
    width = (ten[1].restored_mib - one[1].restored_mib) * _MIB / (ten[1].pending - one[1].pending)
    first = (one[1].restored_mib - one[1].empty_mib) * _MIB / one[1].pending
    note("pending", f"{width:.0f} bytes, from 1 million to 10 million; {first:.0f} up to the first million")
    note(
        "ten million",
        f"{ten[1].restored_mib * _MIB / 1e9:.2f} GB, {max(part.peak_mib for part in ten) * _MIB / 1e9:.2f} GB at most; "
        f"restored in {ten[1].restore_seconds:.1f} s of processor time",
    )
    assert width < 160
