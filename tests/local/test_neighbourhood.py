import numpy as np
import pytest
from numpy.typing import NDArray

from monitor.local.neighbourhood import GROUP_KERNEL, Kernels, averages, laplace_kernels
from tests.reference import naive_local

Floats = NDArray[np.float64]


def weights(kernels: Kernels, points: Floats, others: Floats) -> Floats:
    (result,) = kernels.weights(points, others)
    return result


def test_the_weights_are_the_papers() -> None:
    rng = np.random.default_rng(1)
    a, b = rng.normal(size=(4, 3)), rng.normal(size=(6, 3))
    naive = [[naive_local.laplace(x, z, 0.4) for z in b] for x in a]
    np.testing.assert_allclose(weights(laplace_kernels([0.4]), a, b), naive, rtol=1e-12)
    assert (weights(laplace_kernels([np.inf]), a, b) == 1.0).all()
    np.testing.assert_array_equal(weights(laplace_kernels([1e-9]), a, a), np.eye(4))


def test_groups_count_for_themselves_alone() -> None:
    a = np.array([[0.0], [1.0], [0.0]])
    np.testing.assert_array_equal(weights(GROUP_KERNEL, a, a), [[1, 0, 1], [0, 1, 0], [1, 0, 1]])


def test_what_is_taken_in_parts_is_what_it_is_at_once() -> None:
    rng = np.random.default_rng(2)
    points, others, values = rng.normal(size=(2100, 2)), rng.normal(size=(9000, 2)), rng.normal(size=(9000, 3))
    requested: list[int] = []

    def columns(rows: slice) -> Floats:
        requested.extend(range(9000)[rows])
        return values[rows]

    (means,), (n_eff,) = averages(laplace_kernels([0.5]), points, others, columns)
    assert requested == list(range(9000))
    for point in (0, 1023, 1024, 2099):
        k = np.exp(-np.abs(others - points[point]).sum(axis=1) / (2 * 0.5))
        np.testing.assert_allclose(means[point], k @ values / k.sum(), rtol=1e-9, atol=1e-12)
        assert n_eff[point] == pytest.approx(k.sum() ** 2 / (k**2).sum())


def test_a_point_too_far_from_all_has_no_mean() -> None:
    points, others = np.array([[1e6], [0.0]]), np.zeros((3, 1))
    (means,), (n_eff,) = averages(laplace_kernels([0.1]), points, others, lambda _: np.ones((3, 1)))
    assert np.isnan(means[0, 0])
    assert means[1, 0] == 1.0
    assert n_eff.tolist() == [0.0, 3.0]
