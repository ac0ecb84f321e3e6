"""Offset and slope of the logits."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy.optimize import minimize_scalar
from scipy.special import expit, logit
from sklearn.linear_model import LogisticRegression

from monitor.errors import NotEnoughData
from monitor.inference.cox import Cox, fit_cox, logits, solve_offset
from monitor.scores import GridTable, ScoreTable
from monitor.scores.grid import LOGIT_BOUND
from tests.long import examples, short_of, short_rows
from tests.reference.naive_cox import errors_by_loops, fit_by_optimiser, minus_log_likelihood, offset_error_by_loops

Floats = NDArray[np.float64]


def simulated(
    seed: int, n: int, *, slope: float = 1.0, offset: float = 0.0, mean: float = 0.0
) -> tuple[Floats, Floats]:
    """Predictions p, and outcomes whose logits are slope * logit p + offset."""
    rng = np.random.default_rng(seed)
    z = rng.normal(mean, 1.2, n)
    return expit(z), (rng.random(n) < expit(slope * z + offset)).astype(np.float64)


@pytest.mark.parametrize(("slope", "offset", "mean"), [(1.0, 0.0, 0.0), (0.6, 0.8, -2.0), (1.7, -0.5, 1.0)])
def test_the_fit_is_the_best_that_an_optimiser_finds(slope: float, offset: float, mean: float) -> None:
    p, y = simulated(1, 300, slope=slope, offset=offset, mean=mean)
    found = fit_cox(ScoreTable.from_events(p, y))
    b, intercept, a = fit_by_optimiser(p, y)
    assert found.slope is not None
    assert found.intercept is not None
    assert (found.offset, found.intercept, found.slope) == pytest.approx((b, intercept, a), abs=1e-5)
    w = np.ones(p.size)
    errors = errors_by_loops(p, y, w, found.intercept, found.slope)
    assert (found.intercept_error, found.slope_error) == pytest.approx(errors, rel=1e-6)
    assert found.offset_error == pytest.approx(offset_error_by_loops(p, y, w, found.offset), rel=1e-6)
    at_offset = minus_log_likelihood(p, y, w, b, 1.0)
    gained = 2.0 * (minus_log_likelihood(p, y, w, 0.0, 1.0) - minus_log_likelihood(p, y, w, intercept, a))
    assert found.p_value == pytest.approx(math.exp(-gained / 2.0), rel=1e-6)  # the tail of chi-squared with 2 df
    # With 1 degree of freedom it is that of the root, twice.
    gained = 2.0 * (at_offset - minus_log_likelihood(p, y, w, intercept, a))
    assert found.slope_p_value == pytest.approx(math.erfc(math.sqrt(max(0.0, gained) / 2.0)), rel=1e-5)
    assert found.offset_p_value == pytest.approx(math.erfc(abs(b) / found.offset_error / math.sqrt(2.0)), rel=1e-4)


def test_the_fit_is_that_of_scikit_learn_with_weights_too() -> None:
    p, y = simulated(2, 5000, slope=0.8, offset=0.3, mean=-1.0)
    weight = np.random.default_rng(3).exponential(1.0, p.size)
    for w in (None, weight):
        found = fit_cox(ScoreTable.from_events(p, y, w))
        # Its penalty cannot be left out under one name in all its versions; this much of it is none.
        fitted = LogisticRegression(C=1e12, tol=1e-10, max_iter=1000).fit(logit(p)[:, None], y, w)
        assert found.slope == pytest.approx(fitted.coef_[0, 0], rel=1e-5)
        assert found.intercept == pytest.approx(fitted.intercept_[0], rel=1e-4)
        assert found.intercept is not None
        assert found.slope is not None
        each = np.ones(p.size) if w is None else w
        errors = errors_by_loops(p, y, each, found.intercept, found.slope)
        assert (found.intercept_error, found.slope_error) == pytest.approx(errors, rel=1e-6)


@settings(deadline=None)
@given(
    st.lists(st.tuples(st.sampled_from([0.0, 1e-9, 0.01, 0.3, 0.5, 0.9, 1.0]), st.integers(0, 1)), min_size=1),
    st.integers(0, 9),
)
def test_whatever_the_table_the_fit_is_found_and_no_order_matters(events: list[tuple[float, int]], seed: int) -> None:
    p, y = (np.array(each, np.float64) for each in zip(*events, strict=True))
    found = fit_cox(ScoreTable.from_events(p, y))
    order = np.random.default_rng(seed).permutation(p.size)
    assert found == fit_cox(ScoreTable.from_events(p[order], y[order]))
    for p_value in (found.p_value, found.offset_p_value, found.slope_p_value):
        assert p_value is None or 0.0 <= p_value <= 1.0
    assert math.isfinite(found.offset)
    assert found.offset_error > 0.0
    assert found.diverges is (np.unique(y).size == 1)
    expected = float(expit(logits(p) + found.offset).sum())
    # Of one kind alone, half an event of the other is expected.
    wanted = float(np.clip(y.sum(), 0.5, y.size - 0.5))
    assert expected == pytest.approx(wanted, rel=1e-6)


def test_cells_say_the_same_as_single_predictions() -> None:
    p, y = simulated(4, 20_000, slope=1.2, offset=0.2, mean=-3.0)
    raw, cells = fit_cox(ScoreTable.from_events(p, y)), fit_cox(GridTable.from_events(p, y).to_scores())
    assert (cells.offset, cells.slope, cells.slope_error) == pytest.approx(
        (raw.offset, raw.slope, raw.slope_error), rel=1e-3
    )


@pytest.mark.parametrize("outcome", [0, 1])
def test_outcomes_of_one_kind_have_the_exact_tail(outcome: int) -> None:
    p = np.array([0.1, 0.2, 0.3, 0.3])
    found = fit_cox(ScoreTable.from_events(p, np.full(4, outcome)))
    assert found.diverges
    assert math.copysign(1.0, found.offset) == (1.0 if outcome else -1.0)
    likely = np.prod(p if outcome else 1.0 - p)
    assert found.offset_p_value == found.p_value == pytest.approx(min(1.0, 2.0 * likely))
    assert found.slope is found.slope_p_value is None


def test_what_cannot_be_has_the_probability_0() -> None:
    assert fit_cox(ScoreTable.from_events([0.5, 1.0], [0, 0])).p_value == 0.0
    assert fit_cox(ScoreTable.from_events([0.0, 0.5], [1, 1])).p_value == 0.0


@pytest.mark.parametrize(("y", "slope"), [([0, 0, 1, 1], math.inf), ([1, 1, 0, 0], -math.inf)])
def test_predictions_that_part_the_outcomes_have_an_infinite_slope(y: list[int], slope: float) -> None:
    p = np.array([0.2, 0.3, 0.6, 0.9])
    found = fit_cox(ScoreTable.from_events(p, y))
    assert found.slope == slope
    assert found.intercept is None
    # With that slope, the outcomes are certain.
    alone = minus_log_likelihood(p, np.array(y, np.float64), np.ones(4), 0.0, 1.0)
    assert found.p_value == pytest.approx(math.exp(-alone))


def test_where_they_part_them_but_for_one_value_that_keeps_its_frequency() -> None:
    p, y = np.array([0.2, 0.5, 0.5, 0.5, 0.9]), np.array([0.0, 0.0, 0.0, 1.0, 1.0])
    found = fit_cox(ScoreTable.from_events(p, y))
    assert found.slope == math.inf
    gained = minus_log_likelihood(p, y, np.ones(5), 0.0, 1.0) + math.log(1 / 3) + 2 * math.log(2 / 3)
    assert found.p_value == pytest.approx(math.exp(-gained))


def test_equal_predictions_have_no_slope() -> None:
    found = fit_cox(ScoreTable.from_events([0.2] * 100, [1] * 40 + [0] * 60))
    assert found.slope is found.intercept is found.slope_p_value is None
    assert found.offset == pytest.approx(logit(0.4) - logit(0.2))
    assert found.offset_error == pytest.approx(1.0 / math.sqrt(100 * 0.4 * 0.6))
    # Likelihood ratio and Wald's test of the same, in closed form.
    ratio = 2.0 * (40 * math.log(0.4 / 0.2) + 60 * math.log(0.6 / 0.8))
    assert found.p_value == pytest.approx(math.erfc(math.sqrt(ratio / 2.0)))
    assert found.offset_p_value == pytest.approx(math.erfc(found.offset / found.offset_error / math.sqrt(2.0)))


def test_predictions_of_0_and_1_count_as_the_grids_last_logits() -> None:
    assert logits(np.array([0.0, 1e-30, 0.5, 1.0])).tolist() == [-LOGIT_BOUND, -LOGIT_BOUND, 0.0, LOGIT_BOUND]
    certain = fit_cox(ScoreTable.from_events([0.0, 0.3, 0.6, 1.0], [1, 0, 1, 1]))
    near = fit_cox(
        ScoreTable.from_events([float(expit(-LOGIT_BOUND)), 0.3, 0.6, float(expit(LOGIT_BOUND))], [1, 0, 1, 1])
    )
    assert certain.slope is not None
    assert (certain.offset, certain.slope) == pytest.approx((near.offset, near.slope), rel=1e-6)


def test_the_size_of_weights_does_not_matter() -> None:
    p, y = simulated(5, 400, slope=0.8, mean=-1.0)
    w = np.random.default_rng(6).exponential(1.0, p.size)
    for outcome in (y, np.zeros(p.size), (p > 0.3).astype(np.float64)):
        one, ten = (fit_cox(ScoreTable.from_events(p, outcome, factor * w)) for factor in (1.0, 10.0))
        assert (one.offset, one.offset_error, one.offset_p_value, one.p_value) == pytest.approx(
            (ten.offset, ten.offset_error, ten.offset_p_value, ten.p_value), rel=1e-6
        )


@pytest.mark.parametrize(
    ("n", "mean", "weighted"), short_rows([(300, 0.0, False), (2000, -3.0, False), (600, -1.0, True)], 1)
)
def test_tests_have_their_size_and_intervals_their_coverage(n: int, mean: float, weighted: bool) -> None:
    rng = np.random.default_rng(7)
    runs, refused, covered = 600, np.zeros(3), np.zeros(2)
    for run in range(runs):
        p, y = simulated(1000 + run, n, mean=mean)
        found = fit_cox(ScoreTable.from_events(p, y, rng.exponential(1.0, n) if weighted else None))
        assert found.slope is not None
        assert found.slope_error is not None
        assert found.slope_p_value is not None
        refused += np.array([found.offset_p_value, found.slope_p_value, found.p_value]) <= 0.05
        covered += [
            abs(found.offset) <= 1.96 * found.offset_error,
            abs(found.slope - 1.0) <= 1.96 * found.slope_error,
        ]
    assert (np.abs(refused / runs - 0.05) <= 0.03).all(), refused / runs
    assert (np.abs(covered / runs - 0.95) <= 0.03).all(), covered / runs


@pytest.mark.parametrize("slope", short_of([4.0, 2.0, 1.0], 1))
def test_the_offsets_error_holds_whatever_the_slope(slope: float) -> None:
    """The true offset is 0, by symmetry; the likelihood's own error would be exceeded by a third at a slope of 4."""
    runs = 400
    beyond = 0
    for run in range(runs):
        found = fit_cox(ScoreTable.from_events(*simulated(run, 1000, slope=slope)))
        beyond += abs(found.offset) > 1.96 * found.offset_error
        assert (found.offset_p_value < 0.05) == (abs(found.offset) > 1.959964 * found.offset_error)
    assert abs(beyond / runs - 0.05) <= 0.03


