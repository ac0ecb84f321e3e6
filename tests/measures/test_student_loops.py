import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from monitor.measures.student_loops import acceptance_limits, half_width, rejected, straddling
from tests.reference import naive_tce

VERDICTS = {False: naive_tce.is_rejected_by_t, True: naive_tce.is_rejected_by_published_t}

every_scale = pytest.mark.parametrize("published", [False, True])


@every_scale
@pytest.mark.parametrize("alpha", [1e-4, 0.0499, 0.6])
@pytest.mark.parametrize("n", [1, 2, 3, 7, 40, 1000])
def test_every_verdict_is_scipys(n: int, alpha: float, published: bool) -> None:
    for k in sorted({0, 1, n // 3, n // 2, n - 1, n}):
        hypotheses = np.unique(np.append(np.linspace(0, 1, 301), k / n))
        found = rejected(
            hypotheses, np.array([0, hypotheses.size]), np.array([k]), np.array([n]), alpha, published=published
        )
        assert found.tolist() == [VERDICTS[published](k, n, p, alpha) for p in hypotheses.tolist()]


@every_scale
def test_the_limits_part_what_is_accepted_from_what_is_not(published: bool) -> None:
    positives, sizes = np.array([30, 3, 0, 9, 1]), np.array([100, 9, 20, 9, 1])
    lower, upper = acceptance_limits(positives, sizes, 0.05, published=published)
    width = half_width(positives, sizes, 0.05, published=published)
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
    found = straddling(lower, upper, starts, positives, sizes, 0.05, published=published)
    limits = np.array(acceptance_limits(positives, sizes, 0.05, published=published)).ravel()
    for row, (low, high) in enumerate(zip(lower, upper, strict=True)):
        # The verdict changes at the limits and at the rate alone.
        turns = np.append(limits, block[0] / block[1])
        near = np.concatenate(
            [turns, np.nextafter(turns, 0.0), np.nextafter(turns, 1.0), [low, high, (low + high) / 2]]
        )
        inside = np.unique(near[(near >= low) & (near <= high)])
        verdicts = rejected(inside, np.array([0, inside.size]), positives, sizes, 0.05, published=published)
        assert found[row] == (verdicts.any() and not verdicts.all())


def test_a_certain_bin_refutes_all_but_its_rate() -> None:
    score, starts = np.array([0.5, 1.0]), np.array([0, 2])
    assert rejected(score, starts, np.array([8]), np.array([8]), 0.05).tolist() == [True, False]
    assert rejected(score, starts, np.array([1]), np.array([1]), 0.05).tolist() == [False, False]
