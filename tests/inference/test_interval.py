"""Intervals: their coverage, at calibration too, and what they are refused for."""

from dataclasses import replace

import numpy as np
import pytest

from monitor.errors import InputError, NotEnoughData
from monitor.inference import coarsen, interval
from monitor.measures import MEASURES, kce
from monitor.scores import ScoreTable

SCORES = np.linspace(0.05, 0.95, 10)
NORMS = [name for name, measure in MEASURES.items() if measure.norms is not None]


def drawn(rng: np.random.Generator, n: int, slope: float) -> tuple[ScoreTable, np.ndarray]:
    """Predictions on ten scores, and the rate of positives that each really has."""
    rate = 1.0 / (1.0 + ((1.0 - SCORES) / SCORES) ** slope)
    at = rng.integers(0, 10, n)
    return ScoreTable.from_events(SCORES[at], rng.random(n) < rate[at]), rate


def expected(table: ScoreTable) -> ScoreTable:
    """As many events at each score: what the measures of a law, not of a sample, are of."""
    each, none = np.full(table.rows, table.total / table.rows), np.zeros(table.rows)
    return replace(table, positives=each, negatives=none, positive_sum=each * table.score, negative_sum=none)


@pytest.mark.parametrize("name", NORMS)
@pytest.mark.parametrize("slope", [0.5, 1.0])
def test_the_interval_covers_the_truth(name: str, slope: float) -> None:
    measure = MEASURES[name]
    assert measure.norms is not None
    rng = np.random.default_rng(30)
    covered = []
    for _ in range(120):
        table, rate = drawn(rng, 500, slope)
        law = expected(table)
        truth = float(measure.norms(law, (law.counts * (rate - SCORES))[None])[0])
        truth += 0.0 if measure.offset is None else measure.offset(table)
        found = interval(table, measure, draws=99)
        covered.append(found.lower <= truth <= found.upper)
    # Nominal .95; three standard errors of 120 trials below.
    assert np.mean(covered) >= 0.89


def test_the_debiased_value_of_a_calibrated_model_is_near_0() -> None:
    rng = np.random.default_rng(31)
    values, debiased = [], []
    for _ in range(40):
        table, _ = drawn(rng, 500, 1.0)
        found = interval(table, MEASURES["kce"], draws=99)
        assert found.debiased is not None
        values.append(kce(table))
        debiased.append(found.debiased)
    assert np.mean(debiased) < 0.5 * np.mean(values)


def test_the_interval_lies_around_the_value_and_is_deterministic() -> None:
    table, _ = drawn(np.random.default_rng(32), 800, 0.4)
    found = interval(table, MEASURES["smce"])
    value = MEASURES["smce"].value(table)
    assert 0.0 < found.lower < value < found.upper
    assert value - found.lower == pytest.approx(found.upper - value)
    assert found == interval(table, MEASURES["smce"])
    assert found != interval(table, MEASURES["smce"], seed=1)


def test_the_interval_of_a_large_table_is_drawn_on_the_grid_around_the_exact_value() -> None:
    rng = np.random.default_rng(33)
    p = rng.random(60_000)
    raw = ScoreTable.from_events(p, rng.random(p.size) < p**1.5)
    of_raw = interval(raw, MEASURES["kce"], seed=3)
    of_cells = interval(coarsen(raw), MEASURES["kce"], seed=3)
    assert of_raw.upper - of_raw.lower == pytest.approx(of_cells.upper - of_cells.lower, rel=1e-12)
    assert (of_raw.upper + of_raw.lower) / 2 == pytest.approx(kce(raw), rel=1e-12)


def test_what_cannot_be_drawn_is_refused() -> None:
    with pytest.raises(NotEnoughData, match="an interval needs at least 1 event, got 0"):
        interval(ScoreTable.from_events([], []), MEASURES["kce"])
    with pytest.raises(InputError, match="tce needs whole counts"):
        interval(ScoreTable.from_events([0.5], [1], [0.5]), MEASURES["tce"])
    with pytest.raises(InputError, match="draws must be at least 19, got 0"):
        interval(ScoreTable.from_events([0.5], [1]), MEASURES["kce"], draws=0)