def test_the_offset_is_found_from_far_away() -> None:
    z = np.array([-17.0, 0.0, 17.0])
    counts = np.array([1e6, 1.0, 1e6])
    for hits in (1e-3, 1.0, 1e6, 2e6):
        assert counts @ expit(z + solve_offset(z, counts, hits)) == pytest.approx(hits, rel=1e-9)


def test_an_empty_table_is_refused() -> None:
    with pytest.raises(NotEnoughData, match="the Cox fit needs at least 1 event, got 0"):
        fit_cox(ScoreTable.from_events([], []))


def standard_errors_off(p: Floats, y: Floats, w: Floats, fit: Cox) -> float:
    """How far the fit lies from the maximum of the likelihood, by Newton's next step, in standard errors."""
    assert fit.slope is not None
    assert fit.intercept is not None
    z = logits(p)
    columns = np.stack([np.ones_like(z), z - np.average(z, weights=w)])
    q = expit(fit.intercept + fit.slope * z)
    slopes = columns @ (w * (y - q))
    return math.sqrt(float(slopes @ np.linalg.solve((columns * w * q * (1.0 - q)) @ columns.T, slopes)))


INVERTED = [
    (np.r_[np.zeros(6), np.full(90, 0.9999)], np.r_[np.ones(5), 0, np.ones(19), np.zeros(71)], -0.1117),
    (np.r_[np.full(150, 0.01), np.full(150, 0.99)], np.r_[np.ones(149), 0, np.zeros(149), 1], -1.0890),
]


