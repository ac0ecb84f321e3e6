"""What the whole report of a million predictions costs, stage by stage, beside its table."""

import time
from collections.abc import Callable

import numpy as np
import pytest

from monitor.inference import coarsen, intervals, null_level
from monitor.measures import MEASURES, REPORT_MEASURES
from monitor.reports.evaluation.evaluate import evaluate_binary as evaluate
from monitor.scores import GridTable, ScoreTable

pytestmark = pytest.mark.benchmark

EVENTS = 1_000_000
DRAWS = 999
DASHBOARD = ("kce", "smce", "rintce")


def seconds(work: Callable[[], object], repeats: int = 3) -> float:
    """The least processor time of some runs, after one that compiles and warms up."""
    work()
    times = []
    for _ in range(repeats):
        start = time.process_time()  # what else the machine does is not counted
        work()
        times.append(time.process_time() - start)
    return min(times)


@pytest.mark.parametrize("slope", [1.0, 1.3])
def test_the_report_of_a_million_predictions(slope: float) -> None:
    rng = np.random.default_rng(1)
    q = rng.beta(2.0, 5.0, EVENTS)
    p, y = 1.0 / (1.0 + ((1.0 - q) / q) ** slope), rng.random(EVENTS) < q
    table = ScoreTable.from_events(p, y)
    cells = coarsen(table)
    chosen = list(REPORT_MEASURES.values())
    values = {measure.name: measure.value(table) for measure in chosen}
    sort = seconds(lambda: ScoreTable.from_events(p, y))
    stages = {
        "values": lambda: [measure.value(table) for measure in chosen],
        "error bounds": lambda: [measure.error_bound(table, values[measure.name]) for measure in chosen],
        "levels": lambda: null_level(table, chosen, draws=DRAWS, values=values),
        "intervals": lambda: intervals(table, chosen, draws=DRAWS, values=values),
        "whole report": lambda: evaluate(p, y),
    }
    print(f"\n{EVENTS:,} raw predictions, slope {slope}, {cells.rows:,} cells, {len(chosen)} measures, {DRAWS} draws")
    print(f"  {'table, sort included':<24}{sort:8.2f} s")
    for name, work in stages.items():
        took = seconds(work, 1)
        print(f"  {name:<24}{took:8.2f} s, {took / sort:6.1f} times the table")
    for measure in chosen:
        level = seconds(lambda each=measure: null_level(cells, [each], draws=DRAWS, values=values), 1)  # type: ignore[misc]
        reach = seconds(lambda each=measure: intervals(cells, [each], draws=DRAWS, values=values), 1)  # type: ignore[misc]
        print(f"  {measure.title:<24}level on cells {level * 1e3:7.0f} ms, interval {reach * 1e3:7.0f} ms")


def test_a_dashboards_draws_of_a_window() -> None:
    rng = np.random.default_rng(1)
    p = 1.0 / (1.0 + np.exp(-rng.normal(-0.5, 0.45, 100_000)))
    cells = GridTable.from_events(p, (rng.random(p.size) < p).astype(np.int64)).to_scores()
    measures = [MEASURES[name] for name in DASHBOARD]
    both = seconds(lambda: (null_level(cells, measures), intervals(cells, measures)))
    one = seconds(lambda: [measure.value(cells) for measure in measures], 20)
    print(
        f"\n{', '.join(DASHBOARD)} of a window of {cells.rows:,} cells: values {one * 1e3:.2f} ms,"
        f" 199 draws for levels and 199 for intervals {both * 1e3:.1f} ms, {both / one:.0f} times as long"
    )
