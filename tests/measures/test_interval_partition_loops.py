"""The cheapest partition, to the last bit that of trying every start."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from monitor.measures.intce_loops import cheapest_partition, cheapest_partition_costs
from tests.long import examples

Floats = NDArray[np.float64]


def by_every_start(location: Floats, residual: Floats, weight: Floats) -> float:
    """The recursion, with its terms in the kernel's order."""
    cumulative, mass = (np.concatenate([[0.0], np.cumsum(each)]) for each in (residual, weight))
    cost = np.zeros(location.size + 1)
    for b in range(1, location.size + 1):
        width = (mass[b] - mass[:b]) * (location[b - 1] - location[:b])
        cost[b] = (cost[:b] + np.abs(cumulative[b] - cumulative[:b]) + width).min()
    return float(cost[-1])


def simulated(rng: np.random.Generator, m: int, draws: int) -> tuple[Floats, Floats, Floats]:
    """Shares of calibrated residuals and of the mass, at distinct locations."""
    location = np.unique(rng.beta(0.8, 2.0, m))
    counts = rng.integers(1, 50, location.size)
    drawn = rng.binomial(counts, location, (draws, location.size)) - counts * location
    return location, drawn / counts.sum(), counts / counts.sum()


@examples(40, 150)
@given(
    m=st.integers(1, 80), draws=st.integers(1, 20), seed=st.integers(0, 10**6), scale=st.sampled_from([0.0, 1.0, 40.0])
)
def test_pruning_changes_no_bit(m: int, draws: int, seed: int, scale: float) -> None:
    location, residual, weight = simulated(np.random.default_rng(seed), m, draws)
    residual *= scale
    expected = [by_every_start(location, each, weight) for each in residual]
    np.testing.assert_array_equal([cheapest_partition(location, each, weight)[0] for each in residual], expected)
    np.testing.assert_array_equal(cheapest_partition_costs(location, residual, weight), expected)


@pytest.mark.parametrize("m", [127, 128, 129, 1500])
def test_larger_tables_too(m: int) -> None:
    location, residual, weight = simulated(np.random.default_rng(m), m, 11)
    expected = [by_every_start(location, each, weight) for each in residual]
    np.testing.assert_array_equal(cheapest_partition_costs(location, residual, weight), expected)
    assert cheapest_partition(location, residual[0], weight)[0] == expected[0]


def test_the_partition_costs_what_it_says() -> None:
    location, residual, weight = simulated(np.random.default_rng(1), 400, 1)
    value, start = cheapest_partition(location, residual[0], weight)
    cost, end = 0.0, location.size
    while end > 0:
        first = int(start[end - 1])
        cost += abs(residual[0, first:end].sum()) + weight[first:end].sum() * (location[end - 1] - location[first])
        end = first
    assert cost == pytest.approx(value, rel=1e-12)