@pytest.mark.parametrize(("p", "y", "slope"), INVERTED)
def test_outcomes_with_their_signs_swapped_have_a_negative_slope(p: Floats, y: Floats, slope: float) -> None:
    fit = fit_cox(ScoreTable.from_events(p, y))
    assert fit.slope == pytest.approx(slope, abs=1e-4)
    assert standard_errors_off(p, y, np.ones(p.size), fit) < 1e-8
    assert fit.slope_p_value is not None
    assert fit.slope_p_value < 1e-50


scores = st.sampled_from([0.0, 1e-300, 1e-9, 1e-4, 0.01, 0.3, 0.5, 0.500001, 0.99, 0.9999, 1.0]) | st.floats(0.0, 1.0)


@examples(60, 400)
@given(st.lists(st.tuples(scores, st.integers(0, 1), st.sampled_from([1, 3, 1000, 10**6])), min_size=2, max_size=12))
def test_a_finite_fit_is_the_maximum_whatever_the_table(rows: list[tuple[float, int, int]]) -> None:
    p, y, w = (np.array(column, np.float64) for column in zip(*rows, strict=True))
    fit = fit_cox(ScoreTable.from_events(p, y, w))
    if fit.intercept is None:
        return
    # The likelihood is concave, so that where it is level is its only maximum.
    assert standard_errors_off(p, y, w, fit) < 1e-4
    assert fit.slope is not None
    assert fit.slope_lower is not None
    assert fit.slope_upper is not None
    assert fit.slope_lower < fit.slope < fit.slope_upper


