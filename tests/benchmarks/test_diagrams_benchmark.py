"""What the diagrams of a window cost, from panes to JSON; ``make bench`` prints the numbers."""

import time
from collections.abc import Callable

import pytest

from monitor.clock import ManualClock
from monitor.http.responses import encode_json
from monitor.reports.diagrams.document import diagrams_document
from monitor.windows.contents import Contents
from tests.benchmarks.settled_models import EDGE_MS, HOUR_MS, WINDOWS, SettledModels
from tests.evaluations import Alone

pytestmark = pytest.mark.benchmark


def milliseconds(work: Callable[[], object]) -> float:
    work()
    started = time.process_time()
    for _ in range(5):
        work()
    return 200.0 * (time.process_time() - started)


@pytest.mark.parametrize("predictions", [100_000, 10_000_000])
def test_the_diagrams_of_a_day(predictions: int, capsys: pytest.CaptureFixture[str]) -> None:
    models = SettledModels(1, predictions // 24)
    evaluator = Alone(models.panes, WINDOWS, clock=ManualClock())
    (model,) = models.names

    def window() -> Contents:
        return evaluator.predictions(model, window="1d")[1]

    def span() -> Contents:
        return evaluator.predictions_between(model, None, "all", EDGE_MS - 20 * HOUR_MS, EDGE_MS - 3 * HOUR_MS)[1]

    def encoded(read: Callable[[], Contents]) -> bytes:
        return encode_json(diagrams_document(read().table.to_scores()))

    counted = window().table.predictions
    assert counted > 0.9 * predictions
    summed, spanned = milliseconds(window), milliseconds(span)
    whole = milliseconds(lambda: encoded(window))
    size = len(encoded(window))
    with capsys.disabled():
        print(
            f"\n  diagrams of {counted:,} predictions: window summed {summed:.1f} ms, span summed {spanned:.1f} ms, "
            f"window to JSON {whole:.1f} ms, {size:,} bytes"
        )
    assert size < 15_000
    assert whole < 100.0
