"""Bets against calibration: never larger than those on the events, and hardly smaller."""

import functools
import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from monitor.scores import GridTable, grid
from monitor.scores.steps import Steps
from monitor.sequential.alternatives import (
    Profile,
    centred_shifts,
    certainty,
    common_shifts,
    names,
)
from monitor.sequential.calibration import CalibrationBets, log_bets
from monitor.sequential.calibration_lines import lines, stakes
from tests.reference.naive_sequential import best_stake, bet
from tests.sequential.stored import stored

TOLERANCES = (0.0, 0.05, 0.3)
SHIFTS = np.vstack([common_shifts(), centred_shifts(-2.0)])


@functools.cache
def table_of(tolerance: float) -> np.ndarray:
    return lines(SHIFTS, tolerance)


@functools.cache
def stakes_of(tolerance: float) -> np.ndarray:
    return stakes(SHIFTS, tolerance)


def line(table: np.ndarray, cell: int, y: int, p: float) -> np.ndarray:
    """The line's value at a prediction, of each alternative."""
    constant, slope = table[cell, 2 * (1 - y) : 2 * (1 - y) + 2]
    return np.asarray(constant + slope * (round(p * grid.UNITS) - grid.anchors()[cell]))


@pytest.mark.parametrize("tolerance", TOLERANCES)
@given(p=st.floats(1e-6, 1 - 1e-6), y=st.integers(0, 1))
def test_a_line_lies_below_the_bet_and_near_it(p: float, y: int, tolerance: float) -> None:
    table = table_of(tolerance)
    cell = int(grid.locate(np.array([p]))[0])
    stake = stakes_of(tolerance)[:, cell]
    for k, shift in enumerate(SHIFTS[:, cell].tolist()):
        exact = np.log(bet(p, y, stake[k], shift, tolerance))
        value = line(table, cell, y, p)[k]
        assert value <= exact + 1e-9
        assert value >= exact - 1e-4


@pytest.mark.parametrize("tolerance", TOLERANCES)
def test_stakes_are_those_that_grow_fastest(tolerance: float) -> None:
    table = stakes_of(tolerance)
    for cell in range(1, grid.cell_count() - 1, 97):
        middle = (grid.edges()[cell] + grid.upper_edges()[cell]) / 2
        best = [best_stake(middle, shift, tolerance) for shift in SHIFTS[:, cell].tolist()]
        np.testing.assert_allclose(table[:, cell], best, rtol=0.01, atol=1e-9)


@pytest.mark.parametrize("tolerance", TOLERANCES)
def test_the_mean_of_a_bet_is_at_most_1_wherever_the_truth_lies_in_the_band(tolerance: float) -> None:
    table = table_of(tolerance)
    cells = np.arange(1, grid.cell_count() - 1)
    lower, upper = grid.edges()[cells], grid.upper_edges()[cells]
    anchors = grid.anchors()[cells]
    for share in (0.0, 0.3, 1.0):
        p = lower + share * (upper - lower)
        above = p * grid.UNITS - anchors
        positive = np.exp(table[cells, 0] + above[:, None] * table[cells, 1])
        negative = np.exp(table[cells, 2] + above[:, None] * table[cells, 3])
        for error in (-tolerance, 0.0, tolerance):
            truth = (np.exp(error) * p / (1 - p + np.exp(error) * p))[:, None]
            assert (truth * positive + (1 - truth) * negative).max() <= 1 + 1e-10


@pytest.mark.parametrize("tolerance", TOLERANCES)
def test_predictions_of_0_and_1_win_where_they_are_contradicted_and_nothing_otherwise(tolerance: float) -> None:
    table = table_of(tolerance)
    for cell, p, contradiction in ((0, 0.0, 1), (grid.cell_count() - 1, 1.0, 0)):
        taken_for = certainty()[int(p)]
        shifts = SHIFTS[:, cell].tolist()
        stake = stakes_of(tolerance)[:, cell]
        for k, shift in enumerate(shifts):
            away = shift > tolerance if p == 0.0 else shift < -tolerance
            assert (stake[k] != 0.0) == away
            assert line(table, cell, contradiction, p)[k] == pytest.approx(
                np.log(bet(taken_for, contradiction, stake[k], shift, tolerance)), abs=1e-9
            )
        # What fits wins nothing, wherever the truth lies: so no bet has a mean above 1.
        assert (line(table, cell, 1 - contradiction, p) <= 0.0).all()
        truth = taken_for * np.exp(tolerance) if p == 0.0 else (1 - taken_for) * np.exp(tolerance)
        wins, loses = np.exp(line(table, cell, contradiction, p)), np.exp(line(table, cell, 1 - contradiction, p))
        assert (truth * wins + (1 - truth) * loses).max() <= 1 + 1e-10


