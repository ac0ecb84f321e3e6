"""REST while the service reads and evaluates as much as it can, beside the same service with nothing to do."""

import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from tests.benchmarks.sizing import Size, serving
from tests.benchmarks.test_api_benchmark import latencies_of, shown

EVENTS = Path(__file__).with_name("steady_events.py")
MODELS = 200
EVENTS_PER_SECOND = 20_000
RATE = 50
SECONDS = 10
_WARM_UP_SECONDS = 15


@pytest.mark.benchmark
@pytest.mark.timeout(600)
def test_probes_and_reports_are_answered_under_load(tmp_path: Path) -> None:
    with serving(tmp_path, Size(0, models=MODELS, horizon="1s"), {}) as served:
        served.wait(0)
        idle = latencies_of(served.port, ["/readyz"], RATE, SECONDS)
        command = [sys.executable, EVENTS, tmp_path / "log", MODELS, EVENTS_PER_SECOND, _WARM_UP_SECONDS + 5 * SECONDS]
        with subprocess.Popen(list(map(str, command))) as writer:
            try:
                time.sleep(_WARM_UP_SECONDS)
                began, cpu = time.monotonic(), served.cpu()
                probes = latencies_of(served.port, ["/readyz"], RATE, SECONDS)
                reports = latencies_of(served.port, [f"/v1/models/m{at}/report" for at in range(MODELS)], RATE, SECONDS)
                processors = (served.cpu() - cpu) / (time.monotonic() - began)
            finally:
                writer.terminate()
        read = served.counted()
    print(f"\nidle, /readyz:   {shown(idle)}")
    for name, found in (("/readyz", probes), ("reports", reports)):
        ratio = np.quantile(found, 0.99) / np.quantile(idle, 0.99)
        print(f"loaded, {name}: {shown(found)}: p99 {ratio:.1f} times that of the idle service's /readyz")
    print(f"{processors:.2f} processors, {read:,} events read")
    assert read > 0
    assert np.median(probes) < 100
    assert np.median(reports) < 100
