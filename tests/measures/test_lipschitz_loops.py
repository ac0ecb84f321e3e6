"""The supremum over Lipschitz functions, beside a function that attains it and a linear programme; the heap."""

import heapq
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy.optimize import linprog

from monitor.measures.lipschitz_loops import lipschitz_maximiser, lipschitz_suprema, lipschitz_supremum, pop, push
from tests.long import examples

Floats = NDArray[np.float64]


@st.composite
def weighted_points(draw: st.DrawFn) -> tuple[Floats, Floats]:
    """Ascending points of [0, 1], and weights whose cumulative sums often return to 0 or to the total."""
    points = draw(st.lists(st.integers(0, 1000), min_size=1, max_size=25, unique=True))
    weight = st.integers(-3, 3).map(float) | st.floats(-2.0, 2.0, allow_subnormal=False)
    weights = draw(st.lists(weight, min_size=len(points), max_size=len(points)))
    return np.sort(np.array(points)) / 1000.0, np.array(weights)


@examples(100, 500)
@given(weighted_points())
def test_a_function_attains_it(data: tuple[Floats, Floats]) -> None:
    location, weight = data
    f = lipschitz_maximiser(location, weight)
    assert (np.abs(f) <= 1.0 + 1e-12).all()
    assert (np.abs(np.diff(f)) <= np.diff(location) + 1e-12).all()
    assert lipschitz_supremum(location, weight) == pytest.approx(float(f @ weight), rel=1e-12, abs=1e-12)


@examples(30, 60)
@given(weighted_points())
def test_no_function_passes_it(data: tuple[Floats, Floats]) -> None:
    location, weight = data
    steps = np.diff(np.eye(location.size), axis=0)
    gaps = np.diff(location)
    best = linprog(-weight, np.vstack([steps, -steps]), np.concatenate([gaps, gaps]), bounds=(-1.0, 1.0))
    assert lipschitz_supremum(location, weight) == pytest.approx(-best.fun, abs=1e-7)


@given(weighted_points())
def test_it_is_a_semi_norm_that_is_never_below_0(data: tuple[Floats, Floats]) -> None:
    location, weight = data
    value = lipschitz_supremum(location, weight)
    assert value >= abs(weight.sum()) - 1e-12
    assert lipschitz_supremum(location, -weight) == pytest.approx(value, rel=1e-12, abs=1e-12)
    assert lipschitz_supremum(location, np.zeros(location.size)) == 0.0


def test_many_at_once_are_one_by_one() -> None:
    rng = np.random.default_rng(5)
    location = np.sort(rng.random(700))
    weight = rng.normal(0.0, 1.0, (50, 700))
    one_by_one = [lipschitz_supremum(location, each) for each in weight]
    np.testing.assert_array_equal(lipschitz_suprema(location, weight), one_by_one)


keys = st.integers(-5, 5).map(float) | st.floats(-1e6, 1e6)


@pytest.mark.parametrize("dtype", [np.float64, np.int64])
@given(work=st.lists(keys | st.none(), max_size=60))
def test_the_largest_key_is_on_top_whatever_comes_and_goes(dtype: type, work: list[float | None]) -> None:
    key = np.zeros(60)
    load: NDArray[Any] = np.zeros(60, dtype)
    came: list[float] = []
    expected: list[float] = []
    for step in work:
        size = len(expected)
        if step is not None:
            push(key, load, size, step, len(came))
            came.append(step)
            heapq.heappush(expected, -step)
        elif size:
            pop(key, load, size)
            heapq.heappop(expected)
        held = sorted(key[: len(expected)], reverse=True)
        assert held == sorted((-each for each in expected), reverse=True)
        if expected:
            assert key[0] == -expected[0]
        # Every key still carries what it came with.
        assert [came[int(each)] for each in load[: len(expected)]] == key[: len(expected)].tolist()
