"""Probability vectors brought to a sum of 1, against obvious loops."""

import math
from itertools import permutations

import numpy as np
import pytest

from monitor.scores.probability_loops import normalise, normalise_rows
from tests.reference.naive_join import normalised


@pytest.mark.parametrize("seed", range(5))
def test_each_vector_is_divided_by_its_sum_or_marked(seed: int) -> None:
    rng = np.random.default_rng(seed)
    vectors = []
    for _ in range(50):
        vector = rng.dirichlet(np.ones(int(rng.integers(2, 9)))) * rng.choice([1.0, 0.9995, 1.0005, 0.9, 1.1])
        vectors.append(vector.tolist() if rng.random() < 0.9 else [])
    values = np.array([p for vector in vectors for p in vector])
    largest = np.empty(len(vectors))
    normalise(values, np.array([len(vector) for vector in vectors]), 1e-3, largest)
    at = 0
    for vector, top in zip(vectors, largest.tolist(), strict=True):
        found = values[at : at + len(vector)].tolist()
        if abs(sum(vector) - 1.0) <= 1e-3:
            assert found == normalised(vector)
            assert top == max(found)
        else:
            assert math.isnan(top)
            assert found == vector
        at += len(vector)


def test_rows_whose_sum_is_1_but_for_rounding_stay_as_they_are() -> None:
    rng = np.random.default_rng(6)
    exact = rng.dirichlet(np.ones(5), 1000)
    single = exact.astype(np.float32).astype(np.float64)
    off = exact * (1.0 + rng.choice([-9e-7, 9e-7], (1000, 1)))
    for rows in (exact, single, off):
        assert len(set(rows.sum(axis=1).tolist())) > 2
        kept = rows.copy()
        assert normalise_rows(rows).all()
        np.testing.assert_array_equal(rows, kept)


def test_of_printed_rows_neither_their_order_nor_the_others_part_equal_values() -> None:
    """With a sum of 0.999 whichever way it is added up, 0.2 becomes one value."""
    of_fifth = set()
    for others in ((0.5, 0.299), (0.4, 0.399), (0.1, 0.699), (0.3, 0.499), (0.333, 0.466)):
        for row in permutations((0.2, *others)):
            rows = np.array([row])
            assert normalise_rows(rows).all()
            of_fifth.add(float(rows[0, row.index(0.2)]))
    assert len({sum(row) for row in permutations((0.2, 0.5, 0.299))}) > 1
    assert of_fifth == {0.2 / 0.999}


def test_a_class_that_has_all_of_a_sum_gets_1_and_small_sums_are_brought_to_1() -> None:
    rows = np.array([[0.995, 0.0], [1e-9, 3e-9], [5e-324, 0.0], [0.9950000000004, 0.0]])
    assert normalise_rows(rows).all()
    np.testing.assert_allclose(rows, [[1.0, 0.0], [0.25, 0.75], [1.0, 0.0], [1.0, 0.0]], rtol=1e-12)
    assert rows[0, 0] == 1.0
    assert rows.max() <= 1.0
