"""Intervals of the difference of two models: how often they hold what is true, and how often they see what is not."""

import numpy as np
import pytest
from scipy.special import expit

from monitor.evaluation.compare import compare_tables
from monitor.measures import MEASURES
from monitor.sources.tables import EventTable
from tests.simulations.scenarios import Scenario

pytestmark = pytest.mark.simulation

REPEATS = 60
DRAWS = 79
CHOSEN = {name: MEASURES[name] for name in ("kce", "smce", "ece", "brier")}
CASES = [
    # Nearly calibrated models of the same events: where the plain bootstrap covers a third.
    (1.0, 1.1, True, 500),
    (1.0, 1.5, True, 500),
    (1.5, 0.67, True, 500),
    (1.0, 1.0, False, 500),
    (1.0, 1.5, False, 2000),
]


def tables(rng: np.random.Generator, slopes: tuple[float, float], n: int, *, paired: bool) -> list[EventTable]:
    result = []
    z = y = None
    for slope in slopes:
        if z is None or y is None or not paired:
            z = rng.normal(0.0, 1.2, n)
            y = (rng.random(n) < expit(z)).astype(np.int8)
        result.append(EventTable(expit(slope * z), y))
    return result


@pytest.mark.parametrize(("first", "second", "paired", "n"), CASES)
def test_intervals_of_differences_cover(first: float, second: float, paired: bool, n: int) -> None:
    laws = [Scenario("law", slope=slope).law(n) for slope in (first, second)]
    true = {name: measure.value(laws[1]) - measure.value(laws[0]) for name, measure in CHOSEN.items()}
    held = dict.fromkeys(CHOSEN, 0)
    seen = dict.fromkeys(CHOSEN, 0)
    for repeat in range(REPEATS):
        a, b = tables(np.random.default_rng([17, repeat]), (first, second), n, paired=paired)
        for name, each in compare_tables(a, b, measures=CHOSEN, draws=DRAWS, seed=repeat).differences.items():
            assert each.lower is not None
            assert each.upper is not None
            held[name] += each.lower <= true[name] <= each.upper
            seen[name] += each.certain
    for name in CHOSEN:
        # Nominal .95, less .03 and three standard errors of 60 samples.
        assert held[name] / REPEATS >= 0.95 - 0.03 - 3 * 0.028, name
        if first == second:
            assert seen[name] / REPEATS <= 0.05 + 0.03 + 3 * 0.028, name
