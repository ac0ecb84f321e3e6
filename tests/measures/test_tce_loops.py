"""Blocks of PAVA-BC, and the refuted events of many draws: the verdicts are scipy's."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy.optimize import brentq
from scipy.stats import binom, binomtest
from sklearn.isotonic import IsotonicRegression

from monitor.measures.binomial_loops import log_factorials, log_pmf, upper_tail
from monitor.measures.tce_loops import pool_adjacent_violators, refuted_events
from tests.long import examples, short_of
from tests.reference.naive_tce import pava_bc

Rows = list[tuple[int, int]]

rows_of_counts = st.lists(
    st.integers(1, 12).flatmap(lambda count: st.tuples(st.integers(0, count), st.just(count))), min_size=1, max_size=40
)


def arrays(rows: Rows) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    positives, counts = zip(*rows, strict=True)
    return np.array(positives, np.int64), np.array(counts, np.int64)


def blocks(rows: Rows, min_size: int, max_size: int) -> list[tuple[int, int]]:
    positives, counts = arrays(rows)
    starts = pool_adjacent_violators(positives, counts, min_size, max_size)
    sums = np.add.reduceat(positives, starts), np.add.reduceat(counts, starts)
    return [(int(k), int(n)) for k, n in zip(*sums, strict=True)]


@examples(100, 300)
@given(outcomes=st.lists(st.integers(0, 1), min_size=1, max_size=120), data=st.data())
def test_distinct_predictions_give_the_blocks_of_algorithm_2(outcomes: list[int], data: st.DataObject) -> None:
    max_size = data.draw(st.integers(0, len(outcomes)))
    min_size = data.draw(st.integers(0, max_size))
    assert blocks([(y, 1) for y in outcomes], min_size, max_size) == pava_bc(outcomes, min_size, max_size)


@examples(70, 200)
@given(rows=rows_of_counts)
def test_without_limits_the_blocks_are_those_of_isotonic_regression(rows: Rows) -> None:
    positives, counts = arrays(rows)
    fitted = IsotonicRegression().fit_transform(np.arange(len(rows)), positives / counts, sample_weight=counts)
    starts = pool_adjacent_violators(positives, counts, 0, int(counts.sum()))
    rate = np.add.reduceat(positives, starts) / np.add.reduceat(counts, starts)
    assert (np.diff(rate) > 0).all()
    np.testing.assert_allclose(np.repeat(rate, np.diff(np.append(starts, len(rows)))), fitted, atol=1e-12)


@examples(100, 300)
@given(rows=rows_of_counts, data=st.data())
def test_a_block_exceeds_the_upper_limit_only_where_a_single_row_does(rows: Rows, data: st.DataObject) -> None:
    positives, counts = arrays(rows)
    max_size = data.draw(st.integers(1, int(counts.sum())))
    min_size = data.draw(st.integers(0, max_size))
    starts = pool_adjacent_violators(positives, counts, min_size, max_size)
    assert starts[0] == 0
    assert (np.diff(starts) > 0).all()
    sizes = np.add.reduceat(counts, starts)
    rows_in_block = np.diff(np.append(starts, len(rows)))
    assert ((sizes <= max_size) | (rows_in_block == 1)).all()


def test_a_row_of_more_events_than_allowed_is_a_block_of_its_own() -> None:
    assert blocks([(1, 3), (40, 100), (1, 2), (0, 2)], 5, 20) == [(1, 3), (40, 100), (1, 4)]


def test_the_tail_joins_the_last_block_only_within_the_upper_limit() -> None:
    falling = [(1, 1)] * 10 + [(0, 1)] * 10
    assert blocks(falling, 4, 20) == [(10, 20)]
    assert blocks(falling, 4, 19) == [(10, 16), (0, 4)]


@pytest.mark.parametrize(("min_size", "expected"), [(1, [(0, 3)]), (3, [(0, 3)]), (50, [(0, 3)])])
def test_fewer_events_than_the_tail_holds_are_one_block(min_size: int, expected: list[tuple[int, int]]) -> None:
    assert blocks([(0, 1), (0, 1), (0, 1)], min_size, 50) == expected


Floats = NDArray[np.float64]


def refuted(score: Floats, counts: NDArray[np.int64], k: int, alpha: float = 0.05) -> tuple[int, bool]:
    """Refuted events where all rows are one block with k positives."""
    n = int(counts.sum())
    positives = np.zeros((1, counts.size))
    left = k
    for row, count in enumerate(counts.tolist()):
        positives[0, row] = min(left, count)
        left -= min(left, count)
    events, sure = refuted_events(score, counts, positives, n, n, alpha, log_factorials())
    return int(events[0]), bool(sure[0])


def scipy_refuted(score: Floats, counts: NDArray[np.int64], k: int, alpha: float = 0.05) -> int:
    n = int(counts.sum())
    verdicts = [binomtest(k, n, p).pvalue <= alpha for p in score.tolist()]
    return int(counts[np.array(verdicts)].sum())


@pytest.mark.parametrize("alpha", short_of([0.05, 1e-6, 0.5, 0.99], 1))
@pytest.mark.parametrize("n", [40, 1000, 30_000, 40_000, 2_000_000])
def test_the_refuted_events_are_those_that_scipy_refutes(n: int, alpha: float) -> None:
    rng = np.random.default_rng(n)
    for rate in (0.0, 0.002, 0.1, 0.5, 0.93, 1.0):
        k = round(rate * n)
        spread = np.sqrt(max(rate * (1.0 - rate), 1.0 / n) / n)
        score = np.unique(np.clip(rate + spread * rng.normal(0.0, 3.0, 40), 0.0, 1.0))
        counts = rng.multinomial(n - score.size, np.full(score.size, 1.0 / score.size)) + 1
        assert refuted(score, counts, k, alpha) == (scipy_refuted(score, counts, k, alpha), True), rate


@pytest.mark.parametrize("n", range(5, 14))
def test_every_small_observation_has_scipys_verdicts(n: int) -> None:
    for m in (1, 2, 5):
        counts = np.full(m, n // m, np.int64)
        counts[-1] += n - counts.sum()
        for score in (np.linspace(0.0, 1.0, m), (np.arange(m) + 1.0) / (m + 1), np.geomspace(5e-324, 0.3, m)):
            for k in range(n + 1):
                assert refuted(score, counts, k) == (scipy_refuted(score, counts, k), True), (m, k)


def test_a_gap_in_the_acceptance_set_is_found() -> None:
    score = np.array([0.163, 0.1692, 0.1762])
    assert refuted(score, np.array([5, 10, 15]), 1) == (10, True)


@pytest.mark.parametrize(("k", "n"), [(3, 50), (20, 100), (28, 100), (450, 1000), (9_000, 20_000)])
def test_a_verdict_that_rounding_could_decide_is_not_given(k: int, n: int) -> None:
    def beyond(p: float) -> float:
        return float(binomtest(k, n, p).pvalue) - 0.05

    rate = k / n
    hypothesis = brentq(beyond, rate, min(1.0, rate + 4.0 * np.sqrt(rate / n)), xtol=1e-16, rtol=1e-15)
    # There the p-value is alpha, or jumps over it: which side it is on depends on the last bits.
    assert refuted(np.array([hypothesis]), np.array([n]), k)[1] is False
    assert refuted(np.array([hypothesis * (1.0 + 1e-6)]), np.array([n]), k)[1] is True


@pytest.mark.parametrize("n", [1, 7, 300, 20_000, 1_000_000])
@pytest.mark.parametrize("p", [1e-6, 0.02, 0.4, 0.5, 0.97])
def test_tails_are_scipys(n: int, p: float) -> None:
    mean, sd = n * p, np.sqrt(n * p * (1.0 - p))
    for x in {int(np.floor(mean)) + 1, *(int(mean + z * sd) + 1 for z in (0.5, 2.0, 5.0))}:
        if x > n:
            assert upper_tail(x, n, p, 1.0 - p, 0.0, 1e-15) == 0.0
            continue
        tail = upper_tail(x, n, p, 1.0 - p, log_pmf(x, n, p), 1e-15)
        assert tail == pytest.approx(binom.sf(x - 1, n, p), rel=1e-10)
        # The margin of rough tails covers what they leave out.
        rough = upper_tail(x, n, p, 1.0 - p, log_pmf(x, n, p), 1e-6)
        assert rough == pytest.approx(tail, rel=3e-5)
