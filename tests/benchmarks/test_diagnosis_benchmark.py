"""What a verdict costs beside the intervals that it is renewed with."""

from collections.abc import Callable
from time import perf_counter

import numpy as np
import pytest
from scipy.special import expit

from monitor.measures import WINDOW_MEASURES
from monitor.reports.evaluation.assess import WINDOW_DRAWS, uncertainty
from monitor.reports.evaluation.diagnosis import decompose, diagnose
from monitor.scores import GridTable


def milliseconds(work: Callable[[], object], times: int = 7) -> float:
    work()  # kernels are compiled
    spent = []
    for _ in range(times):
        began = perf_counter()
        work()
        spent.append(perf_counter() - began)
    return 1000 * min(spent)


@pytest.mark.benchmark
@pytest.mark.parametrize(("n", "mean"), [(1_000, 0.0), (10_000, -1.0), (100_000, -3.0), (1_000_000, 0.0)])
def test_a_verdict_costs_less_than_the_intervals_of_the_windows_measures(
    n: int, mean: float, capsys: pytest.CaptureFixture[str]
) -> None:
    rng = np.random.default_rng(0)
    z = rng.normal(mean, 1.2, n)
    table = GridTable.from_events(expit(z), rng.random(n) < expit(z)).to_scores()
    values = {name: measure.value(table) for name, measure in WINDOW_MEASURES.items()}
    verdict = milliseconds(lambda: diagnose(table, draws=WINDOW_DRAWS))
    parts = milliseconds(lambda: decompose(table))
    intervals = milliseconds(lambda: uncertainty(table, WINDOW_MEASURES, values, draws=WINDOW_DRAWS))
    with capsys.disabled():
        print(
            f"\n{n:,} events in {table.rows} cells: verdict {verdict:.2f} ms, scores in parts {parts:.2f} ms;"
            f" intervals and levels of its measures {intervals:.1f} ms, {intervals / verdict:.1f} times as long"
        )
    assert verdict < intervals
