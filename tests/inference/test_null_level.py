"""Levels under calibration: their law, their determinism, and what p-values promise."""

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import stats
from scipy.special import expit

from monitor.errors import InputError, NotEnoughData
from monitor.inference import coarsen, null_level
from monitor.inference.resampling import outcomes, percent_point_95, thin, widen
from monitor.measures import MEASURES, Measure, SemiNorm, kce
from monitor.scores import GridTable, ScoreTable, grid

Floats = NDArray[np.float64]


def own_measure(name: str, value: Callable[[ScoreTable], float]) -> Measure:
    """A measure of which nothing but its value is known."""
    return Measure(name=name, title=name, help=name, unit="ratio", value=value, error_bound=lambda *_: 0.0)


def calibrated(rng: np.random.Generator, n: int) -> ScoreTable:
    p = rng.beta(2.0, 3.0, n)
    return ScoreTable.from_events(p, rng.random(n) < p)


def test_the_draws_are_calibrated() -> None:
    """E[kCE^2] = sum p (1 - p) / n^2 under calibration, whatever the kernel."""
    table = GridTable.from_events(*_drawn(3, 4000)).to_scores()
    square = own_measure("square", lambda drawn: kce(drawn) ** 2)
    level = null_level(table, [square], draws=999)["square"]
    expected = float((table.counts * table.score * (1.0 - table.score)).sum()) / table.total**2
    # The square is nearly a scaled chi-square of few degrees of freedom: its sd is at most sqrt(2) times its mean.
    assert level.mean == pytest.approx(expected, rel=4 * np.sqrt(2.0 / 999))


def test_a_norm_is_only_a_short_cut() -> None:
    table = calibrated(np.random.default_rng(1), 300)
    measure = MEASURES["kce"]
    with_norm = null_level(table, [measure], seed=5)["kce"]
    without = null_level(table, [own_measure("kce", measure.value)], seed=5)["kce"]
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
    assert level.p_value <= 0.02
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


@pytest.mark.parametrize("name", ["intce", "surrogate_intce", "tce", "brier"])
def test_the_level_of_a_large_table_is_that_of_its_own_values(name: str) -> None:
    """Not of the cells' values, which those of raw predictions are not comparable with."""
    rng = np.random.default_rng(8)
    p = rng.beta(2.0, 3.0, 40_000)
    own = [MEASURES[name].value(ScoreTable.from_events(p, rng.random(p.size) < p)) for _ in range(30)]
    level = null_level(ScoreTable.from_events(p, rng.random(p.size) < p), [MEASURES[name]], draws=99)[name]
    # Four standard errors of the mean of thirty, and what two pairs of draws leave open.
    assert level.mean == pytest.approx(np.mean(own), abs=(4 / np.sqrt(30) + 0.5) * np.std(own))
    assert level.law.std() == pytest.approx(np.std(own), rel=0.5)


def test_a_measure_is_drawn_as_often_as_it_declares() -> None:
    table = calibrated(np.random.default_rng(9), 300)
    kce_19 = replace(MEASURES["kce"], max_draws=219)
    few, many = (null_level(table, [measure], draws=500)["kce"].law for measure in (kce_19, MEASURES["kce"]))
    assert (few.size, many.size) == (219, 500)
    assert set(few) < set(many)
    assert null_level(table, [MEASURES["tce"], MEASURES["kce"]], draws=500)["tce"].law.size == 199


def test_progress_is_told() -> None:
    seen: list[float] = []
    table = calibrated(np.random.default_rng(9), 300)
    null_level(table, [MEASURES["tce"], MEASURES["kce"]], draws=999, progress=seen.append)
    assert seen == sorted(seen)
    assert seen[-1] == 1.0
    assert len(seen) >= 5


# --- Weights ----------------------------------------------------------------------------------------------------------


def test_only_ratios_of_weights_matter() -> None:
    rng = np.random.default_rng(10)
    p = rng.integers(1, 20, 400) / 20
    y = rng.random(400) < p
    plain = null_level(ScoreTable.from_events(p, y), [MEASURES["smce"]], seed=1)["smce"]
    for weight in (1.0, 0.3, 7.0):
        weighted = null_level(ScoreTable.from_events(p, y, np.full(400, weight)), [MEASURES["smce"]], seed=1)["smce"]
        np.testing.assert_allclose(weighted.law, plain.law, rtol=1e-9)
        assert weighted.p_value == plain.p_value


@pytest.mark.parametrize("ties", [False, True])
def test_weighted_draws_vary_as_their_events(ties: bool) -> None:
    """E[kCE^2] = sum w^2 p (1 - p) / (sum w)^2 under calibration, whatever the kernel: diagonal terms alone remain."""
    rng = np.random.default_rng(11)
    p = rng.integers(1, 20, 300) / 20 if ties else rng.random(300)
    weight = rng.exponential(1.0, 300)
    table = ScoreTable.from_events(p, rng.random(300) < p, weight)
    square = own_measure("square", lambda drawn: kce(drawn) ** 2)
    level = null_level(table, [square], draws=999)["square"]
    expected = float((weight**2 * p * (1.0 - p)).sum() / weight.sum() ** 2)
    assert level.mean == pytest.approx(expected, rel=4 * np.sqrt(2.0 / 999))


