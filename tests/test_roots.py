"""Roots are those of scipy to the last digit, so that no published number depends on which of the two found it."""

import math
from collections.abc import Callable

import numpy as np
import pytest
import scipy
from hypothesis import given
from hypothesis import strategies as st

from monitor.roots import brentq, newton

FUNCTIONS: list[Callable[[float], float]] = [
    lambda x: x**3 - 2.0,
    lambda x: math.tanh(x - 0.3) + 0.01 * x,
    lambda x: (x - 0.7) ** 3 + 0.1 * (x - 0.7),
    lambda x: math.atan(50.0 * (x + 0.123)),
    lambda x: x,
]


@pytest.mark.parametrize("function", FUNCTIONS)
@given(low=st.floats(-60.0, -1.0), high=st.floats(1.5, 60.0), xtol=st.sampled_from([2e-12, 1e-12, 1e-3]))
def test_brents_roots_are_scipys(function: Callable[[float], float], low: float, high: float, xtol: float) -> None:
    for rtol in (4 * np.finfo(float).eps, 1e-3):
        found = brentq(function, low, high, xtol=xtol, rtol=rtol)
        assert found == scipy.optimize.brentq(function, low, high, xtol=xtol, rtol=rtol)


def test_a_root_at_an_end_is_found_and_signs_that_agree_are_refused() -> None:
    assert brentq(lambda x: x - 1.0, 1.0, 2.0) == 1.0
    assert brentq(lambda x: x - 2.0, 1.0, 2.0) == 2.0
    with pytest.raises(ValueError, match="must have different signs"):
        brentq(lambda x: x + 1.0, 0.0, 1.0)
    with pytest.raises(RuntimeError, match="no root was found in 100 steps"):
        brentq(lambda x: -1.0 if x < math.pi else 1.0, -1e300, 1e300, xtol=0.0, rtol=0.0)


@given(start=st.floats(0.1, 50.0), target=st.floats(0.01, 100.0))
def test_newtons_roots_are_scipys(start: float, target: float) -> None:
    def function(x: float) -> tuple[float, float]:
        return x**2 - target, 2.0 * x

    wanted = scipy.optimize.root_scalar(function, x0=start, fprime=True, xtol=1e-6, rtol=1e-6).root
    assert newton(function, start, tolerance=1e-6) == wanted


def test_newton_ends_where_there_is_no_slope_and_where_it_does_not_converge() -> None:
    assert newton(lambda x: (x**2 + 1.0, 2.0 * x), 0.0, tolerance=1e-6) == 0.0
    cycle = newton(lambda x: (x**3 - 2.0 * x + 2.0, 3.0 * x**2 - 2.0), 0.0, tolerance=1e-6)
    assert (
        cycle
        == scipy.optimize.root_scalar(
            lambda x: (x**3 - 2.0 * x + 2.0, 3.0 * x**2 - 2.0), x0=0.0, fprime=True, xtol=1e-6, rtol=1e-6
        ).root
    )
