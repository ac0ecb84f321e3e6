"""Verdicts of the binomial test and of the t-test are those of scipy."""

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy.special import betainc, betaincc, expit, gammaln
from scipy.stats import binomtest

from monitor.measures.tce_tests import BinomialTest, StudentTest
from tests.long import longer, short_of, short_rows
from tests.reference import naive_tce

Floats = NDArray[np.float64]
BINOMIAL = BinomialTest()


def verdicts(k: int, n: int, hypotheses: Floats, alpha: float = 0.05) -> list[bool]:
    starts = np.array([0, hypotheses.size])
    return [bool(v) for v in BINOMIAL.rejected(hypotheses, starts, np.array([k]), np.array([n]), alpha)]


def scipy_verdicts(k: int, n: int, hypotheses: Floats, alpha: float = 0.05) -> list[bool]:
    return [bool(binomtest(k, n, p).pvalue <= alpha) for p in hypotheses.tolist()]


def peaks(k: int, n: int) -> Floats:
    """Hypotheses above k/n at which an outcome beyond k becomes likelier than k: where the p-value jumps."""
    x = np.arange(k + 1, n + 1)
    log_choose = gammaln(n + 1) - gammaln(x + 1) - gammaln(n - x + 1)
    own = gammaln(n + 1) - gammaln(k + 1) - gammaln(n - k + 1)
    return np.asarray(expit((np.log1p(1e-7) + own - log_choose) / (x - k)), np.float64)


def test_a_gap_in_the_acceptance_set_is_found() -> None:
    assert verdicts(1, 30, np.array([0.163, 0.1692, 0.1762])) == [False, True, False]


@pytest.mark.parametrize("n", range(1, 13))
def test_every_small_observation_has_scipys_verdicts(n: int) -> None:
    shares = np.arange(n + 1) / n
    hypotheses = np.unique(
        np.concatenate([np.linspace(0, 1, 31), shares, np.nextafter(shares, 0.0), np.nextafter(shares, 1.0)])
    )
    for k in range(n + 1):
        assert verdicts(k, n, hypotheses) == scipy_verdicts(k, n, hypotheses), k


