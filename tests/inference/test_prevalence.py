"""Whether a shift of the prior explains what is wrong."""

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.special import expit, logit

from monitor.errors import NotEnoughData
from monitor.inference.cox import fit_cox
from monitor.inference.prevalence import prior_shift, projected_kernel_p_value, shifted
from monitor.measures import smce
from monitor.scores import GridTable, ScoreTable
from tests.long import short_rows
from tests.reference.naive_calibration_tests import projected_p_value_by_matrices, projected_p_value_by_refits

Floats = NDArray[np.float64]


def simulated(
    seed: int, n: int, *, slope: float = 1.0, offset: float = 0.0, mean: float = 0.0
) -> tuple[Floats, Floats]:
    """Predictions p, and outcomes whose logits are slope * logit p + offset."""
    rng = np.random.default_rng(seed)
    z = rng.normal(mean, 1.2, n)
    return expit(z), (rng.random(n) < expit(slope * z + offset)).astype(np.float64)


def kernel_p_value(table: ScoreTable) -> float:
    return projected_kernel_p_value(table, shifted(table, fit_cox(table).offset))


@pytest.mark.parametrize("weighted", [False, True])
def test_the_law_is_that_of_whole_matrices(weighted: bool) -> None:
    for seed in range(4):
        p, y = simulated(seed, 50, slope=0.4, offset=0.5)
        w = np.random.default_rng(seed).exponential(1.0, p.size) if weighted else np.ones(p.size)
        table = ScoreTable.from_events(p, y, w if weighted else None)
        q = expit(logit(p) + fit_cox(table).offset)
        assert kernel_p_value(table) == pytest.approx(projected_p_value_by_matrices(p, q, y, w), rel=1e-7)


@pytest.mark.parametrize(("seed", "slope"), [(1, 1.0), (2, 1.0), (3, 0.4)])
def test_the_p_value_is_that_of_draws_which_are_fitted_anew(seed: int, slope: float) -> None:
    p, y = simulated(seed, 120, slope=slope, offset=0.5)
    drawn = projected_p_value_by_refits(p, y, draws=1000, seed=seed)
    assert kernel_p_value(ScoreTable.from_events(p, y)) == pytest.approx(drawn, abs=0.04)


@pytest.mark.parametrize(
    ("n", "mean", "offset", "weighted"),
    short_rows([(200, 0.0, 1.0, False), (2000, -4.0, 0.0, False), (2000, -3.0, -0.7, False), (500, 0.0, 0.5, True)], 1),
)
def test_a_mere_shift_is_taken_for_one(n: int, mean: float, offset: float, weighted: bool) -> None:
    """Whatever the offset: the test has its size, and chance is taken off the error."""
    runs, refused, remaining = 400, 0, []
    for run in range(runs):
        p, y = simulated(run, n, mean=mean, offset=offset)
        weight = np.random.default_rng(run).exponential(1.0, n) if weighted else None
        found = prior_shift(ScoreTable.from_events(p, y, weight))
        refused += found.p_value <= 0.05
        remaining.append(found.logit_error_after_offset)
    assert abs(refused / runs - 0.05) <= 0.03
    assert np.median(remaining) == 0.0


@pytest.mark.parametrize("mean", [0.0, -3.0])
def test_a_fault_of_the_slope_is_seen_behind_a_shift(mean: float) -> None:
    found = [
        prior_shift(GridTable.from_events(*simulated(run, 4000, slope=1.4, offset=0.5, mean=mean)).to_scores())
        for run in range(30)
    ]
    assert np.mean([each.p_value <= 0.05 for each in found]) >= 0.95
    # Logits are off by .4 times their distance from the mean: of 1.2 there, weighted by information, somewhat less.
    assert np.mean([each.logit_error_after_offset for each in found]) == pytest.approx(0.4, abs=0.1)


def test_the_remaining_error_does_not_depend_on_the_number_of_events() -> None:
    few, many = (
        np.mean(
            [
                prior_shift(ScoreTable.from_events(*simulated(run, n, slope=1.3))).logit_error_after_offset
                for run in range(20)
            ]
        )
        for n in (2000, 50_000)
    )
    assert few == pytest.approx(many, rel=0.2)


def test_the_best_offset_leaves_no_mean_residual_and_less_error() -> None:
    p, y = simulated(1, 5000, offset=-0.8, mean=-2.0)
    table = ScoreTable.from_events(p, y)
    found = prior_shift(table)
    after = shifted(table, found.offset)
    assert after.residual.sum() == pytest.approx(0.0, abs=1e-6)
    np.testing.assert_allclose(after.score, expit(logit(table.score) + found.offset), rtol=1e-9)
    assert found.error == smce(table)
    assert found.error_after_offset == smce(after)
    assert found.error_after_offset < 0.3 * found.error
    assert (found.prevalence, found.mean_prediction) == (table.prevalence, table.mean_prediction)
    assert found.prevalence < found.mean_prediction
    assert found.offset == pytest.approx(-0.8, abs=0.15)


def test_the_cells_of_a_window_move_with_their_edges() -> None:
    table = GridTable.from_events(*simulated(2, 500)).to_scores()
    after = shifted(table, 0.7)
    assert (np.diff(after.score) > 0.0).all()
    assert (after.lower <= after.score).all()
    assert (after.score <= after.upper).all()
    np.testing.assert_array_equal(after.counts, table.counts)
    again = shifted(after, -0.7)
    np.testing.assert_allclose(again.score, table.score, rtol=1e-9)


@pytest.mark.parametrize("p", [[0.0, 0.0, 1.0, 1.0], [0.5] * 4, [0.0] * 4, [0.0, 0.3, 0.3, 1.0]])
@pytest.mark.parametrize("y", [[0, 0, 1, 1], [1, 1, 0, 0], [0] * 4, [1] * 4])
def test_whatever_the_predictions_there_is_an_answer(p: list[float], y: list[int]) -> None:
    found = prior_shift(ScoreTable.from_events(p, y))
    assert 0.0 <= found.p_value <= 1.0
    assert np.isfinite([found.offset, found.error_after_offset, found.logit_error_after_offset]).all()


@pytest.mark.parametrize("p", [0.1, 0.3, 0.9])
@pytest.mark.parametrize("n", [60, 2000])
def test_of_equal_predictions_a_shift_explains_everything(p: float, n: int) -> None:
    for share in (0.05, 0.3, 0.7):
        y = np.arange(n) < share * n
        assert prior_shift(ScoreTable.from_events(np.full(n, p), y)).p_value == 1.0


def test_a_slope_is_sized_where_the_model_is_sure_too() -> None:
    """Most predictions lie near 0 and 1, where by the model's own account there is next to no information."""
    rng = np.random.default_rng(1)
    z = rng.normal(0.0, 8.0, 600)
    found = prior_shift(ScoreTable.from_events(expit(z), rng.random(z.size) < expit(0.3 * z)))
    assert found.p_value < 1e-6
    assert found.logit_error_after_offset > 1.0


def test_an_empty_table_is_refused() -> None:
    with pytest.raises(NotEnoughData, match="a test for a prior shift needs at least 1 event, got 0"):
        prior_shift(ScoreTable.from_events([], []))