def test_the_slopes_interval_ends_where_the_profile_likelihood_has_fallen() -> None:
    p, y = simulated(9, 400, slope=1.3, mean=-2.0)
    fit = fit_cox(ScoreTable.from_events(p, y))
    weight = np.ones(p.size)
    assert fit.slope is not None
    assert fit.intercept is not None
    best = minus_log_likelihood(p, y, weight, fit.intercept, fit.slope)
    for end in (fit.slope_lower, fit.slope_upper):
        assert end is not None
        profile = minimize_scalar(lambda c, a=end: minus_log_likelihood(p, y, weight, c, a)).fun
        assert 2.0 * (profile - best) == pytest.approx(3.841459, rel=1e-3)
    # Of weights it is as wide as the robust error says, which does not change with their size.
    w = np.random.default_rng(1).exponential(1.0, p.size)
    fits = [fit_cox(ScoreTable.from_events(p, y, factor * w)) for factor in (1.0, 1000.0)]
    for fit in fits:
        assert fit.slope_error is not None
        assert fit.slope_lower is not None
        assert fit.slope_upper is not None
        assert fit.slope_upper - fit.slope_lower == pytest.approx(2.0 * 1.96 * fit.slope_error, rel=0.05)
    assert (fits[0].slope_lower, fits[0].slope_upper) == pytest.approx((fits[1].slope_lower, fits[1].slope_upper))


@pytest.mark.parametrize(("n", "mean", "slope"), short_rows([(1000, -5.2, 1.0), (3000, -5.2, 1.5), (500, 0.0, 4.0)], 1))
def test_the_slopes_interval_covers_also_with_few_positives(n: int, mean: float, slope: float) -> None:
    runs = covered = robust = 0
    for run in range(400):
        p, y = simulated(run, n, slope=slope, mean=mean)
        fit = fit_cox(ScoreTable.from_events(p, y))
        if y.sum() < 5 or fit.slope_lower is None or fit.slope_upper is None:
            continue
        assert fit.slope is not None
        assert fit.slope_error is not None
        runs += 1
        covered += fit.slope_lower <= slope <= fit.slope_upper
        robust += abs(fit.slope - slope) <= 1.96 * fit.slope_error
    assert runs >= 250
    assert covered / runs == pytest.approx(0.95, abs=0.03), (covered / runs, robust / runs)
