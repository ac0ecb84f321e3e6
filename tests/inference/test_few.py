"""How unlikely so few outcomes of one kind are."""

from itertools import product

import numpy as np
import pytest
from scipy.stats import binom

from monitor.inference.few import ENOUGH, caution_of_few, tail_of_few
from monitor.scores import ScoreTable


@pytest.mark.parametrize("seed", range(5))
def test_the_tail_is_the_sum_over_all_outcomes(seed: int) -> None:
    rng = np.random.default_rng(seed)
    p = rng.choice([0.1, 0.3, 0.35, 0.8], 9)
    y = (rng.random(9) < 0.3).astype(int)
    for positive, few in ((True, y.sum()), (False, 9 - y.sum())):
        tail = 0.0
        for drawn in product([0, 1], repeat=9):
            if (sum(drawn) if positive else 9 - sum(drawn)) <= few:
                tail += float(np.prod([q if hit else 1.0 - q for q, hit in zip(p, drawn, strict=True)]))
        assert tail_of_few(ScoreTable.from_events(p, y), positive=positive) == pytest.approx(tail)


def test_equal_predictions_have_the_binomial_tail_and_the_sure_are_sure() -> None:
    table = ScoreTable.from_events([0.2] * 100, [1] * 4 + [0] * 96)
    assert tail_of_few(table, positive=True) == pytest.approx(binom.cdf(4, 100, 0.2))
    assert tail_of_few(ScoreTable.from_events([0.5] * 400, [1] * 400), positive=False) == pytest.approx(0.5**400)
    assert tail_of_few(ScoreTable.from_events([0.5, 1.0], [0, 0]), positive=True) == 0.0
    assert tail_of_few(ScoreTable.from_events([], []), positive=True) == 1.0


def test_few_outcomes_of_either_kind_are_cautioned_about_and_enough_are_not() -> None:
    assert caution_of_few(ENOUGH, 4_000) == caution_of_few(4_000, ENOUGH) == ""
    assert caution_of_few(7, 493).startswith("With only 7 positives, read intervals of TCE")
    assert caution_of_few(493, ENOUGH - 0.5).startswith("With only 19.5 negatives")
