"""Probability vectors brought to a sum of 1, against obvious loops."""

import math

import numpy as np
import pytest

from monitor.kernels.probabilities import normalise


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
        total = 0.0
        for p in vector:
            total += p
        found = values[at : at + len(vector)].tolist()
        if abs(total - 1.0) <= 1e-3:
            assert found == [p / total for p in vector]
            assert top == max(found)
        else:
            assert math.isnan(top)
            assert found == vector
        at += len(vector)