@pytest.mark.parametrize("alpha", short_of([0.05, 1e-6, 0.01, 0.5, 0.99], 1))
@pytest.mark.parametrize("n", [30, 500, 20_000, 1_000_000])
def test_hypotheses_about_the_limits_have_scipys_verdicts(n: int, alpha: float) -> None:
    rng = np.random.default_rng(n)
    for k in sorted({0, 1, n // 1000, n // 7, n // 2, n - n // 50, n}):
        lower, upper = BINOMIAL.acceptance_limits(np.array([k]), np.array([n]), alpha)
        step = 0.5 / n
        near = np.concatenate([lower + step * rng.normal(0, 2, 8), upper + step * rng.normal(0, 2, 8)])
        hypotheses = np.unique(np.clip(np.append(near, rng.uniform(lower, upper, 4)), 0.0, 1.0))
        assert verdicts(k, n, hypotheses, alpha) == scipy_verdicts(k, n, hypotheses, alpha), k


@pytest.mark.parametrize(("k", "n"), [(1, 30), (0, 12), (3, 50), (20, 40), (37, 400)])
def test_hypotheses_on_a_jump_of_the_p_value_have_scipys_verdicts(k: int, n: int) -> None:
    jumps = peaks(k, n)
    jumps = jumps[jumps < min(1.0, k / n + 6 / np.sqrt(n))]
    steps = [jumps]
    for direction in (0.0, 1.0):
        moved = jumps
        for _ in range(3):
            moved = np.nextafter(moved, direction)
            steps.append(moved)
    hypotheses = np.unique(np.concatenate(steps))
    assert verdicts(k, n, hypotheses) == scipy_verdicts(k, n, hypotheses)


@pytest.mark.parametrize(("k", "n"), [(1, 30), (5, 60), (50, 100), (900, 1000), (12_345, 100_000)])
def test_neighbouring_floats_at_which_the_verdict_turns_have_scipys_verdicts(k: int, n: int) -> None:
    for away in (0.0, 1.0):
        accepted, refuted = k / n, away
        while np.nextafter(accepted, refuted) != refuted:
            middle = 0.5 * (accepted + refuted)
            if middle in (accepted, refuted):
                break
            if binomtest(k, n, middle).pvalue <= 0.05:
                refuted = middle
            else:
                accepted = middle
        hypotheses = np.array([accepted + i * np.spacing(accepted) for i in range(-6, 7)])
        assert verdicts(k, n, hypotheses) == scipy_verdicts(k, n, hypotheses)


def test_hypotheses_at_the_ends_have_scipys_verdicts() -> None:
    hypotheses = np.array([0.0, 5e-324, 1e-300, 1e-12, 0.5, 1.0 - 2.0**-53, 1.0])
    for n in (1, 20, 100_000):
        for k in (0, 1, n - 1, n):
            assert verdicts(k, n, hypotheses) == scipy_verdicts(k, n, hypotheses), (k, n)


def test_many_bins_at_once_are_many_bins_one_by_one() -> None:
    rng = np.random.default_rng(3)
    score = np.unique(rng.random(5000))
    starts = np.concatenate([[0], np.sort(rng.choice(np.arange(1, score.size), 60, replace=False)), [score.size]])
    trials = rng.integers(1, 3000, 61)
    rate = np.array([score[a:b].mean() for a, b in itertools.pairwise(starts)])
    successes = rng.binomial(trials, rate)
    together = BINOMIAL.rejected(score, starts, successes, trials, 0.05)
    for b in range(61):
        part = score[starts[b] : starts[b + 1]]
        assert together[starts[b] : starts[b + 1]].tolist() == verdicts(int(successes[b]), int(trials[b]), part)
    assert 0.1 < together.mean() < 0.99


@pytest.mark.parametrize(("n", "width"), short_rows([(300, 0.004), (20, 0.02), (5000, 0.002)], 1))
def test_a_cell_without_a_straddling_mark_has_one_verdict(n: int, width: float) -> None:
    rng = np.random.default_rng(n)
    edges = np.arange(0.0, 1.0 + width / 2, width)
    lower, upper = edges[:-1], np.minimum(edges[1:], 1.0)
    starts, trials = np.array([0, lower.size]), np.array([n])
    mixed_cells = marked_cells = 0
    for k in rng.integers(0, n + 1, 3):
        marks = BINOMIAL.straddling(lower, upper, starts, np.array([k]), trials, alpha=0.05)
        low, high = BINOMIAL.acceptance_limits(np.array([k]), trials, 0.05)
        reach = 6 * width
        for cell in range(lower.size):
            if marks[cell] or min(abs(lower[cell] - low[0]), abs(lower[cell] - high[0])) < reach:
                seen = set(scipy_verdicts(int(k), n, np.linspace(lower[cell], upper[cell], 25)))
                mixed_cells += len(seen) == 2
                marked_cells += bool(marks[cell])
                assert marks[cell] or len(seen) == 1, (k, lower[cell])
    # The marks are no blanket either.
    assert marked_cells <= mixed_cells + 1


def test_an_exact_row_never_straddles() -> None:
    score = np.linspace(0.0, 1.0, 400)
    assert not BINOMIAL.straddling(score, score, np.array([0, 400]), np.array([13]), np.array([40]), alpha=0.05).any()


@pytest.mark.parametrize("n", [1, 2, 5, 11, 30])
def test_the_limits_enclose_the_acceptance_set_and_no_more(n: int) -> None:
    k = np.arange(n + 1)
    lower, upper = BINOMIAL.acceptance_limits(k, np.full(n + 1, n), 0.05)
    np.testing.assert_allclose(lower, 1.0 - upper[::-1], atol=1e-12)
    hypotheses = np.linspace(0.0, 1.0, 201)
    for successes, low, high in zip(k.tolist(), lower, upper, strict=True):
        outside = (hypotheses < low - 1e-9) | (hypotheses > high + 1e-9)
        assert all(scipy_verdicts(successes, n, hypotheses[outside]))
        inner = np.clip(np.array([low + 1e-9, high - 1e-9]), 0.0, 1.0)
        assert not any(scipy_verdicts(successes, n, inner))


def test_the_peaks_of_the_p_value_fall_away_from_the_rate() -> None:
    for n in range(2, 61):
        for k in range(n):
            x, p = np.arange(k + 1, n + 1), peaks(k, n)
            p_value = betaincc(k + 1, n - k, p) + betainc(x, n - x + 1, p)
            assert (np.diff(p_value) < 1e-6).all(), (k, n)


VERDICTS = {False: naive_tce.is_rejected_by_t, True: naive_tce.is_rejected_by_published_t}

every_scale = pytest.mark.parametrize("published", [False, True])


@pytest.mark.longer
@every_scale
@pytest.mark.parametrize("alpha", [1e-4, 0.0499, 0.6])
@pytest.mark.parametrize("n", [1, 2, 3, 7, 40, 1000])
def test_every_verdict_is_scipys(n: int, alpha: float, published: bool) -> None:
    for k in sorted({0, 1, n // 3, n // 2, n - 1, n}):
        hypotheses = np.unique(np.append(np.linspace(0, 1, longer(41, 301)), k / n))
        found = StudentTest(published).rejected(
            hypotheses, np.array([0, hypotheses.size]), np.array([k]), np.array([n]), alpha
        )
        assert found.tolist() == [VERDICTS[published](k, n, p, alpha) for p in hypotheses.tolist()]


@every_scale
def test_the_limits_part_what_is_accepted_from_what_is_not(published: bool) -> None:
    positives, sizes = np.array([30, 3, 0, 9, 1]), np.array([100, 9, 20, 9, 1])
    lower, upper = StudentTest(published).acceptance_limits(positives, sizes, 0.05)
    width = StudentTest(published).half_width(positives, sizes, 0.05)
    assert (lower >= 0.0).all()
    assert (upper <= 1.0).all()
    for b, verdict in enumerate(zip(positives.tolist(), sizes.tolist(), strict=True)):
        for end, outwards in ((lower[b], -1e-6), (upper[b], 1e-6)):
            if width[b] > 0.0:
                assert not VERDICTS[published](*verdict, float(end) - outwards, 0.05)
            if 0.0 < end < 1.0 or width[b] == 0.0:
                assert VERDICTS[published](*verdict, float(end) + outwards, 0.05)


@every_scale
@given(
    edges=st.lists(st.floats(0.0, 1.0), min_size=2, max_size=8, unique=True),
    block=st.integers(1, 30).flatmap(lambda n: st.tuples(st.integers(0, n), st.just(n))),
)
def test_a_row_straddles_if_its_predictions_differ(edges: list[float], block: tuple[int, int], published: bool) -> None:
    lower, upper = np.sort(edges)[:-1], np.sort(edges)[1:]
    starts, positives, sizes = np.array([0, lower.size]), np.array([block[0]]), np.array([block[1]])
    found = StudentTest(published).straddling(lower, upper, starts, positives, sizes, alpha=0.05)
    limits = np.array(StudentTest(published).acceptance_limits(positives, sizes, 0.05)).ravel()
    for row, (low, high) in enumerate(zip(lower, upper, strict=True)):
        # The verdict changes at the limits and at the rate alone.
        turns = np.append(limits, block[0] / block[1])
        near = np.concatenate(
            [turns, np.nextafter(turns, 0.0), np.nextafter(turns, 1.0), [low, high, (low + high) / 2]]
        )
        inside = np.unique(near[(near >= low) & (near <= high)])
        verdicts = StudentTest(published).rejected(inside, np.array([0, inside.size]), positives, sizes, 0.05)
        assert found[row] == (verdicts.any() and not verdicts.all())


def test_a_certain_bin_refutes_all_but_its_rate() -> None:
    score, starts = np.array([0.5, 1.0]), np.array([0, 2])
    assert StudentTest().rejected(score, starts, np.array([8]), np.array([8]), 0.05).tolist() == [True, False]
    assert StudentTest().rejected(score, starts, np.array([1]), np.array([1]), 0.05).tolist() == [False, False]
