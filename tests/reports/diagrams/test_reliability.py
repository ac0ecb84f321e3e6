import numpy as np
import pytest
from scipy.special import expit
from scipy.stats import binom, binomtest

from monitor.errors import NotEnoughData
from monitor.reports.diagrams.axis import ProbabilityAxis
from monitor.reports.diagrams.reliability import MAX_POINTS, BinSums, Curve, HistogramColumns, on_cells, on_points
from monitor.scores import ScoreTable
from tests.reports.figures.tables import TABLES, every_table

EDGES = np.arange(11) / 10


@every_table
def test_bin_sums_add_up(name: str) -> None:
    table = TABLES[name]()
    bins = BinSums.of(table, EDGES)
    assert bins.counts.sum() == pytest.approx(table.total)
    assert bins.residual.sum() == pytest.approx(table.residual.sum())
    assert bins.variance.sum() == pytest.approx(table.residual_variance.sum())
    assert bins.counts[-1] == pytest.approx(table.counts[table.score >= 0.9].sum())
    filled = bins.filled()
    assert (filled.counts > 0.0).all()
    assert filled.counts.sum() == pytest.approx(table.total)
    assert ((filled.lower <= filled.predicted) & (filled.predicted <= filled.upper)).all()


def test_an_interval_is_wilsons_and_chance_is_the_binomial() -> None:
    table = ScoreTable.from_events([0.2] * 40 + [0.7] * 5 + [1.0] * 3, [1] * 11 + [0] * 29 + [1] * 5 + [1] * 3)
    bins = BinSums.of(table, EDGES).filled()
    interval, chance = bins.interval(), bins.chance()
    for at, (positives, n) in enumerate([(11, 40), (5, 5), (3, 3)]):
        expected = binomtest(positives, n).proportion_ci(method="wilson")
        assert (interval.lower[at], interval.upper[at]) == pytest.approx((expected.low, expected.high))
    for at, (p, n) in enumerate([(0.2, 40), (0.7, 5), (1.0, 3)]):
        expected = binom.ppf([0.025, 0.975], n, p) / n
        assert (chance.lower[at], chance.upper[at]) == pytest.approx(tuple(expected))


def test_chance_is_the_binomial_for_every_number_of_events_and_rate() -> None:
    n, p = (grid.ravel() for grid in np.meshgrid([1.0, 2.0, 7.0, 30.0, 1000.0, 123456.0], [0.0, 1e-5, 0.03, 0.5, 1.0]))
    bins = BinSums(p, p, n, 0.0 * n, n * p, n, n * p * (1.0 - p))
    for found, share in zip(bins.chance(), (0.025, 0.975), strict=True):
        # scipy has no quantile of a variable that is certain.
        exact = np.where(p == 1.0, n, binom.ppf(share, n, np.where(p == 1.0, 0.5, p)))
        np.testing.assert_array_equal(np.rint(found * n), exact)


def test_weights_count_as_the_equal_ones_that_they_are_worth() -> None:
    p, y = [0.3] * 100, [1] * 40 + [0] * 60
    equal, heavy = (BinSums.of(ScoreTable.from_events(p, y, weight), EDGES).filled() for weight in (None, [7.0] * 100))
    np.testing.assert_allclose(equal.interval(), heavy.interval())
    np.testing.assert_allclose(equal.chance(), heavy.chance())
    uneven = BinSums.of(ScoreTable.from_events(p, y, np.tile([0.1, 1.9], 50)), EDGES).filled()
    assert (np.diff(uneven.interval(), axis=0) > np.diff(equal.interval(), axis=0)).all()


def test_the_band_holds_the_diagonal_and_narrows_with_data() -> None:
    widths = []
    for n in (200, 20_000):
        rng = np.random.default_rng(n)
        p = rng.integers(1, 20, n) / 20
        curve = Curve.of(on_cells(ScoreTable.from_events(p, rng.random(n) < p)))
        assert ((curve.lower <= curve.prediction) & (curve.prediction <= curve.upper)).all()
        widths.append(float((curve.upper - curve.lower).mean()))
    assert widths[1] < 0.25 * widths[0]


def test_the_band_holds_the_curve_of_calibrated_models_95_times_in_100_at_each_place() -> None:
    inside = []
    for seed in range(120):
        rng = np.random.default_rng(seed)
        p = expit(rng.normal(-2.0, 1.5, 2000))
        curve = Curve.of(on_cells(ScoreTable.from_events(p, rng.random(2000) < p)))
        inside.append(np.average((curve.lower <= curve.rate) & (curve.rate <= curve.upper), weights=curve.counts))
    assert 0.93 < np.mean(inside) < 0.98


@every_table
def test_a_curve_has_few_points_and_all_events(name: str) -> None:
    cells = on_cells(TABLES[name]())
    points = on_points(cells)
    assert points.rows <= MAX_POINTS
    assert (np.diff(points.score) > 0.0).all()
    assert points.total == pytest.approx(cells.total)
    assert points.residual.sum() == pytest.approx(cells.residual.sum())
    curve = Curve.of(cells)
    assert curve.counts.sum() == pytest.approx(cells.total)
    assert (np.diff(curve.rate) >= 0.0).all()


def test_the_few_predictions_at_an_end_have_points_of_their_own() -> None:
    """On an axis in log odds they fill half of it; by number they would have two."""
    rng = np.random.default_rng(1)
    p = np.concatenate([expit(rng.normal(0.0, 1.0, 20_000)), expit(np.linspace(-9.0, -4.0, 300))])
    points = on_points(ScoreTable.from_events(p, rng.random(p.size) < p))
    assert (points.score < 0.01).sum() > 10
    # And most predictions have most of the points.
    assert (points.score > 0.1).sum() > MAX_POINTS / 2


@every_table
@pytest.mark.parametrize("in_log_odds", [False, True])
def test_columns_hold_all_predictions(name: str, in_log_odds: bool) -> None:
    cells = on_cells(TABLES[name]())
    axis = ProbabilityAxis.in_log_odds(cells) if in_log_odds else ProbabilityAxis()
    columns = HistogramColumns.of(cells, axis, 40)
    assert columns.counts.sum() == pytest.approx(cells.total)
    assert columns.surplus.sum() == pytest.approx(cells.residual.sum())
    assert (columns.chance**2).sum() == pytest.approx(1.959964**2 * cells.residual_variance.sum(), rel=1e-6)


def test_a_diagram_needs_events() -> None:
    with pytest.raises(NotEnoughData):
        on_cells(ScoreTable.from_events([], []))
