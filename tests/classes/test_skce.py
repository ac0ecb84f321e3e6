"""The SKCE's estimators against double sums, published numbers and each other."""

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any, Final

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from monitor.classes.skce import (
    EXACT_UP_TO,
    Estimator,
    KernelName,
    PairSums,
    VectorKernel,
    median_distance,
    skce,
    skce_blocks,
    skce_findings,
)
from monitor.errors import InputError, NotEnoughData
from monitor.measures import kce
from monitor.scores import ClassTable, ScoreTable
from tests.long import examples
from tests.reference import naive_classes as naive

KERNELS: Final[dict[KernelName, Callable[[float], naive.Kernel]]] = {
    "exponential": naive.exponential,
    "gaussian": naive.gaussian,
    "tv_exponential": naive.total_variation_exponential,
}
every_kernel = pytest.mark.parametrize("kernel", KERNELS)


def table_of(seed: int, n: int, classes: int, sharpness: float = 1.0) -> ClassTable:
    return ClassTable.from_events(*naive.simulated(seed, n, classes, sharpness))


@every_kernel
@examples(10, 25)
@given(seed=st.integers(0, 99), classes=st.integers(2, 6), lengthscale=st.sampled_from([0.1, 1.0, 3.0]))
def test_the_definition_by_double_sums(kernel: KernelName, seed: int, classes: int, lengthscale: float) -> None:
    table = table_of(seed, 13, classes, 2.0)
    by_hand = KERNELS[kernel](lengthscale)
    p, y = table.prediction, table.outcome
    options: dict[str, Any] = {"kernel": kernel, "lengthscale": lengthscale}
    assert skce(table, **options) == pytest.approx(naive.skce_unbiased(by_hand, p, y), abs=1e-13)
    assert skce(table, **options, estimator="biased") == pytest.approx(naive.skce_biased(by_hand, p, y), abs=1e-13)
    for size in (2, 5, 13):
        found = skce(table, **options, estimator="block", block_size=size)
        assert found == pytest.approx(naive.skce_block(by_hand, p, y, size), abs=1e-13)


@pytest.mark.parametrize(
    ("outcome", "unbiased", "biased"),
    [([0, 1], 0.0, 0.0), ([0, 0], 0.0, 0.5), ([1, 0], -2 * math.exp(-1), 1 - math.exp(-1)), ([1, 1], 0.0, 0.5)],
)
def test_the_numbers_of_the_julia_package(outcome: list[int], unbiased: float, biased: float) -> None:
    """ "Two-dimensional example" of CalibrationErrors.jl, test/skce.jl; classes count from 0 here."""
    table = ClassTable.from_events([[1.0, 0.0], [0.0, 1.0]], outcome)
    assert skce(table, kernel="gaussian") == pytest.approx(unbiased)
    assert skce(table, kernel="gaussian", estimator="biased") == pytest.approx(biased)
    ten_times = ClassTable.from_events(np.tile(np.eye(2), (10, 1)), outcome * 10)
    assert skce(ten_times, kernel="gaussian", estimator="block") == pytest.approx(unbiased)


@given(seed=st.integers(0, 99))
def test_two_classes_are_twice_the_binary_kce(seed: int) -> None:
    """Vectors (1 - p, p) lie sqrt(2) |p - q| apart, and their residuals' product is twice that of y - p."""
    p, y = naive.simulated(seed, 40, 2, 1.5)
    table, scores = ClassTable.from_events(p, y), ScoreTable.from_events(p[:, 1], y)
    h = 1.0 / math.sqrt(2.0)
    assert skce(table) == pytest.approx(2.0 * kce(scores, bandwidth=h, unbiased=True), abs=1e-12)
    assert skce(table, estimator="biased") == pytest.approx(2.0 * kce(scores, bandwidth=h) ** 2, abs=1e-12)


@every_kernel
@given(seed=st.integers(0, 99))
def test_neither_order_nor_names_of_classes_matter_and_v_is_no_less_than_0(kernel: KernelName, seed: int) -> None:
    rng = np.random.default_rng(seed)
    p, y = naive.simulated(seed, 30, 4)
    order, classes = rng.permutation(30), rng.permutation(4)
    table = ClassTable.from_events(p, y)
    other = ClassTable.from_events(p[order][:, classes], np.argsort(classes)[y[order]])
    estimators: tuple[Estimator, ...] = ("unbiased", "biased")
    for estimator in estimators:
        value = skce(table, kernel=kernel, estimator=estimator)
        assert skce(other, kernel=kernel, estimator=estimator) == pytest.approx(value, abs=1e-13)
    assert 0.0 <= skce(table, kernel=kernel, estimator="biased") <= 2.0


@every_kernel
def test_mean_and_variance_under_calibration_are_exact(kernel: KernelName) -> None:
    """Over every outcome that five predictions allow."""
    table = table_of(3, 5, 3)
    mean, variance = naive.null_moments_by_enumeration(KERNELS[kernel](1.0), table.prediction)
    found = PairSums.of(table, VectorKernel(kernel))
    assert mean == pytest.approx(0.0, abs=1e-14)
    assert found.null_deviation**2 == pytest.approx(variance, rel=1e-10)
    assert variance == pytest.approx(naive.null_variance(KERNELS[kernel](1.0), table.prediction), rel=1e-10)


