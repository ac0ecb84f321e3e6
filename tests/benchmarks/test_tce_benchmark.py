"""What the TCE costs, beside a loop of scipy's test over the predictions, in one run."""

import time
from collections.abc import Callable

import numpy as np
import pytest
from scipy.special import expit
from scipy.stats import binomtest

from monitor.measures.error_by_tests import tce, tce_bins, tce_error_bound
from monitor.scores import GridTable, ScoreTable

pytestmark = pytest.mark.benchmark

EVENTS = 1_000_000
LOOP_PREDICTIONS = 2_000


def seconds(work: Callable[[], object], repeats: int = 5) -> float:
    """The shortest of some runs, after one that compiles and warms up."""
    work()
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        work()
        times.append(time.perf_counter() - start)
    return min(times)


@pytest.mark.parametrize(("slope", "offset"), [(1.0, 0.0), (1.1, 0.0), (1.0, -4.0)])
def test_tce_of_a_million_predictions(slope: float, offset: float) -> None:
    rng = np.random.default_rng(1)
    z = rng.normal(offset, 1.5, EVENTS)
    p, y = expit(z), (rng.random(EVENTS) < expit(slope * z)).astype(np.int64)
    table = ScoreTable.from_events(p, y)
    cells = GridTable.from_events(p, y).to_scores()

    sorting = seconds(lambda: ScoreTable.from_events(p, y), 2)
    raw = seconds(lambda: tce(table))
    isotonic = seconds(lambda: tce(table, bins="pava"))
    grid = seconds(lambda: tce(cells))
    detail = seconds(lambda: tce_bins(cells))
    bound = seconds(lambda: tce_error_bound(cells))

    # The loop is timed on a sample of the predictions, each against its bin's counts, and scaled to all of them.
    bins = tce_bins(table)
    sample = np.sort(rng.choice(table.score, LOOP_PREDICTIONS, replace=False))
    place = np.searchsorted(bins.upper_edge[:-1], sample, side="right")
    start = time.perf_counter()
    refuted = [
        binomtest(int(bins.positives[b]), int(bins.sizes[b]), float(v)).pvalue <= bins.alpha
        for v, b in zip(sample, place, strict=True)
    ]
    loop = (time.perf_counter() - start) / LOOP_PREDICTIONS * EVENTS
    assert abs(100 * np.mean(refuted) - bins.value) < 6 * 100 * 0.5 / LOOP_PREDICTIONS**0.5

    print(f"\nTCE, n = {EVENTS:,}, slope {slope}, offset {offset}: {bins.value:.2f}%, {bins.sizes.size} bins")
    print(f"  loop of binomtest (from {LOOP_PREDICTIONS:,} predictions, scaled)  {loop:9.1f} s")
    for label, took in (
        ("raw, pava_bc, sort included", sorting + raw),
        ("raw, pava_bc, after the sort", raw),
        ("raw, pava, after the sort", isotonic),
        (f"window's grid table, {cells.rows:,} rows", grid),
        ("  with limits of each bin", detail),
        ("  its error bound", bound),
    ):
        print(f"  {label:<48} {1e3 * took:9.2f} ms   1/{loop / took:,.0f} of the loop")
