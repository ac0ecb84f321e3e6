"""What the service does for the page of a fleet."""

import gzip
import time
from collections.abc import Callable

import pytest

from monitor.http.schemas import ModelsBody
from tests.http.service import Service
from tests.snapshots import WINDOWS, evidence, evidence_level, report, snapshot, with_evidence


def processor_ms(work: Callable[[], object], rounds: int = 5) -> float:
    """Processor time, the least of some rounds."""
    times = []
    for _ in range(rounds):
        start = time.process_time()
        work()
        times.append(time.process_time() - start)
    return 1e3 * min(times)


@pytest.mark.benchmark
@pytest.mark.parametrize("models", [200, 1000])
def test_a_request_for_a_fleet_beside_the_encoding_of_its_answer(models: int) -> None:
    """The peer checks and writes the finished values by the response model: no request, and no work that makes them."""
    names = [f"model-{at:04d}" for at in range(models)]
    service = Service()
    shown = snapshot(report(model=name, version="1", window=window) for name in names for window in WINDOWS)
    service.show(with_evidence(shown, {(name, "1"): evidence(calibration=evidence_level()) for name in names}))
    client = service.client()
    body = client.get("/v1/models?limit=1000").json()
    ours = processor_ms(lambda: client.get("/v1/models?limit=1000"))
    theirs = processor_ms(lambda: ModelsBody.model_validate(body).model_dump_json())
    size = len(gzip.compress(client.get("/v1/models?limit=1000").content, 1))
    print(
        f"\n{models} models: {ours:.0f} ms of processor time a request, {size / 1024:.0f} KiB compressed; the response"
    )
    print(f"model alone {theirs:.0f} ms: {ours / theirs:.1f} times as long")
    assert ours < 10 * theirs
