from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy.spatial.distance import cdist

from monitor.local.neighbour_loops import city_block, laplace_sums

Floats = NDArray[np.float64]

EVERYONE = np.full(1000, -1)


def naive(points: Floats, others: Floats, weight: Floats, value: Floats, rate: float) -> Floats:
    distance = np.abs(points[:, None] - others[None]).sum(axis=2)
    k = weight * np.exp(-rate * (distance - distance.min(axis=1, keepdims=True)))
    return np.stack([k.sum(axis=1), k @ value, (k**2).sum(axis=1)], axis=1)


def columns(others: NDArray[Any]) -> NDArray[np.float32]:
    return np.ascontiguousarray(others.T.astype(np.float32))


@pytest.mark.parametrize("d", [1, 2, 3, 4, 5, 20])
@pytest.mark.parametrize("n", [1, 511, 512, 513, 2000])  # about and across the blocks
def test_sums_are_those_of_all_pairs(d: int, n: int) -> None:
    rng = np.random.default_rng(d + n)
    points = rng.normal(size=(7, d)).astype(np.float32)
    others = rng.normal(size=(n, d)).astype(np.float32).astype(np.float64)
    weight, value = rng.uniform(0.1, 3.0, n), rng.normal(size=n)
    rates = np.array([0.01, 0.5, 3.0, 200.0])
    sums = laplace_sums(points, columns(others), weight, value, EVERYONE[:7], rates, 0, n)
    for place, rate in enumerate(rates):
        wanted = naive(points.astype(np.float64), others, weight, value, rate)
        np.testing.assert_allclose(sums[:, place], wanted, rtol=3e-6 * (1.0 + rate), atol=1e-5 * weight.sum() / n)


@given(st.floats(0.0, 80.0, width=32))
def test_the_exponential_is_that_of_libraries(distance: float) -> None:
    pair = np.array([[0.0, distance]], np.float32)  # one neighbour at 0, from which the other is counted
    value = np.array([0.0, 1.0])
    sums = laplace_sums(np.zeros((1, 1), np.float32), pair, np.ones(2), value, EVERYONE[:1], np.ones(1), 0, 2)
    assert sums[0, 0, 1] == pytest.approx(float(np.exp(-distance)), rel=3e-7 * (1.0 + distance))


def test_an_event_does_not_count_for_itself_and_a_range_only_counts() -> None:
    rng = np.random.default_rng(3)
    others = rng.normal(size=(1500, 3)).astype(np.float32)
    asked = np.array([0, 511, 512, 1499])
    weight, value = np.ones(1500), rng.normal(size=1500)
    own = laplace_sums(others[asked], columns(others), weight, value, asked, np.ones(1), 0, 1500)
    for place, row in enumerate(asked):
        rest = np.delete(np.arange(1500), row)
        wanted = laplace_sums(
            others[[row]], columns(others[rest]), weight[rest], value[rest], EVERYONE[:1], np.ones(1), 0, 1499
        )
        np.testing.assert_allclose(own[place], wanted[0], rtol=1e-9)
    part = laplace_sums(others[asked], columns(others), weight, value, EVERYONE[:4], np.ones(1), 700, 1301)
    alone = laplace_sums(
        others[asked], columns(others[700:1301]), weight[:601], value[700:1301], EVERYONE[:4], np.ones(1), 0, 601
    )
    np.testing.assert_array_equal(part, alone)
    nobody = laplace_sums(others[:1], columns(others), weight, value, np.zeros(1, np.int64), np.ones(1), 0, 1)
    np.testing.assert_array_equal(nobody, np.zeros((1, 1, 3)))


def test_sums_never_vanish_and_never_overflow() -> None:
    far = np.array([[1e30, 1e30], [-1e30, 0.0], [0.0, 0.0]], np.float32)
    others = np.array([[1.0, -1e30, 3.0], [0.0, 1e30, 1e30]], np.float32)
    sums = laplace_sums(far, others, np.ones(3), np.ones(3), EVERYONE[:3], np.array([1e-12, 1e6]), 0, 3)
    assert np.isfinite(sums).all()
    assert (sums[..., 0] >= 1.0 - 1e-6).all()
    assert (sums[:, 0, 0] <= 3.0 + 1e-6).all()


def test_a_point_alone_gets_what_it_gets_among_many() -> None:
    rng = np.random.default_rng(4)
    points, others = rng.normal(size=(40, 5)).astype(np.float32), rng.normal(size=(900, 5))
    weight, value, rates = np.ones(900), rng.normal(size=900), np.array([0.4, 2.0])
    together = laplace_sums(points, columns(others), weight, value, EVERYONE[:40], rates, 0, 900)
    for place in range(40):
        alone = laplace_sums(points[[place]], columns(others), weight, value, EVERYONE[:1], rates, 0, 900)
        np.testing.assert_array_equal(alone[0], together[place])


@pytest.mark.parametrize("d", [1, 4, 7])
def test_distances_are_those_of_scipy(d: int) -> None:
    rng = np.random.default_rng(d)
    points, others = rng.normal(size=(6, d)), rng.normal(size=(1100, d))
    found = city_block(points, np.ascontiguousarray(others.T))
    np.testing.assert_allclose(found, cdist(points, others, "cityblock"), rtol=1e-13)
