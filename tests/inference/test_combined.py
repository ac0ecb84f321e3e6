"""One p-value of a window."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy.special import expit

from monitor.errors import InputError, NotEnoughData
from monitor.inference.combined import calibration_test, cauchy_combination, kernel_p_value
from monitor.inference.contradictions import contradictions
from monitor.inference.cox import fit_cox
from monitor.scores import GridTable, ScoreTable
from tests.reference.naive_calibration_tests import cauchy_by_formula, kernel_p_value_by_matrices

Floats = NDArray[np.float64]


def simulated(
    seed: int, n: int, *, slope: float = 1.0, offset: float = 0.0, mean: float = 0.0
) -> tuple[Floats, Floats]:
    """Predictions p, and outcomes whose logits are slope * logit p + offset."""
    rng = np.random.default_rng(seed)
    z = rng.normal(mean, 1.2, n)
    return expit(z), (rng.random(n) < expit(slope * z + offset)).astype(np.float64)


def window(seed: int, n: int, **of: float) -> ScoreTable:
    return GridTable.from_events(*simulated(seed, n, **of)).to_scores()


@pytest.mark.parametrize("seed", range(4))
def test_the_kernels_p_value_is_that_of_whole_matrices(seed: int) -> None:
    p, y = simulated(seed, 60, slope=0.5)
    assert kernel_p_value(ScoreTable.from_events(p, y)) == pytest.approx(kernel_p_value_by_matrices(p, y), rel=1e-9)
    # Ties share a row, whose law is binomial.
    p = np.round(p, 1).clip(0.1, 0.9)
    assert kernel_p_value(ScoreTable.from_events(p, y)) == pytest.approx(kernel_p_value_by_matrices(p, y), rel=1e-9)


@given(st.lists(st.floats(1e-6, 0.99), min_size=1, max_size=5))
def test_the_combination_is_as_in_its_formula(p_values: list[float]) -> None:
    assert cauchy_combination(p_values) == pytest.approx(cauchy_by_formula(p_values), rel=1e-8)


def test_the_combination_keeps_its_digits_and_no_p_value_of_1_outweighs_the_others() -> None:
    assert cauchy_combination([1e-14, 0.5, 0.5]) == pytest.approx(3e-14, rel=1e-6)
    assert 0.0 <= cauchy_combination([0.0, 0.5, 0.5]) < 1e-15
    assert cauchy_combination([1e-6, 1.0, 1.0]) < 1e-5
    assert cauchy_combination([0.3, 0.3]) == pytest.approx(0.3)


@pytest.mark.parametrize(
    ("n", "mean", "on_grid"), [(100, 0.0, False), (1000, -4.0, True), (2000, 0.0, True), (12_000, -2.0, False)]
)
def test_the_test_has_its_size(n: int, mean: float, on_grid: bool) -> None:
    runs = 100 if n > 10_000 else 400
    refused, sure = 0, 0
    for run in range(runs):
        p, y = simulated(run, n, mean=mean)
        table = GridTable.from_events(p, y).to_scores() if on_grid else ScoreTable.from_events(p, y)
        p_value = calibration_test(table).p_value
        refused += p_value <= 0.05
        sure += p_value <= 0.01
    # Within .03, and within three of its own standard deviations where there are few runs.
    assert abs(refused / runs - 0.05) <= max(0.03, 3.0 * math.sqrt(0.05 * 0.95 / runs))
    assert sure / runs <= 0.01 + 3.0 * math.sqrt(0.01 * 0.99 / runs)


def test_the_size_holds_for_weights() -> None:
    runs, refused = 300, 0
    for run in range(runs):
        p, y = simulated(run, 600, mean=-1.0)
        weight = np.random.default_rng(run).exponential(1.0, p.size)
        refused += calibration_test(ScoreTable.from_events(p, y, weight)).p_value <= 0.05
    assert abs(refused / runs - 0.05) <= 0.03


@pytest.mark.parametrize(
    ("of", "least"),
    [
        ({"slope": 1.4}, 0.95),
        ({"slope": 1.4, "mean": -3.0}, 0.9),
        ({"offset": 0.3}, 0.95),
        ({"offset": 0.5, "mean": -4.0}, 0.7),
    ],
)
def test_faults_of_shape_and_of_the_prior_are_seen(of: dict[str, float], least: float) -> None:
    runs = 60
    assert np.mean([calibration_test(window(run, 2000, **of)).p_value <= 0.05 for run in range(runs)]) >= least


def test_a_fault_that_has_neither_offset_nor_slope_is_seen() -> None:
    """Residuals that change their sign every quarter of the events, alike on both sides."""
    runs, refused = 40, np.zeros(2)
    for run in range(runs):
        rng = np.random.default_rng(run)
        z = rng.normal(0.0, 1.2, 3000)
        p, ranks = expit(z), np.argsort(np.argsort(z)) / z.size
        y = rng.random(z.size) < expit(z + 0.5 * np.sign(np.cos(4.0 * math.pi * ranks)))
        found = calibration_test(GridTable.from_events(p, y).to_scores())
        refused += [found.p_value <= 0.05, found.cox <= 0.05]
    assert refused[0] / runs >= 0.9
    assert refused[1] / runs <= 0.5


def test_it_is_deterministic_and_says_what_its_parts_say() -> None:
    table = window(1, 3000, slope=1.1)
    found = calibration_test(table)
    assert found == calibration_test(table)
    assert found == calibration_test(table, fit=fit_cox(table))
    assert found.ranks != calibration_test(table, seed=5).ranks
    three = cauchy_combination([found.kernel, found.ranks, found.cox])
    assert found.p_value == min(1.0, three / 0.9, found.contradictions / 0.1)
    assert found.contradictions == contradictions(table).p_value
    assert found.kernel == kernel_p_value(table)
    assert found.cox == fit_cox(table).p_value
    # Each group of rows is drawn as one, however many rows there are.
    assert calibration_test(window(2, 20_000, slope=1.5), draws=19).ranks == 1 / 20


def test_sure_predictions_that_are_right_or_wrong() -> None:
    assert calibration_test(ScoreTable.from_events([0.0, 1.0] * 20, [0, 1] * 20)).p_value > 0.5
    assert calibration_test(ScoreTable.from_events([0.0, 1.0] * 20, [0, 0] * 20)).p_value < 1e-9


def test_refusals() -> None:
    with pytest.raises(NotEnoughData, match="a test of calibration needs at least 1 event, got 0"):
        calibration_test(ScoreTable.from_events([], []))
    with pytest.raises(InputError, match="draws must be at least 19, got 5"):
        calibration_test(ScoreTable.from_events([0.5], [1]), draws=5)
