"""Intervals and tests of each class, of their mean and of the top label. Seeded: what holds once holds always."""

import pytest

from tests.long import longer, short_of
from tests.simulations.classwise import CLASS_SCENARIOS, ClassScenario, ClassSetting, simulate_classes, simulate_vectors
from tests.simulations.simulate import LEVEL, TOLERANCE

pytestmark = [pytest.mark.simulation, pytest.mark.longer]

REPEATS = 24
DRAWS = 39


@pytest.mark.parametrize("scenario", short_of(CLASS_SCENARIOS[:2], 1), ids=lambda each: each.name)
def test_intervals_by_class_cover_and_tests_keep_their_level(scenario: ClassScenario) -> None:
    for name, outcome in simulate_classes(ClassSetting(scenario, 500, REPEATS, DRAWS)).items():
        # Classes of one sample hang together: at worst they are worth one.
        chance = 3.0 * (LEVEL * (1.0 - LEVEL) / REPEATS) ** 0.5
        assert outcome.coverage >= 1.0 - LEVEL - TOLERANCE - chance, name
        if scenario.calibrated:
            assert outcome.rejection <= LEVEL + TOLERANCE + chance, name
        else:
            assert outcome.rejection > 2 * LEVEL, name


@pytest.mark.long
@pytest.mark.parametrize("scenario", short_of(CLASS_SCENARIOS[:2], 1), ids=lambda each: each.name)
def test_intervals_of_whole_vectors_cover_and_tests_keep_their_level(scenario: ClassScenario) -> None:
    for name, outcome in simulate_vectors(ClassSetting(scenario, 500, longer(20, 2 * REPEATS), DRAWS)).items():
        chance = 3.0 * outcome.error(LEVEL)
        assert outcome.coverage >= 1.0 - LEVEL - TOLERANCE - chance, name
        if scenario.calibrated:
            assert outcome.rejection <= LEVEL + TOLERANCE + chance, name
        elif name != "mce":
            assert outcome.rejection > 2 * LEVEL, name
