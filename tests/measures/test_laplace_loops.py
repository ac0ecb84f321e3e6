"""Sums over pairs and triples of points under the Laplace kernel against whole matrices."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from monitor.measures.laplace_loops import laplace_cubic_form, laplace_potential, laplace_quadratic_form


@given(st.lists(st.tuples(st.floats(-20.0, 20.0), st.floats(-5.0, 5.0)), min_size=1, max_size=30), st.floats(0.05, 5.0))
def test_it_is_that_of_the_whole_matrix(points: list[tuple[float, float]], bandwidth: float) -> None:
    location, weight = (np.array(each) for each in zip(*sorted(points), strict=True))
    matrix = np.exp(-np.abs(location[:, None] - location[None, :]) / bandwidth)
    potential = laplace_potential(location, weight, bandwidth)
    np.testing.assert_allclose(potential, matrix @ weight, rtol=1e-9, atol=1e-9)
    assert weight @ potential == pytest.approx(laplace_quadratic_form(location, weight, bandwidth), abs=1e-8)
    triples = np.einsum("a,b,c,ab,bc,ac", weight, weight, weight, matrix, matrix, matrix)
    size = np.abs(weight).sum() ** 3
    assert laplace_cubic_form(location, weight, bandwidth) == pytest.approx(triples, rel=1e-9, abs=1e-12 * size)


def test_points_at_infinity_are_far_from_all_others() -> None:
    potential = laplace_potential(np.array([-np.inf, 0.0, np.inf]), np.array([1.0, 2.0, 3.0]), 1.0)
    np.testing.assert_array_equal(potential, [1.0, 2.0, 3.0])
    assert laplace_cubic_form(np.array([-np.inf, 0.0, np.inf]), np.array([1.0, 2.0, 3.0]), 1.0) == 36.0


def test_points_at_one_place_count_as_one() -> None:
    assert laplace_cubic_form(np.array([0.3, 0.3, 0.3]), np.array([1.0, 2.0, 3.0]), 0.7) == pytest.approx(216.0)
    # More events than the cube of an int64 holds.
    assert laplace_cubic_form(np.array([0.3]), np.array([1e7]), 1.0) == pytest.approx(1e21)
