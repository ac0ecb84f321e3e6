import json
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from pydantic import BaseModel

from monitor.events.model import SeriesKey
from monitor.http.server import ApiServer
from monitor.reports.evaluation.report import ReportKey
from tests.http.service import Service
from tests.snapshots import many_reports, snapshot

LOAD = Path(__file__).with_name("http_load.py")
RATE = 200
SECONDS = 5


class Result(BaseModel):
    value: float
    unit: str
    lower: float | None
    upper: float | None
    null_mean: float | None
    null_q95: float | None
    p_value: float | None
    error_bound: float | None


class Answer(BaseModel):
    model: str
    version: str
    segment: str
    window: str
    n: int
    positives: int
    predictions: int
    prevalence: float | None
    mean_prediction: float | None
    label_coverage: float | None
    measures: dict[str, Result]
    insufficient: str | None


def latencies_of(port: int, paths: list[str], rate: float, seconds: float) -> NDArray[np.float64]:
    """Milliseconds, of requests sent at a fixed rate from another process."""
    command = [sys.executable, LOAD, "127.0.0.1", port, rate, seconds]
    done = subprocess.run(
        list(map(str, command)), input="\n".join(paths), capture_output=True, text=True, check=True, timeout=120
    )
    return np.array(json.loads(done.stdout)) * 1e3


@pytest.mark.benchmark
def test_reports_of_a_snapshot_at_200_a_second() -> None:
    service = Service()
    reports = many_reports(1000)
    service.show(snapshot(reports))
    app = service.app()
    by_key = {each.key: each for each in reports}

    def naive(model: str, version: str, segment: str, window: str) -> Any:
        """The peer: FastAPI's own way, the report through a response model."""
        return by_key[ReportKey(SeriesKey(model, version, segment), window)].to_dict()

    app.add_api_route("/naive", naive, response_model=Answer)
    query = [
        f"version={each.version}&segment={each.segment.replace('=', '%3D')}&window={each.window}" for each in reports
    ]
    paths = [f"/v1/models/{each.model}/report?{text}" for each, text in zip(reports, query, strict=True)]
    naive_paths = [f"/naive?model={each.model}&{text}" for each, text in zip(reports, query, strict=True)]
    with ApiServer(app, port=0) as server:
        ours, our_cpu = measured(server, paths)
        theirs, their_cpu = measured(server, naive_paths)
    print(f"\n{RATE} reports a second for {SECONDS} s: {shown(ours)}, {our_cpu * 1e6:.0f} us of CPU a request")
    print(f"through a response model: {shown(theirs)}, {their_cpu / our_cpu:.1f} times the CPU")
    assert np.quantile(ours, 0.99) < 20
    assert our_cpu < their_cpu


def measured(server: ApiServer, paths: list[str]) -> tuple[NDArray[np.float64], float]:
    """Latencies, and the CPU seconds a request takes in this process, whatever else the machine does."""
    latencies_of(server.port, paths, RATE, 0.5)
    before = time.process_time()
    latencies = latencies_of(server.port, paths, RATE, SECONDS)
    return latencies, (time.process_time() - before) / latencies.size


def shown(latencies: NDArray[np.float64]) -> str:
    p50, p99 = np.quantile(latencies, [0.5, 0.99])
    return f"median {p50:.1f} ms, p99 {p99:.1f} ms, slowest {latencies.max():.1f} ms"
