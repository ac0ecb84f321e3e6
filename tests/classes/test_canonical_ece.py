"""The ECE of whole vectors, and its bins, against loops and the Julia package's examples."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from monitor.classes.canonical_ece import Distance, canonical_ece, equal_width_bins, median_variance_bins
from monitor.errors import InputError, NotEnoughData
from monitor.scores import ClassTable
from tests.long import examples
from tests.reference.naive_classes import ece_of_vectors, median_variance_groups, simulated

THREE = [[0.4, 0.1, 0.5], [0.5, 0.3, 0.2], [0.3, 0.7, 0.0]]
FIVE = [*THREE, [0.1, 0.0, 0.9], [0.8, 0.1, 0.1]]

distances = st.sampled_from(["total_variation", "cityblock", "squared_euclidean"])


def groups(bins: NDArray[np.int32]) -> set[frozenset[int]]:
    return {frozenset(np.flatnonzero(bins == b).tolist()) for b in np.unique(bins)}


@examples(20, 60)
@given(seed=st.integers(0, 99), distance=distances, min_size=st.sampled_from([1, 3, 10]), ties=st.booleans())
def test_the_definition_by_loops(seed: int, distance: Distance, min_size: int, ties: bool) -> None:
    p, y = simulated(seed, 40, 2 + seed % 4, 1.5)
    if ties:
        p = np.ceil(p * 4) / np.ceil(p * 4).sum(axis=1, keepdims=True)
    table = ClassTable.from_events(p, y)
    found = canonical_ece(table, distance=distance, min_size=min_size)
    split = median_variance_groups(table.prediction, min_size)
    assert found == pytest.approx(ece_of_vectors(table.prediction, table.outcome, split, distance), abs=1e-12)
    assert groups(median_variance_bins(table, min_size)) == {frozenset(group) for group in split}
    even = equal_width_bins(table, 3)
    found = canonical_ece(table, distance=distance, bins="equal_width", n_bins=3)
    expected = ece_of_vectors(table.prediction, y, [sorted(group) for group in groups(even)], distance)
    assert found == pytest.approx(expected, abs=1e-12)


def test_median_variance_bins_one_step_after_another() -> None:
    """The data of "Simple example" of CalibrationErrors.jl, medianvariance.jl; events count from 0 here."""
    three = ClassTable.from_events(THREE, [0, 1, 2])
    assert groups(median_variance_bins(three, 1)) == {frozenset({0}), frozenset({1}), frozenset({2})}
    assert groups(median_variance_bins(three, 2)) == {frozenset({0, 1, 2})}
    five = ClassTable.from_events(FIVE, [0, 1, 2, 0, 1])
    assert groups(median_variance_bins(five, 1)) == {frozenset({i}) for i in range(5)}
    assert groups(median_variance_bins(five, 3)) == {frozenset(range(5))}
    # The third class varies most, about the median .2, which goes up; then, of what lies below, the second.
    assert groups(median_variance_bins(five, 2)) == {frozenset({2, 4}), frozenset({0, 1, 3})}
    assert groups(median_variance_bins(five, 1, 2)) == {frozenset({2, 4}), frozenset({0, 1, 3})}
    assert groups(median_variance_bins(five, 1, 3)) == {frozenset({2}), frozenset({4}), frozenset({0, 1, 3})}
    assert groups(median_variance_bins(five, 1, 1)) == {frozenset(range(5))}


def test_the_equal_width_bins() -> None:
    # "Simple example" of test/binning/uniform.jl, where no probability lies on an edge; there intervals are open on
    # the left, here on the right, so that .5 is above the edge of two.
    five = ClassTable.from_events(FIVE, [0, 1, 2, 0, 1])
    assert len(groups(equal_width_bins(five, 3))) == 5
    assert groups(equal_width_bins(five, 1)) == {frozenset(range(5))}
    edge = ClassTable.from_events([[0.5, 0.5], [0.6, 0.4], [0.4, 0.6], [1.0, 0.0]], [0, 0, 0, 0])
    assert groups(equal_width_bins(edge, 2)) == {frozenset({0}), frozenset({1, 3}), frozenset({2})}


def test_the_trivial_values_of_the_julia_package() -> None:
    """ "Trivial tests" of CalibrationErrors.jl, test/ece.jl."""
    assert canonical_ece(ClassTable.from_events(np.eye(2)[[1, 0]], [1, 0]), bins="equal_width") == 0.0
    p = [[0.0, 1.0], [0.5, 0.5], [0.5, 0.5], [1.0, 0.0]]
    assert canonical_ece(ClassTable.from_events(p, [1, 1, 0, 0]), bins="equal_width") == 0.0


@given(seed=st.integers(0, 99))
def test_neither_order_nor_names_of_classes_matter(seed: int) -> None:
    rng = np.random.default_rng(seed)
    p, y = simulated(seed, 60, 3)
    order, classes = rng.permutation(60), rng.permutation(3)
    value = canonical_ece(ClassTable.from_events(p, y))
    shuffled = ClassTable.from_events(p[order][:, classes], np.argsort(classes)[y[order]])
    assert canonical_ece(shuffled) == pytest.approx(value, abs=1e-12)
    assert 0.0 <= value <= 1.0
    assert canonical_ece(shuffled, distance="cityblock") == pytest.approx(2.0 * value)


@given(seed=st.integers(0, 99), min_size=st.integers(1, 20), max_bins=st.integers(1, 30))
def test_bins_keep_their_limits(seed: int, min_size: int, max_bins: int) -> None:
    rng = np.random.default_rng(seed)
    table = ClassTable.from_events(rng.dirichlet(np.ones(3), 80), rng.integers(0, 3, 80))
    size = np.bincount(median_variance_bins(table, min_size, max_bins))
    assert size.min() >= min_size
    assert size.size <= max_bins
    assert size.sum() == 80
    free = np.bincount(median_variance_bins(table, min_size))
    assert free.max() < 2 * min_size + 1  # without ties every larger bin can be split


def test_equal_predictions_stay_together() -> None:
    table = ClassTable.from_events([[0.5, 0.5]] * 30 + [[0.2, 0.8]] * 30, [0] * 60)
    assert groups(median_variance_bins(table, 10)) == {frozenset(range(30)), frozenset(range(30, 60))}
    assert groups(median_variance_bins(table, 31)) == {frozenset(range(60))}


def test_wrong_options_are_named() -> None:
    table = ClassTable.from_events(FIVE, [0] * 5)
    wrong: list[tuple[dict[str, Any], str]] = [
        ({"distance": "euclidean", "min_size": 1}, "distance must be one of 'total_variation'"),
        ({"bins": "adaptive"}, "bins must be one of 'median_variance', 'equal_width', got 'adaptive'"),
        ({"min_size": 0}, "min_size must be a whole number of at least 1, got 0"),
        ({"min_size": 1, "max_bins": 0}, "max_bins must be a whole number of at least 1, got 0"),
        ({"bins": "equal_width", "n_bins": 1.5}, r"n_bins must be a whole number of at least 1, got 1\.5"),
    ]
    for options, message in wrong:
        with pytest.raises(InputError, match=message):
            canonical_ece(table, **options)
    with pytest.raises(NotEnoughData, match="canonical ECE in bins of 10 needs at least 10 events, got 5"):
        canonical_ece(table)
