"""The map of two features in their own units."""

import numpy as np
import pytest

from monitor.errors import NotEnoughData
from monitor.reports.evaluation.local import MAX_MAPPED_EVENTS, plane_of


def data(n: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Too low where the first feature is above 60."""
    rng = np.random.default_rng(seed)
    plane = np.column_stack([rng.normal(50.0, 10.0, n), rng.exponential(3e4, n)])
    return np.full(n, 0.5), (rng.random(n) < np.where(plane[:, 0] > 60.0, 0.9, 0.5)).astype(np.float64), plane


@pytest.mark.parametrize("n", [4000, MAX_MAPPED_EVENTS + 5000])
def test_the_worst_place_is_found_in_the_features_own_units(n: int) -> None:
    p, y, plane = data(n)
    found = plane_of(p, y, plane, seed=0)
    assert found.x[0] == pytest.approx(np.quantile(plane[:, 0], 0.005), abs=1.0)
    assert found.y[-1] == pytest.approx(np.quantile(plane[:, 1], 0.995), rel=0.1)
    error = np.where(found.n_eff >= 50.0, found.error, 0.0)
    _, column = np.unravel_index(int(np.argmin(error)), error.shape)
    assert found.x[column] > 60.0


def test_unknown_outcomes_do_not_count() -> None:
    p, y, plane = data(500)
    y[::5] = np.nan
    known = ~np.isnan(y)
    whole, part = plane_of(p, y, plane, seed=0), plane_of(p[known], y[known], plane[known], seed=0)
    np.testing.assert_array_equal(whole.error, part.error)


def test_many_classes_are_judged_by_the_most_probable() -> None:
    p, y, plane = data(500)
    two = plane_of(np.column_stack([1.0 - p - 0.1, p + 0.1]), y, plane, seed=0)
    np.testing.assert_allclose(two.error, plane_of(p + 0.1, y, plane, seed=0).error)


def test_a_feature_that_hardly_varies_makes_no_map() -> None:
    p, y, plane = data(500)
    for column in (np.ones(500), np.r_[1e6, np.zeros(499)]):
        with pytest.raises(NotEnoughData, match="two features that vary"):
            plane_of(p, y, np.column_stack([plane[:, 0], column]), seed=0)
    with pytest.raises(NotEnoughData):
        plane_of(p, np.full(500, np.nan), plane, seed=0)
