"""Levels under calibration: their law, their determinism, and what p-values promise."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import stats

from monitor.errors import InputError, NotEnoughData
from monitor.inference import coarsen, null_level
from monitor.inference.resampling import percent_point_95
from monitor.measures import MEASURES, kce
from monitor.scores import GridTable, ScoreTable, grid

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class OwnMeasure:
    """A measure that no registry knows."""

    name: str
    value: Callable[[ScoreTable], float]
    largest: float = 1.0
    norms: None = None
    offset: None = None
    draws: None = None
    envelope: None = None
    losses: None = None
    max_draws: int = 999
    drawn_rows: None = None


def calibrated(rng: np.random.Generator, n: int) -> ScoreTable:
    p = rng.beta(2.0, 3.0, n)
    return ScoreTable.from_events(p, rng.random(n) < p)


def test_the_draws_are_calibrated() -> None:
    """E[kCE^2] = sum p (1 - p) / n^2 under calibration, whatever the kernel."""
    table = GridTable.from_events(*_drawn(3, 4000)).to_scores()
    square = OwnMeasure("square", lambda drawn: kce(drawn) ** 2)
    level = null_level(table, [square], draws=999)["square"]
    expected = float((table.counts * table.score * (1.0 - table.score)).sum()) / table.total**2
    # The square is nearly a scaled chi-square of few degrees of freedom: its sd is at most sqrt(2) times its mean.
    assert level.mean == pytest.approx(expected, rel=4 * np.sqrt(2.0 / 999))


def test_a_norm_is_only_a_short_cut() -> None:
    table = calibrated(np.random.default_rng(1), 300)
    measure = MEASURES["kce"]
    with_norm = null_level(table, [measure], seed=5)["kce"]
    without = null_level(table, [OwnMeasure("kce", measure.value)], seed=5)["kce"]
    assert with_norm.mean == pytest.approx(without.mean, rel=1e-9)
    assert with_norm.q95 == pytest.approx(without.q95, rel=1e-9)
    assert with_norm.p_value == without.p_value


def test_equal_tables_have_equal_levels() -> None:
    table = calibrated(np.random.default_rng(2), 200)
    again = calibrated(np.random.default_rng(2), 200)
    other = calibrated(np.random.default_rng(3), 200)
    measures = [MEASURES["kce"], MEASURES["ece"]]
    assert null_level(table, measures) == null_level(again, measures)
    assert null_level(table, measures) != null_level(other, measures)
    assert null_level(table, measures, seed=1) == null_level(again, measures, seed=1)
    assert null_level(table, measures, seed=1) != null_level(table, measures, seed=2)


def test_a_measure_has_the_same_level_in_any_company() -> None:
    table = calibrated(np.random.default_rng(2), 200)
    alone = null_level(table, [MEASURES["smce"]])
    together = null_level(table, MEASURES.values())
    assert list(together) == list(MEASURES)
    assert together["smce"] == alone["smce"]


@pytest.mark.parametrize("name", ["kce", "smce", "surrogate_intce"])
def test_p_values_of_calibrated_models_are_uniform(name: str) -> None:
    rng = np.random.default_rng(20)
    p_values = [null_level(calibrated(rng, 250), [MEASURES[name]], draws=99)[name].p_value for _ in range(150)]
    assert stats.kstest(p_values, "uniform").pvalue > 0.01


@pytest.mark.parametrize("name", MEASURES)
def test_a_miscalibrated_model_stands_out(name: str) -> None:
    rng = np.random.default_rng(21)
    p = rng.beta(2.0, 3.0, 1500)
    too_sure = p**2 / (p**2 + (1.0 - p) ** 2)
    level = null_level(ScoreTable.from_events(too_sure, rng.random(p.size) < p), [MEASURES[name]])[name]
    assert level.p_value == 1 / 200
    assert level.mean < level.q95


@pytest.mark.parametrize("name", MEASURES)
def test_a_certain_model_that_is_right_is_no_outlier(name: str) -> None:
    table = ScoreTable.from_events([0.0] * 30 + [1.0] * 30, [0] * 30 + [1] * 30)
    value = MEASURES[name].value(table)
    found = null_level(table, [MEASURES[name]])[name]
    assert (found.mean, found.q95) == pytest.approx((value, value), rel=1e-12)
    assert found.p_value == 1.0


@pytest.mark.parametrize("draws", [19, 20, 99, 199, 999])
def test_a_value_passes_the_95_percent_point_just_where_its_p_value_is_05(draws: int) -> None:
    null = np.random.default_rng(draws).permutation(draws).astype(np.float64)
    q95 = percent_point_95(null)
    for value in np.arange(-0.5, draws + 1.0, 0.5):
        p_value = (1 + (null >= value).sum()) / (1 + draws)
        assert (value > q95) == (p_value <= 0.05)


def test_a_row_that_repeats_the_outcomes_counts_as_reaching_the_value() -> None:
    # One event of p = .3: every draw gives the value itself or the other one.
    table = ScoreTable.from_events([0.3], [0])
    assert null_level(table, [MEASURES["kce"]])["kce"].p_value == 1.0


def test_a_table_on_the_grid_is_that_of_its_events() -> None:
    p, y = _drawn(4, 20_000)
    p[:4] = [0.0, 1.0, np.nextafter(0.1, 0), 0.1]
    coarse = coarsen(ScoreTable.from_events(p, y))
    cells = GridTable.from_events(p, y).to_scores()
    for column in ("score", "positives", "negatives", "positive_sum", "negative_sum", "lower", "upper"):
        np.testing.assert_array_equal(getattr(coarse, column), getattr(cells, column), err_msg=column)
    assert coarsen(cells) is cells


def test_a_large_table_is_drawn_on_the_grid() -> None:
    p, y = _drawn(6, 100_000)
    raw = ScoreTable.from_events(p, y)
    assert raw.rows > grid.cell_count()
    assert null_level(raw, [MEASURES["kce"]], seed=1) == null_level(coarsen(raw), [MEASURES["kce"]], seed=1)


def test_what_cannot_be_drawn_is_refused() -> None:
    measures = [MEASURES["kce"]]
    with pytest.raises(NotEnoughData, match="a null level needs at least 1 event, got 0"):
        null_level(ScoreTable.from_events([], []), measures)
    weighted = ScoreTable.from_events([0.5, 0.6], [0, 1], [0.5, 1.0])
    with pytest.raises(InputError, match="tce needs whole counts"):
        null_level(weighted, [MEASURES["tce"]])
    with pytest.raises(InputError, match="draws must be at least 19, got 18"):
        null_level(ScoreTable.from_events([0.5], [1]), measures, draws=18)


def _drawn(seed: int, n: int) -> tuple[Floats, NDArray[np.int64]]:
    rng = np.random.default_rng(seed)
    p = rng.beta(0.6, 2.0, n)
    return p, (rng.random(n) < p).astype(np.int64)
