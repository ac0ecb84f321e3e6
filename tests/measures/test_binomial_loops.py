import math
from fractions import Fraction

import numpy as np
import pytest
from scipy.stats import binom

from monitor.measures.binomial_loops import LOG_DOUBT, far_start, log_factorials, log_pmf


def far_starts(k: int, n: int, p: float) -> tuple[int, int]:
    """Start of the far tail of k < n p, with the outcomes in doubt and without."""
    wide, narrow = (
        far_start(k, n, p, math.log(p), math.log1p(-p), doubt, log_factorials()) for doubt in (LOG_DOUBT, -LOG_DOUBT)
    )
    return wide, narrow


@pytest.mark.parametrize("n", [1, 2, 7, 40, 300])
def test_log_pmf_is_the_logarithm_of_the_exact_probability(n: int) -> None:
    for p in (0.0, 2.0**-30, 0.25, 0.4375, 0.75, 1.0 - 2.0**-20, 1.0):  # exact in binary
        for x in range(n + 1):
            exact = math.comb(n, x) * Fraction(p) ** x * (1 - Fraction(p)) ** (n - x)
            expected = (math.log(exact.numerator) - math.log(exact.denominator)) if exact else -math.inf
            assert log_pmf(x, n, p) == pytest.approx(expected, rel=1e-12, abs=1e-11)


def test_log_pmf_agrees_with_scipy_where_factorials_are_huge() -> None:
    rng = np.random.default_rng(1)
    for n in (10_000, 1_000_000, 100_000_000):
        p = rng.uniform(0.001, 0.999, 200)
        x = np.clip(np.rint(n * p + rng.normal(0, 3, 200) * np.sqrt(n * p * (1 - p))), 0, n).astype(np.int64)
        ours = np.array([log_pmf(int(a), n, float(b)) for a, b in zip(x, p, strict=True)])
        np.testing.assert_allclose(np.exp(ours), binom.pmf(x, n, p), rtol=1e-10)


def test_the_probability_outside_the_support_is_zero() -> None:
    assert log_pmf(-1, 5, 0.3) == -math.inf
    assert log_pmf(6, 5, 0.3) == -math.inf


def test_the_far_tail_holds_the_outcomes_that_are_no_likelier_than_the_observed() -> None:
    rng = np.random.default_rng(2)
    for n in range(1, 40):
        for k in range(n + 1):
            for p in rng.random(5):
                if k >= n * p:
                    continue
                level = binom.pmf(k, n, p) * (1 + 1e-7)
                beyond = [x for x in range(math.ceil(n * p), n + 1) if binom.pmf(x, n, p) <= level]
                expected = min(beyond, default=n + 1)
                assert far_starts(k, n, p) == (expected, expected)


def test_outcomes_within_rounding_of_the_tolerance_are_in_doubt() -> None:
    # At this p the outcomes 4 and 8 of 10 differ by just the tolerance.
    log_ratio = math.log(math.comb(10, 8) / math.comb(10, 4))
    p = 1 / (1 + math.exp(-(math.log1p(1e-7) - log_ratio) / 4))
    assert far_starts(4, 10, p) == (8, 9)