def test_blocks_leave_the_rest_out() -> None:
    table = table_of(1, 23, 3)
    values = skce_blocks(table, block_size=5)
    assert values.shape == (4,)
    first = ClassTable(table.prediction[:5], table.outcome[:5])
    assert values[0] == pytest.approx(skce(first))


def test_the_median_heuristic() -> None:
    p = np.array([[1.0, 0.0], [0.0, 1.0], [0.5, 0.5]])
    assert median_distance(p) == pytest.approx(math.sqrt(0.5))
    assert median_distance(p, total_variation=True) == pytest.approx(0.5)
    assert median_distance(p[:1]) == 1.0
    assert median_distance(np.tile(p[:1], (5, 1))) == 1.0
    table = ClassTable.from_events(p, [0, 1, 1])
    assert VectorKernel.of(table, "tv_exponential", "median").lengthscale == pytest.approx(0.5)
    assert skce(table, lengthscale="median") == skce(table, lengthscale=median_distance(p))
    # Of many predictions a part, whose choice does not depend on their order.
    many = np.random.default_rng(0).dirichlet(np.ones(3), 5000)
    whole = np.median(np.linalg.norm(many[:2000, None] - many[None, :2000], axis=2))
    assert median_distance(many) == pytest.approx(whole, rel=0.03)
    assert median_distance(many[::-1]) == median_distance(many)


def test_reports_take_all_pairs_of_few_events_and_features_of_many() -> None:
    few = skce_findings(table_of(1, 300, 3, 1.5))
    assert few.method.startswith("exact")
    assert few.value == skce(table_of(1, 300, 3, 1.5))
    many = table_of(2, EXACT_UP_TO + 1, 3, 1.5)
    found = skce_findings(many)
    assert "512 Fourier features" in found.method
    sums = PairSums.of(many, VectorKernel())
    assert found.value == pytest.approx(sums.unbiased, rel=0.05)
    assert found.null_q95 == pytest.approx(sums.null_law()[0], rel=0.15)
    assert (found.lower, found.upper) == pytest.approx(sums.interval(), rel=0.15)


@pytest.mark.parametrize("classes", [2, 5])
def test_p_values_under_calibration_are_uniform_and_under_error_small(classes: int) -> None:
    p_values = np.array([skce_findings(table_of(seed, 150, classes)).p_value for seed in range(300)])
    assert 0.02 <= (p_values <= 0.05).mean() <= 0.08
    assert 0.4 <= p_values.mean() <= 0.6
    for seed in range(5):
        found = skce_findings(table_of(seed, 1500, classes, 2.0))
        assert found.p_value < 0.01
        assert found.value > found.null_q95


@pytest.mark.parametrize("sharpness", [1.0, 2.0])
def test_the_interval_covers_the_error(sharpness: float) -> None:
    large = [table_of(seed + 900, 4000, 3, sharpness) for seed in range(4)]
    truth = 0.0 if sharpness == 1.0 else float(np.mean([skce(table) for table in large]))
    found = [skce_findings(table_of(seed, 200, 3, sharpness)) for seed in range(150)]
    assert np.mean([each.lower <= truth <= each.upper for each in found]) >= 0.92


def test_certain_predictions_have_no_uncertainty() -> None:
    right = ClassTable.from_events(np.eye(3), [0, 1, 2])
    assert skce_findings(right).p_value == 1.0
    wrong = replace(right, outcome=np.array([1, 2, 0]))
    assert skce_findings(wrong).p_value in {0.0, 1.0}
    assert skce(ClassTable.from_events([[1.0, 0.0]] * 2, [1, 1])) == pytest.approx(2.0)
    assert skce_findings(ClassTable.from_events([[1.0, 0.0]] * 2, [1, 1])).p_value == 0.0


def test_wrong_options_are_named() -> None:
    table = table_of(1, 5, 3)
    wrong: list[tuple[dict[str, Any], str]] = [
        ({"kernel": "laplace"}, "kernel must be one of 'exponential', 'gaussian', 'tv_exponential', got 'laplace'"),
        ({"lengthscale": 0.0}, "lengthscale must be a finite number above 0, got 0.0"),
        ({"lengthscale": "mean"}, "lengthscale must be a number or 'median', got 'mean'"),
        ({"estimator": "linear"}, "estimator must be one of 'unbiased', 'biased', 'block', got 'linear'"),
        ({"estimator": "block", "block_size": 1}, "block_size must be a whole number of at least 2, got 1"),
        ({"estimator": "block", "block_size": 2.5}, "block_size must be a whole number of at least 2, got 2.5"),
    ]
    for options, message in wrong:
        with pytest.raises(InputError, match=message):
            skce(table, **options)
    short: list[tuple[int, dict[str, Any], str]] = [
        (1, {}, "SKCE needs at least 2 events, got 1"),
        (0, {"estimator": "biased"}, "SKCE needs at least 1 event, got 0"),
        (4, {"estimator": "block", "block_size": 5}, "SKCE in blocks of 5 needs at least 5 events, got 4"),
    ]
    for n, options, message in short:
        with pytest.raises(NotEnoughData, match=message):
            skce(ClassTable(table.prediction[:n], table.outcome[:n]), **options)
