"""Bets that learn: from earlier steps alone, fair whatever was learnt, and sooner where no fixed alternative fits."""

import copy
import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import expit, logit

from monitor.arrays import Bools, Floats
from monitor.scores import GridTable, grid
from monitor.scores.steps import Steps
from monitor.sequential.calibration import CalibrationBets
from monitor.sequential.calibration_lines import lines
from monitor.sequential.detector import Bets
from monitor.sequential.evidence import YEAR_MS, Evidence
from monitor.sequential.learnt import HALF_LIVES, LARGEST, bet_on_learnt, nothing_learnt, regions, shifts
from tests.reference.naive_learnt import Event, learnt_bets, region
from tests.sequential.stored import stored
from tests.sequential.streams import steps_of

TOLERANCES = (0.0, 0.05, 0.3)
FIXED = 36


def off(rng: np.random.Generator, events: int, centre: float = 0.0) -> tuple[Floats, Floats]:
    """Predictions that are too high in one half-logit and too low in the next."""
    z = centre + 1.5 * rng.normal(size=events)
    truth = z + 0.6 * np.where(np.floor(2.0 * z) % 2 == 0, 1.0, -1.0)
    return expit(z), (rng.random(events) < expit(truth)).astype(np.float64)


def at_an_edge(p: Floats) -> Bools:
    """Whether the cell of a prediction may reach over the edge of a region."""
    thirds = 3.0 * logit(p)
    return np.asarray(np.abs(thirds - np.round(thirds)) < 0.03)


def learnt_from(seed: int, tolerance: float, events: int = 4000, centre: float = 0.0) -> tuple[Floats, Floats]:
    """Bets on a stream of panes of 50 that is off, and what was learnt of it."""
    steps = steps_of(*off(np.random.default_rng(seed), events, centre), 50, 1000)
    return bet_on_learnt(steps, tolerance, nothing_learnt(), held=False)


@pytest.mark.parametrize("tolerance", TOLERANCES)
@pytest.mark.parametrize(("centre", "learnt_steps"), [(0.0, None), (-2.0, None), (0.0, 30)])
def test_bets_are_those_of_loops_over_events(tolerance: float, centre: float, learnt_steps: int | None) -> None:
    p, y = off(np.random.default_rng(1), 1400, centre)
    inside = ~at_an_edge(p)
    p, y = p[inside][:1200], y[inside][:1200]
    steps = steps_of(p, y, 20, 1000)
    events = [Event(*pair) for pair in zip(p.tolist(), y.astype(int).tolist(), strict=True)]
    expected = np.array(
        learnt_bets([events[at : at + 20] for at in range(0, len(events), 20)], tolerance, learnt_steps)
    )
    if learnt_steps is None:
        found, _ = bet_on_learnt(steps, tolerance, nothing_learnt(), held=False)
    else:
        start, sums = bet_on_learnt(steps.part(0, learnt_steps), tolerance, nothing_learnt(), held=False)
        rest, after = bet_on_learnt(steps.part(learnt_steps, steps.end_ms.size), tolerance, sums, held=True)
        np.testing.assert_array_equal(after, sums)
        found = np.concatenate([start, rest])
    assert np.abs(expected).max() > 0.5
    # A bet is the one in the middle of its cell, and its logarithm is bounded from below.
    np.testing.assert_allclose(found, expected, rtol=0.01, atol=0.01)
    assert not found[0].any()


def test_regions_are_thirds_of_a_logit() -> None:
    p = expit(np.random.default_rng(0).uniform(-7.9, 7.9, 1000))
    p = p[~at_an_edge(p)]
    np.testing.assert_array_equal(regions()[grid.locate(p)], [region(one) + 24 for one in p.tolist()])
    assert regions()[[0, -1]].tolist() == [0, 47]


@settings(deadline=None, max_examples=30)
@given(
    seed=st.integers(0, 10**6),
    tolerance=st.sampled_from(TOLERANCES),
    centre=st.sampled_from([-4.0, 0.0, 1.0]),
    z=st.lists(st.floats(-9.0, 9.0), min_size=1, max_size=5),
    errors=st.lists(st.sampled_from([-1.0, -0.5, 0.0, 1.0]), min_size=5, max_size=5),
)
def test_the_mean_of_a_bet_is_at_most_1_whatever_was_learnt_and_wherever_the_truth_lies_in_the_band(
    seed: int, tolerance: float, centre: float, z: list[float], errors: list[float]
) -> None:
    """Exactly: over all outcomes of the next step, given all that was before it."""
    _, sums = learnt_from(seed, tolerance, 1000, centre)
    p = np.rint(expit(np.array(z)) * grid.UNITS) / grid.UNITS
    truth = expit(logit(p) + tolerance * np.array(errors[: p.size]))
    outcomes = np.array(list(itertools.product((0, 1), repeat=p.size)))
    log_bets = np.concatenate(
        [bet_on_learnt(Steps.of([(1, GridTable.from_events(p, y))]), tolerance, sums, held=False)[0] for y in outcomes]
    )
    chances = np.where(outcomes == 1, truth, 1.0 - truth).prod(axis=1)
    assert (chances @ np.exp(log_bets)).max() <= 1.0 + 1e-9