def test_a_forest_that_is_sure_and_wrong_is_seen_though_all_other_predictions_are_right() -> None:
    rng = np.random.default_rng(0)
    p = np.where(rng.random(4000) < 0.08, 1.0, rng.random(4000))
    y = rng.random(p.size) < np.where(p == 1.0, 0.91, p)
    evidence = log_bets(Steps.of([(1, GridTable.from_events(p, y))]), Profile.default()).sum(axis=0)
    assert evidence.max() > 50


@given(st.lists(st.tuples(st.floats(0, 1), st.integers(0, 1)), min_size=1, max_size=60), st.integers(1, 59))
def test_a_step_is_worth_what_its_parts_are(events: list[tuple[float, int]], cut: int) -> None:
    p, y = (np.array(column) for column in zip(*events, strict=True))
    profile = Profile.of(GridTable.from_events(p, y))
    whole = log_bets(Steps.of([(1, GridTable.from_events(p, y))]), profile)
    parts = [GridTable.from_events(p[:cut], y[:cut]), GridTable.from_events(p[cut:], y[cut:])]
    np.testing.assert_allclose(
        log_bets(Steps.of([(1, parts[0]), (2, parts[1])]), profile).sum(axis=0), whole[0], rtol=1e-9, atol=1e-9
    )
    assert whole.shape == (1, len(names(profile)))


def test_bumps_act_in_their_region_alone() -> None:
    rng = np.random.default_rng(0)
    p = rng.random(1000)
    profile = Profile.of(GridTable.from_events(p, p * 0))
    regions = profile.regions()
    low = p[regions[grid.locate(p)] == 0]
    assert low.size == pytest.approx(125, abs=5)
    bets = log_bets(Steps.of([(1, GridTable.from_events(low, low * 0))]), profile, 0.0)[0]
    assert (bets[20:22] != 0).all()
    assert not bets[22:].any()


def panes(seed: int, count: int) -> Steps:
    """Panes of 0 to 150 predictions, one in five without an outcome."""
    rng = np.random.default_rng(seed)
    tables = []
    for pane in range(count):
        p = rng.beta(1, 4, rng.integers(0, 151))
        y = np.where(rng.random(p.size) < 0.2, -1, rng.random(p.size) < p)
        tables.append(((pane + 1) * 600_000, GridTable.from_events(p, y)))
    return Steps.of(tables)


@settings(deadline=None)
@given(st.integers(0, 10**6), st.lists(st.integers(0, 40), max_size=6))
def test_batches_and_states_change_no_bit(seed: int, cuts: list[int]) -> None:
    steps = panes(seed, 40)
    whole, parts = CalibrationBets(), CalibrationBets()
    expected = whole.bet(steps).log_bets
    bounds = [0, *sorted(cuts), 40]
    rows = []
    for start, stop in itertools.pairwise(bounds):
        rows.append(parts.bet(steps.part(start, stop)).log_bets)
        parts = CalibrationBets.from_state(stored(parts.state()))
    np.testing.assert_array_equal(np.concatenate(rows), expected)
    assert parts.names == whole.names


def test_alternatives_refer_to_the_first_thousand_predictions_from_the_step_after_them_on() -> None:
    steps = panes(0, 40)
    count = np.cumsum([table.predictions for table in steps.tables()])
    enough = int(np.flatnonzero(count >= 1000)[0])
    profile = Profile.of(GridTable.sum(steps.tables()[: enough + 1]))
    assert profile.centre < -1.0
    bets = CalibrationBets().bet(steps).log_bets[:, :36]
    np.testing.assert_array_equal(bets[: enough + 1], log_bets(steps.part(0, enough + 1), Profile.default()))
    np.testing.assert_array_equal(bets[enough + 1 :], log_bets(steps.part(enough + 1, 40), profile))


def test_outcomes_do_not_move_the_alternatives() -> None:
    """They could otherwise choose what is bet on them."""
    p = np.random.default_rng(0).random(2000)
    detectors = [CalibrationBets() for _ in range(2)]
    for y, detector in enumerate(detectors):
        detector.bet(Steps.of([(1, GridTable.from_events(p, np.full(p.size, y)))]))
    assert detectors[0].names == detectors[1].names != CalibrationBets().names
