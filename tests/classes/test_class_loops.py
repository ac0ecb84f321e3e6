import numpy as np
import pytest
from scipy.stats import chisquare

from monitor.classes.class_loops import categorical_draws


@pytest.mark.parametrize("classes", [2, 3, 40])
def test_classes_are_drawn_with_their_probabilities(classes: int) -> None:
    rng = np.random.default_rng(classes)
    p = rng.dirichlet(np.ones(classes), 3)
    drawn = categorical_draws(rng, np.cumsum(p, axis=1), 20_000)
    assert drawn.shape == (20_000, 3)
    for event in range(3):
        found = np.bincount(drawn[:, event], minlength=classes)
        assert chisquare(found, 20_000 * p[event]).pvalue > 0.001


def test_what_is_impossible_is_never_drawn() -> None:
    p = np.array([[0.0, 1.0, 0.0], [0.5, 0.0, 0.5], [0.0, 0.0, 1.0]])
    drawn = categorical_draws(np.random.default_rng(1), np.cumsum(p, axis=1), 2000)
    assert set(drawn[:, 0].tolist()) == {1}
    assert set(drawn[:, 1].tolist()) == {0, 2}
    assert set(drawn[:, 2].tolist()) == {2}


def test_sums_that_rounding_keeps_below_1_lead_to_no_class_beyond() -> None:
    p = np.array([[0.1] * 9 + [0.1 - 1e-3]])
    drawn = categorical_draws(np.random.default_rng(1), np.cumsum(p, axis=1), 5000)
    assert np.bincount(drawn[:, 0]).size == 10