@pytest.mark.parametrize("tolerance", TOLERANCES)
def test_each_shift_is_fair_in_every_cell(tolerance: float) -> None:
    """Whatever is learnt, it is one of these shifts: so the proof needs them alone."""
    table = lines(np.repeat(shifts()[:, None], grid.cell_count(), axis=1), tolerance)
    cells = np.arange(1, grid.cell_count() - 1)
    lower, upper, anchors = grid.edges()[cells], grid.upper_edges()[cells], grid.anchors()[cells]
    for share, error in itertools.product((0.0, 0.3, 1.0), (-tolerance, 0.0, tolerance)):
        p = lower + share * (upper - lower)
        above = (p * grid.UNITS - anchors)[:, None]
        truth = (np.exp(error) * p / (1 - p + np.exp(error) * p))[:, None]
        positive = np.exp(table[cells, 0] + above * table[cells, 1])
        negative = np.exp(table[cells, 2] + above * table[cells, 3])
        assert (truth * positive + (1 - truth) * negative).max() <= 1 + 1e-10
    assert shifts().tolist() == (-shifts()[::-1]).tolist()
    assert np.abs(shifts()).max() == pytest.approx(LARGEST)


def test_inside_the_band_nothing_is_bet() -> None:
    """A model that is off by less than the tolerance teaches nothing that pays."""
    rng = np.random.default_rng(0)
    z = rng.normal(size=200_000)
    y = rng.random(z.size) < expit(z + 0.1)
    log_bets, _ = bet_on_learnt(steps_of(expit(z), y, 200_000, 1000), 0.2, nothing_learnt(), held=False)
    _, sums = bet_on_learnt(steps_of(expit(z), y, 100_000, 1000), 0.2, nothing_learnt(), held=False)
    inside = np.abs(z) < 1.0
    held, _ = bet_on_learnt(steps_of(expit(z[inside]), y[inside], 1000, 1000), 0.2, sums, held=True)
    assert not log_bets.any()
    assert not held.any()


@settings(deadline=None)
@given(st.integers(0, 10**6), st.lists(st.integers(0, 40), max_size=6), st.booleans())
def test_batches_states_and_copies_change_no_bit(seed: int, cuts: list[int], held: bool) -> None:
    steps = steps_of(*off(np.random.default_rng(seed), 2000), 50, 1000)
    whole, parts = CalibrationBets(), CalibrationBets()
    expected = whole.bet(steps).log_bets
    rows = []
    for start, stop in itertools.pairwise([0, *sorted(cuts), 40]):
        copy.copy(parts).bet(steps.part(0, 40), held=held)
        rows.append(parts.bet(steps.part(start, stop)).log_bets)
        parts = CalibrationBets.from_state(stored(parts.state()))
    np.testing.assert_array_equal(np.concatenate(rows), expected)
    assert expected[:, FIXED:].any()
    assert len(whole.names) == len(set(whole.names)) == expected.shape[1] == FIXED + len(HALF_LIVES)


def test_a_step_is_bet_on_before_it_is_learnt_from() -> None:
    """Outcomes of a step and of later ones move no alternative that bets on it: log bets are linear in its counts."""
    _, sums = learnt_from(0, 0.05)
    p = expit(np.linspace(-3.0, 3.0, 30))
    one, zero = (
        bet_on_learnt(Steps.of([(1, GridTable.from_events(p, np.full(30, y)))]), 0.05, sums, held=False)[0]
        for y in (1, 0)
    )
    each = []
    for at in range(30):
        single = [Steps.of([(1, GridTable.from_events(p[at : at + 1], np.array([y])))]) for y in (1, 0)]
        each.append([bet_on_learnt(step, 0.05, sums, held=False)[0][0] for step in single])
    np.testing.assert_allclose(np.array([one[0], zero[0]]), np.array(each).sum(axis=0), atol=1e-12)
    assert np.abs(one).max() > 0.1


