"""The short form of the simulations: seeded, so that what holds once holds always. The long one: ``make simulate``."""

import pytest

from monitor.measures import REPORT_MEASURES
from tests.long import longer, short_of
from tests.simulations.classwise import CLASS_SCENARIOS
from tests.simulations.differences import PAIRS
from tests.simulations.long_form import main
from tests.simulations.power import VERDICT, power
from tests.simulations.scenarios import SCENARIOS, Form, Scenario
from tests.simulations.simulate import LEVEL, TOLERANCE, Setting, has_a_law_value, simulate

pytestmark = [pytest.mark.simulation, pytest.mark.longer]

REPEATS = longer(20, 60)
DRAWS = 39
CASES: list[tuple[Scenario, Form]] = [
    *((scenario, "raw") for scenario in SCENARIOS[:4]),
    (SCENARIOS[0], "grid"),
    *((scenario, "weighted") for scenario in SCENARIOS[:4:3]),
]


@pytest.mark.parametrize("case", short_of(CASES, 2), ids=lambda each: f"{each[0].name}, {each[1]}")
def test_intervals_cover_and_tests_keep_their_level(case: tuple[Scenario, Form]) -> None:
    scenario, form = case
    found = simulate(Setting(scenario, 500, form, REPEATS, DRAWS))
    assert set(found) == {
        name for name, measure in REPORT_MEASURES.items() if not (form == "weighted" and measure.needs_whole_counts)
    }
    for name, outcome in found.items():
        # Three standard errors; from above coverage has no bound, where only inequalities are known.
        chance = 3.0 * outcome.error(LEVEL)
        assert outcome.coverage >= 1.0 - LEVEL - TOLERANCE - chance, name
        if scenario.calibrated:
            assert outcome.rejection <= LEVEL + TOLERANCE + chance, name
        elif scenario.slope != 1.0 and has_a_law_value(REPORT_MEASURES[name]):
            assert outcome.rejection > 2 * LEVEL, name


def test_the_tables_are_printed(capsys: pytest.CaptureFixture[str]) -> None:
    options = "--repeats 2 --draws 19 --sizes 100 --forms grid --workers 1 --measures smce brier"
    main([*options.split(), "--of", "models", "differences", "classes"])
    printed = capsys.readouterr().out
    for scenario in SCENARIOS:
        assert f"{scenario.name}, n = 100, grid, 2 samples" in printed
    assert "slope 1.5 against balanced, same events, n = 100, 2 samples" in printed
    assert "three classes, n = 100, 2 samples" in printed
    assert printed.count(f"\n  {'smce':<32}") == len(SCENARIOS) + len(PAIRS)
    assert printed.count("\n  smce of the mean ") == len(CLASS_SCENARIOS)


def test_the_verdicts_test_sees_more_than_single_measures() -> None:
    """What docs/which-measure.md tells beginners; the whole table: ``python -m tests.simulations.power``."""
    too_sure = power(Scenario("slope 1.5", slope=1.5), 500, repeats=60, draws=39)
    assert too_sure[VERDICT] >= 0.9
    assert too_sure["smce"] <= 0.4
    calibrated = power(Scenario("none"), 500, repeats=100, draws=39)
    assert all(share <= 0.12 for share in calibrated.values()), calibrated
