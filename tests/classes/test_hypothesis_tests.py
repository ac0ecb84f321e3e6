"""The tests of calibration: their statistics, their size and their power."""

import math
from collections.abc import Callable
from typing import Final

import numpy as np
import pytest
from scipy.stats import norm

from monitor.classes import (
    ClassCalibrationTest,
    block_test,
    bootstrap_test,
    consistency_test,
    distribution_free_test,
    exact_variance_test,
    mmce,
    skce,
)
from monitor.classes.skce import Estimator, skce_blocks
from monitor.errors import InputError, NotEnoughData
from monitor.scores import ClassTable
from tests.long import short_rows
from tests.reference import naive_classes as naive


def table_of(seed: int, n: int, classes: int = 3, sharpness: float = 1.0) -> ClassTable:
    return ClassTable.from_events(*naive.simulated(seed, n, classes, sharpness))


TESTS: Final[dict[str, Callable[[ClassTable], ClassCalibrationTest]]] = {
    "block": lambda table: block_test(table, block_size=10),
    "exact_variance": exact_variance_test,
    "bootstrap": lambda table: bootstrap_test(table, draws=99),
    "consistency": lambda table: consistency_test(table, mmce, draws=99),
}


@pytest.mark.parametrize(
    ("name", "tables"),
    short_rows([("block", 1000), ("exact_variance", 1000), ("bootstrap", 300), ("consistency", 300)], 1),
)
def test_the_size_of_a_test(name: str, tables: int) -> None:
    """Of 3,000 tables of 50 to 500 events the exact-variance test rejects .041 to .061, the block test .023 to .052."""
    p_values = np.array([TESTS[name](table_of(seed, 150)).p_value for seed in range(tables)])
    assert 0.02 <= (p_values <= 0.05).mean() <= 0.08
    assert 0.43 <= p_values.mean() <= 0.57
    assert TESTS[name](table_of(1, 200)).test == name


@pytest.mark.parametrize("name", ["exact_variance", "bootstrap", "consistency"])
def test_the_power_of_a_test(name: str) -> None:
    p_values = [TESTS[name](table_of(seed, 1000, sharpness=2.0)).p_value for seed in range(10)]
    assert np.mean([p <= 0.05 for p in p_values]) >= 0.9


def test_blocks_are_far_weaker_than_all_pairs() -> None:
    tables = [table_of(seed, 400, sharpness=2.0) for seed in range(60)]
    of_blocks = np.mean([block_test(table).p_value <= 0.05 for table in tables])
    of_pairs = np.mean([exact_variance_test(table).p_value <= 0.05 for table in tables])
    assert of_blocks < 0.5
    assert of_pairs > 0.9


def test_the_block_tests_statistic() -> None:
    """As "estimate, stderr, and z" of CalibrationTests.jl, test/skce/asymptotic_block.jl."""
    table = table_of(1, 53, 10)
    found = block_test(table, block_size=5)
    values = skce_blocks(table, block_size=5)
    assert found.estimate == skce(table, estimator="block", block_size=5)
    assert found.deviation == pytest.approx(np.std(values, ddof=1) / math.sqrt(10))
    assert found.deviation is not None
    assert found.statistic == pytest.approx(found.estimate / found.deviation)
    assert found.p_value == pytest.approx(norm.sf(found.statistic))


def test_the_block_test_of_blocks_that_agree() -> None:
    agreed = ClassTable.from_events(np.tile(np.eye(2), (4, 1)), [1, 0] * 4)
    assert block_test(agreed).p_value == 1.0  # every block is -2 exp(-sqrt 2)
    wrong = ClassTable.from_events([[1.0, 0.0]] * 6, [1] * 6)
    assert block_test(wrong).p_value == 0.0
    right = ClassTable.from_events([[1.0, 0.0]] * 6, [0] * 6)
    assert block_test(right).p_value == 0.5
    with pytest.raises(NotEnoughData, match="at least 2 blocks of 4 events, got 6 events"):
        block_test(right, block_size=4)


def test_the_bootstrap_tests_statistic() -> None:
    """As "estimate, statistic, and kernel matrix" of CalibrationTests.jl, asymptotic.jl; its bootstrap by loops."""
    table = table_of(2, 12, 3, 1.5)
    p, y, n = table.prediction, table.outcome, 12
    kernel = naive.exponential(1.0)
    found = bootstrap_test(table, draws=99, seed=5)
    unbiased, biased = naive.skce_unbiased(kernel, p, y), naive.skce_biased(kernel, p, y)
    assert found.estimate == pytest.approx(unbiased)
    assert found.statistic == pytest.approx(n / (n - 1) * unbiased - biased)
    h = np.array([[naive.skce_term(kernel, p[i], y[i], p[j], y[j]) for j in range(n)] for i in range(n)])
    beyond = 0
    for counts in np.random.default_rng(5).multinomial(n, np.full(n, 1 / n), size=99):
        sample = np.repeat(np.arange(n), counts)
        pairs = [h[sample[i], sample[j]] for i in range(n) for j in range(i)]
        crossed = [h[i, k] for i in sample for k in range(n)]
        beyond += np.mean(pairs) - 2 * np.mean(crossed) >= found.statistic
    assert found.p_value == pytest.approx((1 + beyond) / 100)


@pytest.mark.parametrize("estimator", ["unbiased", "biased", "block"])
def test_the_distribution_free_bound_holds(estimator: Estimator) -> None:
    """P(p <= alpha) <= alpha for every alpha, as "consistency" of CalibrationTests.jl, distribution_free.jl."""
    found = [distribution_free_test(table_of(seed, 100), estimator=estimator) for seed in range(100)]
    p_values = np.array([each.p_value for each in found])
    assert all((p_values <= alpha).mean() <= alpha for alpha in np.arange(0.05, 1.0, 0.1))
    assert all(each.p_value == 1.0 for each in found if each.estimate <= 0.0)
    wrong = ClassTable.from_events([[1.0, 0.0, 0.0]] * 100, [1] * 100)
    assert distribution_free_test(wrong, estimator=estimator).p_value < 1e-6


def test_the_distribution_free_p_values() -> None:
    wrong = ClassTable.from_events([[1.0, 0.0]] * 11, [1] * 11)  # every estimate is 2, the bound
    assert distribution_free_test(wrong).p_value == pytest.approx(math.exp(-5 / 2))
    assert distribution_free_test(wrong, estimator="block", block_size=3).p_value == pytest.approx(math.exp(-3 / 2))
    biased = distribution_free_test(wrong, estimator="biased").p_value
    assert biased == pytest.approx(math.exp(-((math.sqrt(11) - 1) ** 2) / 2))


@pytest.mark.parametrize("name", ["bootstrap", "consistency"])
def test_draws_can_be_drawn_again(name: str) -> None:
    table = table_of(1, 60)
    assert TESTS[name](table) == TESTS[name](table)


def test_wrong_options_are_named() -> None:
    table = table_of(1, 60)
    with pytest.raises(InputError, match="draws must be a whole number of at least 19, got 10"):
        bootstrap_test(table, draws=10)
    with pytest.raises(InputError, match="draws must be a whole number of at least 19, got 10"):
        consistency_test(table, mmce, draws=10)
    for test in (bootstrap_test, exact_variance_test, distribution_free_test):
        with pytest.raises(NotEnoughData, match="at least 2 events, got 1"):
            test(ClassTable(table.prediction[:1], table.outcome[:1]))
    with pytest.raises(NotEnoughData, match="at least 1 event, got 0"):
        consistency_test(ClassTable(table.prediction[:0], table.outcome[:0]), mmce)
