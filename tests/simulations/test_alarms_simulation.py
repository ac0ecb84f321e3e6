"""The short form of ``python -m tests.simulations.alarms``: seeded, so that what holds once holds always."""

import numpy as np
import pytest

from monitor.sequential.calibration import CalibrationBets
from monitor.sequential.watch import Watch
from tests.long import short_of, short_rows
from tests.sequential.streams import logistic, steps_of
from tests.simulations import learnt_bets
from tests.simulations.alarms import CHANGES, PANE, PANE_MS, courses, main

pytestmark = pytest.mark.simulation

REPEATS = 40


@pytest.mark.parametrize("name", short_of(["slope 1.3", "offset 0.25", "slope 1.3, 7% positive"], 1))
def test_change_points_are_covered_and_alarms_end_when_they_should(name: str) -> None:
    results = courses(CHANGES[name], REPEATS, after=30_000)
    assert len(results) == REPEATS
    three_errors = 3 * np.sqrt(0.05 * 0.95 / REPEATS)
    assert np.mean([course.covered for course in results]) >= 0.95 - three_errors
    assert np.median([abs(course.error) for course in results]) <= 300
    assert sum(course.wrongly_over for course in results) <= 1
    over = [np.inf if course.over is None else course.over for course in results]
    assert np.median(over) <= 8_000
    assert np.quantile(over, 0.9) <= 25_000


@pytest.mark.parametrize(("slope", "times"), short_rows([(1.1, 3), (1.0, 0), (1.3, 1), (1.15, 1)], 1))
def test_alarms_do_not_come_and_go(slope: float, times: int) -> None:
    """A slope that does not get better, for 5 days; 1.1 is neither seen well at a tolerance of .05 nor overlooked."""
    rng = np.random.default_rng(3)
    watch, detector = Watch(0), CalibrationBets()
    at, raised = 0, 0
    for _ in range(1_000_000 // 1000):
        p, y = logistic(rng, 1000, slope)
        bets = detector.bet(steps_of(p, y, PANE, PANE_MS, at), held=watch.firing)
        at = int(bets.end_ms[-1])
        raised += sum(event.kind == "raised" for event in watch.update({"whole": {"": bets}}, 1.0))
    assert min(times, 1) <= raised <= times


def test_the_table_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    main(["--repeats", "1", "--per-year", "1000"])
    printed = capsys.readouterr().out
    assert all(f"| {name} | 1 |" in printed for name in CHANGES)


def test_the_table_of_what_learning_gains_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    learnt_bets.main(["--repeats", "1"])
    _, _, *rows = capsys.readouterr().out.splitlines()
    numbers = dict(row.strip("| ").split(" | ", 1) for row in rows)
    assert list(numbers) == list(learnt_bets.FAULTS)
    fixed, learnt = (float(cell.replace(",", "")) for cell in numbers["zigzag of .3, each 1 wide"].split(" | ")[:2])
    assert learnt < fixed
