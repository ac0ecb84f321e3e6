"""Isotonic regression is that of scipy to the last digit."""

import numpy as np
import scipy
from hypothesis import given
from hypothesis import strategies as st

from monitor.isotonic_loops import isotonic_regression


@given(rows=st.integers(1, 300), levels=st.integers(1, 20), weighted=st.booleans(), seed=st.integers(0, 10_000))
def test_it_is_scipys(rows: int, levels: int, weighted: bool, seed: int) -> None:
    rng = np.random.default_rng(seed)
    trend = np.linspace(0.0, rng.normal(), rows)
    value = (
        np.round(levels * (trend + 0.3 * rng.normal(size=rows))) / levels
        if levels > 1
        else trend + rng.normal(size=rows)
    )
    weight = rng.random(rows) + 1e-3 if weighted else rng.integers(1, 9, rows).astype(np.float64)
    kept = value.copy(), weight.copy()
    found = isotonic_regression(value, weight)
    assert np.array_equal(found, scipy.optimize.isotonic_regression(value, weights=weight).x)
    assert np.array_equal(value, kept[0])
    assert np.array_equal(weight, kept[1])


def test_a_million_rows_in_and_out_of_order_are_scipys() -> None:
    rng = np.random.default_rng(1)
    rising = np.asarray(rng.random(1_000_000) < np.linspace(0.0, 1.0, 1_000_000), np.float64)
    for value in (rng.random(1_000_000), -np.arange(1e6), rising):
        weight = np.ones(value.size)
        wanted = scipy.optimize.isotonic_regression(value, weights=weight).x
        assert np.array_equal(isotonic_regression(value, weight), wanted)