def test_weighted_draws_are_outcomes() -> None:
    rng = np.random.default_rng(12)
    p = rng.integers(0, 11, 200) / 10
    table = ScoreTable.from_events(p, rng.random(200) < p, rng.exponential(1.0, 200))
    (positives,) = outcomes(rng, table, table.score, 150)
    assert positives.shape == (150, table.rows)
    assert (positives >= 0.0).all()
    assert (positives <= table.counts).all()
    np.testing.assert_array_equal(positives[:, table.score == 1.0], np.tile(table.counts[table.score == 1.0], (150, 1)))
    drawn = table.with_outcomes(positives[0])
    assert drawn.squares is not None
    assert table.squares is not None
    np.testing.assert_allclose(drawn.squares.sum(axis=0), table.squares.sum(axis=0))
    np.testing.assert_allclose(drawn.counts, table.counts)


def test_a_weighted_table_on_the_grid_keeps_its_sums() -> None:
    rng = np.random.default_rng(13)
    p, weight = rng.beta(0.6, 2.0, 20_000), rng.exponential(1.0, 20_000)
    y = rng.random(p.size) < p
    raw = ScoreTable.from_events(p, y, weight)
    cells = coarsen(raw)
    assert cells.rows < raw.rows
    assert cells.weighted
    plain = coarsen(ScoreTable.from_events(p, y))
    np.testing.assert_array_equal(cells.lower, plain.lower)
    np.testing.assert_array_equal(cells.upper, plain.upper)
    assert ((cells.lower <= cells.score) & (cells.score <= cells.upper)).all()
    for name in ("positives", "negatives", "positive_sum", "negative_sum", "positive_squares", "negative_squares"):
        assert getattr(cells, name).sum() == pytest.approx(getattr(raw, name).sum(), rel=1e-12)
    assert null_level(raw, [MEASURES["kce"]], seed=1) == null_level(
        cells, [MEASURES["kce"]], seed=1, values={"kce": MEASURES["kce"].value(raw)}
    )


def test_what_cannot_be_drawn_is_refused() -> None:
    measures = [MEASURES["kce"]]
    with pytest.raises(NotEnoughData, match="a null level needs at least 1 event, got 0"):
        null_level(ScoreTable.from_events([], []), measures)
    weighted = ScoreTable.from_events([0.5, 0.6], [0, 1], [0.5, 1.0])
    with pytest.raises(InputError, match="tce needs whole counts"):
        null_level(weighted, [MEASURES["tce"]])
    with pytest.raises(InputError, match="draws must be a whole number of at least 19, got 18"):
        null_level(ScoreTable.from_events([0.5], [1]), measures, draws=18)


def _drawn(seed: int, n: int) -> tuple[Floats, NDArray[np.int64]]:
    rng = np.random.default_rng(seed)
    p = rng.beta(0.6, 2.0, n)
    return p, (rng.random(n) < p).astype(np.int64)


@pytest.mark.parametrize("events", [300, 30_000])
def test_wide_cells_change_no_law_of_a_norm_that_is_drawn_on_them(events: int) -> None:
    rng = np.random.default_rng(events)
    p = rng.beta(1.5, 4.0, events)
    cells = GridTable.from_events(p, (rng.random(events) < p).astype(np.int64)).to_scores()
    wide = widen(cells)
    assert wide.rows < cells.rows / 2
    assert wide.total == cells.total
    assert float(wide.residual.sum()) == pytest.approx(float(cells.residual.sum()), abs=1e-9)
    place = np.searchsorted(wide.lower, cells.score, side="right") - 1
    assert (cells.upper <= wide.upper[place]).all()
    (positives,) = outcomes(rng, cells, cells.score, 200)
    residual = positives - cells.counts * cells.score
    merged = np.add.reduceat(residual, np.flatnonzero(np.diff(place, prepend=-1)), axis=1)
    chosen = [measure for measure in MEASURES.values() if isinstance(measure, SemiNorm) and measure.on_wide_cells]
    assert {measure.name for measure in chosen} >= {"kce", "smce", "ece"}
    for measure in chosen:
        law, on_wide = measure.norms(cells, residual), measure.norms(wide, merged)
        assert on_wide.mean() == pytest.approx(law.mean(), rel=0.005), measure.name
        assert np.abs(on_wide - law).max() < 0.05 * law.std(), measure.name


@pytest.mark.parametrize("events", [3_000, 60_000])
def test_fewer_rows_change_no_level_of_a_measure_that_is_drawn_on_them(events: int) -> None:
    rng = np.random.default_rng(events)
    p = expit(rng.normal(-1.0, 1.2, events))
    cells = GridTable.from_events(p, (rng.random(events) < p).astype(np.int64)).to_scores()
    rows = thin(cells)
    assert rows.rows < 0.6 * cells.rows
    assert rows.total == cells.total
    assert float(rows.residual.sum()) == pytest.approx(float(cells.residual.sum()), abs=1e-9)
    (positives,) = outcomes(rng, cells, cells.score, 200)
    summed = np.add.reduceat(positives, np.searchsorted(cells.lower, rows.lower), axis=1)
    chosen = [MEASURES[name] for name in ("tce", "intce", "surrogate_intce")]
    levels = null_level(cells, chosen, draws=199)
    for measure in chosen:
        law, on_rows = measure.of_outcomes(cells, positives), measure.of_outcomes(rows, summed)
        spread = float(law.std())
        assert on_rows.std() == pytest.approx(spread, rel=0.15), measure.name
        assert (on_rows - law).std() < 0.7 * spread, measure.name
        # Two sets of 200 draws differ by a tenth of their spread, and two pairs by as much.
        assert levels[measure.name].mean == pytest.approx(law.mean(), abs=0.4 * spread), measure.name


def test_single_predictions_are_drawn_as_they_are() -> None:
    table = ScoreTable.from_events([0.1, 0.1001, 0.4], [0, 1, 1])
    assert widen(table) is table
    assert thin(table) is table
