"""What the measures cost, beside what they are usually computed with, in one run."""

import time
from collections.abc import Callable
from functools import partial

import numpy as np
import pytest
from numpy.typing import NDArray
from sklearn.calibration import calibration_curve

from monitor.inference import interval, null_level
from monitor.measures import MEASURES, WINDOW_MEASURES, Measure, SemiNorm, ece, kce, smce
from monitor.scores import GridTable, ScoreTable
from tests.benchmarks.budgets import note
from tests.reference.naive_measures import kce_by_double_sum, smce_by_linear_programme

pytestmark = pytest.mark.benchmark

EVENTS = 1_000_000
FOUR = ("tce", "kce", "smce", "intce")

Floats = NDArray[np.float64]


def seconds(work: Callable[[], object], repeats: int = 3) -> float:
    """The least processor time of some runs, after one that compiles and warms up."""
    work()
    times = []
    for _ in range(repeats):
        start = time.process_time()  # what else the machine does is not counted
        work()
        times.append(time.process_time() - start)
    return min(times)


def simulated(n: int, slope: float) -> tuple[Floats, Floats]:
    rng = np.random.default_rng(1)
    q = rng.beta(2.0, 5.0, n)
    return 1.0 / (1.0 + ((1.0 - q) / q) ** slope), (rng.random(n) < q).astype(np.float64)


@pytest.mark.parametrize("slope", [1.0, 1.3])
def test_a_million_predictions(slope: float) -> None:
    p, y = simulated(EVENTS, slope)
    sort = seconds(lambda: ScoreTable.from_events(p, y))
    table = ScoreTable.from_events(p, y)
    took = {name: seconds(partial(measure.value, table)) for name, measure in MEASURES.items()}

    def all_four() -> list[float]:
        fresh = ScoreTable.from_events(p, y)
        return [MEASURES[name].value(fresh) for name in FOUR]

    together = seconds(all_four)
    print(f"\n{EVENTS:,} raw predictions, slope {slope}: {table.rows:,} rows")
    print(f"  table (sort included)  {sort * 1e3:9.1f} ms")
    for name, measure in MEASURES.items():
        print(f"  {measure.title:<22} {took[name] * 1e3:9.1f} ms   value {measure.value(table):.6g}")
    print(f"  {', '.join(FOUR)} with the sort {together * 1e3:9.1f} ms")
    note("measures", f"{together:.2f} s, at slope {slope}")


@pytest.mark.parametrize("slope", [1.0, 1.3])
def test_a_windows_table(slope: float) -> None:
    p, y = simulated(EVENTS, slope)
    cells = GridTable.from_events(p, y.astype(np.int64)).to_scores()
    print(f"\na window's table of {cells.rows:,} cells, slope {slope}")
    total = 0.0
    for name, measure in MEASURES.items():
        value = measure.value(cells)
        took = seconds(partial(measure.value, cells), 20)
        bound = seconds(partial(measure.error_bound, cells, value), 5)
        total += took if name in WINDOW_MEASURES and name != "tce" else 0.0
        print(f"  {measure.title:<16} {took * 1e3:8.3f} ms   error bound {bound * 1e3:8.3f} ms")
    print(f"  those of every window, but TCE {total * 1e3:8.3f} ms")
    for names in (("kce", "smce", "surrogate_intce"), ("intce",), ("ece",), ("tce",)):
        took = seconds(partial(null_level, cells, [MEASURES[name] for name in names]), 2)
        print(f"  null level, 199 draws, {', '.join(names):<28} {took * 1e3:8.1f} ms")
    for name in ("kce", "smce"):
        took = seconds(partial(interval, cells, MEASURES[name]), 2)
        print(f"  interval, 199 draws, {name:<30} {took * 1e3:8.1f} ms")


@pytest.mark.parametrize("events", [20_000, EVENTS])
def test_semi_norms_of_199_draws(events: int) -> None:
    """kCE, smCE and RintCE of every draw at once, and drawn table by drawn table."""
    p, y = simulated(events, 1.0)
    cells = GridTable.from_events(p, y.astype(np.int64)).to_scores()
    counts = cells.counts
    positives = np.random.default_rng(2).binomial(counts.astype(np.int64), cells.score, (199, cells.rows))
    residual = positives - counts * cells.score
    drawn = [cells.with_outcomes(each) for each in positives.astype(np.float64)]
    print(f"\n199 draws of a window's table of {cells.rows:,} cells")
    together = 0.0
    for name in ("kce", "smce", "rintce"):
        measure = MEASURES[name]
        assert isinstance(measure, SemiNorm)
        at_once = seconds(partial(measure.norms, cells, residual), 5)
        one_by_one = seconds(partial(values, measure, drawn), 2)
        np.testing.assert_allclose(measure.norms(cells, residual), values(measure, drawn), rtol=1e-12, atol=1e-15)
        together += at_once
        print(f"  {measure.title:<14} {at_once * 1e3:7.2f} ms, one by one {one_by_one / at_once:5.1f} times as long")
    print(f"  together       {together * 1e3:7.2f} ms")


def values(measure: Measure, tables: list[ScoreTable]) -> list[float]:
    return [measure.value(table) for table in tables]


def smce_of(p: Floats, y: Floats) -> float:
    return smce(ScoreTable.from_events(p, y))


def test_beside_the_usual_ways() -> None:
    print()
    p, y = simulated(10_000, 1.3)
    ours = seconds(lambda: kce(ScoreTable.from_events(p, y)))
    theirs = seconds(lambda: kce_by_double_sum(p, y), 1)
    assert kce(ScoreTable.from_events(p, y)) == pytest.approx(kce_by_double_sum(p, y), rel=1e-9)
    print(f"kCE, n = 10,000: double sum {theirs:.3f} s, ours {ours * 1e3:.2f} ms, {theirs / ours:,.0f} times faster")

    for n in (2_000, 10_000):
        p, y = simulated(n, 1.3)
        ours = seconds(partial(smce_of, p, y))
        theirs = seconds(partial(smce_by_linear_programme, p, y), 1)
        optimum = smce_by_linear_programme(p, y)
        assert smce(ScoreTable.from_events(p, y)) == pytest.approx(optimum, abs=1e-7)
        print(f"smCE, n = {n:,}: HiGHS {theirs:.3f} s, ours {ours * 1e3:.2f} ms, {theirs / ours:,.0f} times faster")

    p, y = simulated(EVENTS, 1.3)
    table = ScoreTable.from_events(p, y)
    ours = seconds(lambda: ece(ScoreTable.from_events(p, y)))
    of_table = seconds(lambda: ece(table))
    theirs = seconds(lambda: _ece_with_scikit_learn(p, y))
    assert ece(table) == pytest.approx(_ece_with_scikit_learn(p, y), rel=1e-9)
    print(
        f"ECE, n = {EVENTS:,}: scikit-learn {theirs * 1e3:.1f} ms, ours with the sort {ours * 1e3:.1f} ms"
        f" ({theirs / ours:.1f} times faster), of a table {of_table * 1e3:.1f} ms"
    )


def _ece_with_scikit_learn(p: Floats, y: Floats) -> float:
    positive, mean = calibration_curve(y, p, n_bins=10, strategy="uniform")
    count = np.histogram(p, bins=10, range=(0.0, 1.0))[0]
    return float((np.abs(positive - mean) * count[count > 0]).sum() / p.size)
