"""Intervals of the difference of two models: how often they hold what is true, and how often they see what is not."""

import pytest

from tests.long import longer, short_of
from tests.simulations.differences import PAIRS, Pair, simulate_differences
from tests.simulations.scenarios import Scenario
from tests.simulations.simulate import LEVEL, TOLERANCE

pytestmark = [pytest.mark.simulation, pytest.mark.longer]

REPEATS = longer(12, 24)
DRAWS = 79


CASES = [PAIRS[0], *PAIRS[3:5]]


@pytest.mark.parametrize("case", short_of(CASES, 1), ids=lambda each: f"{each[0].name}, {each[1].name}, {each[2]}")
def test_intervals_of_differences_cover(case: tuple[Scenario, Scenario, bool]) -> None:
    first, second, paired = case
    # Of few positives less is promised: twenty are to be expected of 2,000 events.
    pair = Pair(first, second, paired, 2_000 if first.mean < 0.0 else 500, REPEATS, DRAWS)
    for name, outcome in simulate_differences(pair).items():
        chance = 3.0 * outcome.error(LEVEL)
        assert outcome.coverage >= 1.0 - LEVEL - TOLERANCE - chance, name
        if pair.alike:
            assert outcome.rejection <= LEVEL + TOLERANCE + chance, name


def test_differences_that_are_there_are_seen() -> None:
    found = simulate_differences(
        Pair(PAIRS[0][0], PAIRS[2][0], True, 4_000, 8, DRAWS, measures=("kce", "smce", "brier"))
    )
    assert all(outcome.rejected >= 7 for outcome in found.values())