def test_steps_without_outcomes_teach_nothing() -> None:
    rng = np.random.default_rng(0)
    _, sums = learnt_from(0, 0.05)
    p = rng.random(500)
    for step in (GridTable.from_events(p, np.full(500, -1)), GridTable.zero()):
        log_bets, after = bet_on_learnt(Steps.of([(1, step)]), 0.05, sums, held=False)
        assert not log_bets.any()
        np.testing.assert_array_equal(after, sums)


def test_predictions_of_0_and_1_alone_teach_nothing_and_break_nothing() -> None:
    p, y = np.repeat([0.0, 1.0], 50), np.tile([0, 1], 50)
    log_bets, sums = bet_on_learnt(steps_of(p, y, 20, 1000), 0.05, nothing_learnt(), held=False)
    assert not log_bets.any()
    assert np.isfinite(sums).all()


def test_what_was_learnt_is_held_while_an_alarm_fires() -> None:
    """Then steps that follow are bet on with the same alternatives, in whatever order they come."""
    rng = np.random.default_rng(0)
    detector = CalibrationBets()
    detector.bet(steps_of(*off(rng, 8000), 50, 1000))
    steps = steps_of(*off(rng, 2000), 50, 1000)
    forwards = copy.copy(detector).bet(steps, held=True).log_bets[:, FIXED:]
    backwards = Steps.of([(1000 * at, table) for at, table in enumerate(reversed(steps.tables()), 1)])
    np.testing.assert_array_equal(copy.copy(detector).bet(backwards, held=True).log_bets[::-1, FIXED:], forwards)
    assert (copy.copy(detector).bet(steps).log_bets[1:, FIXED:] != forwards[1:]).any()
    assert forwards.sum(axis=0).max() > 10.0


@pytest.mark.parametrize(("tolerance", "error"), [(0.0, 0.0), (0.05, 0.05), (0.2, -0.2), (0.05, 0.0)])
def test_learnt_alternatives_alone_keep_the_budget(tolerance: float, error: float) -> None:
    """One false alarm is allowed in every 40 panes; where the truth zigzags from edge to edge of the band, too."""
    rng, pane, panes = np.random.default_rng(0), 50, 8_000
    z = 1.5 * rng.normal(size=pane * panes)
    sign = np.where(np.floor(3.0 * z) % 2 == 0, 1.0, -1.0)
    y = (rng.random(z.size) < expit(z + error * sign)).astype(np.float64)
    bets = CalibrationBets(tolerance).bet(steps_of(expit(z), y, pane, 1_000_000))
    learnt = Bets(bets.end_ms, bets.log_bets[:, FIXED:])
    alarms = Evidence(0).update({"": {"": learnt}}, 40 * 1_000_000 / YEAR_MS)
    print(f"\n{len(alarms)} false alarms, the bound is {panes / 40:.0f}")
    assert 20 <= len(alarms) <= panes / 40


@pytest.mark.parametrize(
    ("fault", "at_most"),
    [("zigzag", 0.65), ("U", 0.8), ("offset", 1.04)],
)
def test_shapes_that_no_fixed_alternative_has_are_seen_sooner(fault: str, at_most: float) -> None:
    """Median delay over 40 streams, relative to that of the fixed alternatives alone, in a fleet of 200 models."""
    rng, pane, calibrated = np.random.default_rng(0), 100, 10_000
    pane_ms = round(pane / 8600 * 3_600_000)
    delays = []
    for _ in range(40):
        z = 1.5 * rng.normal(size=50_000)
        shift = {
            "zigzag": 0.4 * np.where(np.floor(z / 0.75) % 2 == 0, 1.0, -1.0),
            "U": 0.3 * np.clip((z / 1.5) ** 2 - 1.0, -1.0, 2.0),
            "offset": np.full(z.size, 0.25),
        }[fault]
        shift[:calibrated] = 0.0
        bets = CalibrationBets().bet(steps_of(expit(z), rng.random(z.size) < expit(z + shift), pane, pane_ms))
        row = []
        for columns in (slice(FIXED), slice(None)):
            alarms = Evidence(0).update({"": {"": Bets(bets.end_ms, bets.log_bets[:, columns])}}, 800.0)
            after = [alarm.end_ms / pane_ms * pane - calibrated for alarm in alarms]
            row.append(next((delay for delay in after if delay > 0), math.inf))
        delays.append(row)
    fixed, both = np.median(delays, axis=0)
    print(f"\n{fault}: {both:.0f} events, {fixed:.0f} with the fixed alternatives alone")
    assert both / fixed <= at_most
