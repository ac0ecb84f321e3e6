"""Bets that no change of prevalence moves: equal to those over all outcomes of a block, and fair in the whole band."""

import itertools
import math
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import expit

from monitor.arrays import Floats
from monitor.scores import GridTable, grid
from monitor.scores.steps import Steps
from monitor.sequential.alternatives import BUMPS, OFFSETS, SLOPES, Profile, middle_logits
from monitor.sequential.calibration import CalibrationBets, log_bets
from monitor.sequential.evidence import YEAR_MS, Evidence
from monitor.sequential.prevalence import PrevalenceBets, Regions, _half_cell, _odds_ratios, _probabilities
from monitor.sequential.prevalence_loops import bet_on_count, conditional_bets
from tests.long import examples, short_rows
from tests.reference.naive_prevalence import Event, Row, bets_on_counts, block_bets, count_law, listed
from tests.sequential.stored import stored
from tests.sequential.streams import logistic, steps_of

Step = list[tuple[float, int]]
"""Predictions and outcomes."""

WIDTH = 10
steps_of_few = st.lists(
    st.lists(
        st.tuples(
            st.one_of(st.sampled_from([0.0, 0.1, 0.1 + 1e-5, 0.5, 1.0]), st.floats(0.01, 0.99)), st.integers(0, 1)
        ),
        max_size=2 * WIDTH,
    ),
    min_size=1,
    max_size=4,
)


def table(step: Step) -> GridTable:
    p, y = (np.array([event[column] for event in step]) for column in (0, 1))
    return GridTable.from_events(p, y)


@examples(12, 40)
@given(steps_of_few, st.integers(-(2**62), 2**62), st.sampled_from([0.0, 0.05, 0.3]))
def test_bets_equal_those_over_all_outcomes_of_a_block(events: list[Step], end_ms: int, tolerance: float) -> None:
    information = np.bincount(grid.locate(np.array([0.1, 0.2, 0.5, 0.7])), minlength=grid.cell_count())
    regions, band = Regions.of(information.astype(np.float64)), 2 * tolerance
    steps = Steps.of([(end_ms + at, table(step)) for at, step in enumerate(events)])
    result, waiting = conditional_bets(
        np.zeros(0, np.int64),
        *steps,
        *regions.bounds(),
        _probabilities(),
        math.exp(band),
        _odds_ratios((np.array(SLOPES) - 1.0) * regions.apart()[:, None]),
        _odds_ratios(np.array(BUMPS)),
        WIDTH,
    )
    expected, left = np.zeros_like(result), list[Event]()
    for at, of_step in enumerate(steps.tables()):
        rows = []
        for cell, values in zip(of_step.cell.tolist(), of_step.values.tolist(), strict=True):
            across = np.flatnonzero(regions.bound == cell)
            start, end = float((regions.bound < cell).sum()), 0.0
            if across.size:
                start, end = regions.begin[across[0]], regions.end[across[0]]
            if 0 < cell < grid.cell_count() - 1:
                rows.append(Row(middle_logits()[cell], start, max(end - start, 0.0), values[0], values[1]))
        left += listed(rows, end_ms + at)
        while len(left) >= WIDTH:
            block, left = left[:WIDTH], left[WIDTH:]
            expected[at] += np.log(block_bets(block, band, SLOPES, BUMPS, regions.centre.tolist()))
    np.testing.assert_allclose(result, expected, rtol=1e-9, atol=1e-9)
    assert waiting.size == len(left)


def test_predictions_of_0_and_1_that_are_contradicted_are_bet_on_as_by_d1_and_no_others() -> None:
    """Those that a logit cannot tell from them, too: models that never say 0 say 1e-9."""
    for p, fitting, bump in ((0.0, 0.0, len(SLOPES)), (1e-9, 0.0, len(SLOPES)), (1.0 - 1e-9, 1.0, -1), (1.0, 1.0, -1)):
        fits = PrevalenceBets().bet(steps_of(np.full(50, p), np.full(50, fitting), 25, 1000)).log_bets
        assert (fits <= 0.0).all()
        assert (fits > -1e-3).all()
        wrong = PrevalenceBets().bet(steps_of(np.full(3, p), np.full(3, 1 - fitting), 3, 1000)).log_bets[0]
        certain = steps_of(np.full(3, fitting), np.full(3, 1 - fitting), 3, 1000)
        of_d1 = log_bets(certain, Profile.default())[0]
        np.testing.assert_allclose(wrong[: len(SLOPES)], of_d1[len(OFFSETS) : len(OFFSETS) + len(SLOPES)])
        assert wrong[0] == pytest.approx(3 * 6.75, abs=0.01)
        assert not wrong[3 : len(SLOPES)].any()
        assert wrong[bump] == pytest.approx(3 * 0.45, abs=0.01)
        assert np.count_nonzero(wrong) == 4


def test_a_model_that_is_sure_and_wrong_is_seen_whatever_its_prevalence_is() -> None:
    rng = np.random.default_rng(0)
    for sure in (1.0, 1.0 - 1e-9):
        p = np.where(rng.random(20_000) < 0.08, sure, rng.random(20_000))
        y = (rng.random(p.size) < np.where(p == sure, 0.95, p)).astype(np.float64)
        gained = PrevalenceBets().bet(steps_of(p, y, 100, 1000)).log_bets.sum(axis=0)
        assert gained.max() > 50.0


def bets_of_loop(first: list[float], second: list[float], total: int, band: float, contrast: float) -> dict[int, float]:
    law = count_law(first, second, total)
    weight, result = np.zeros(total + 1), {}
    weight[list(law)] = list(law.values())
    for j in law:
        product = np.ones(2)
        bet_on_count(weight, min(law), max(law), j, math.exp(band), np.exp([contrast, 0.0]), product)
        result[j], _ = product.tolist()
    return result


@examples(30, 100)
@given(st.data())
def test_the_mean_of_a_bet_is_at_most_1_wherever_the_truth_lies_in_the_band(data: st.DataObject) -> None:
    """And 1 at its edge. The offset and the number of positives make no difference."""
    tolerance, contrast = data.draw(st.sampled_from([0.0, 0.05, 0.5])), data.draw(st.floats(-3, 3))
    offset = data.draw(st.floats(-3, 3))
    logits = [data.draw(st.lists(st.floats(-6, 6), min_size=1, max_size=4)) for _ in range(2)]
    first, second = ([math.exp(z) for z in group] for group in logits)
    total = data.draw(st.integers(0, len(first) + len(second)))
    bets = bets_of_loop(first, second, total, 2 * tolerance, contrast)
    assert bets == pytest.approx(bets_on_counts(first, second, total, 2 * tolerance, contrast), rel=1e-9)

    def mean(errors: list[list[float]]) -> float:
        odds = [
            [math.exp(z + d + offset) for z, d in zip(*pair, strict=True)] for pair in zip(logits, errors, strict=True)
        ]
        return sum(probability * bets[j] for j, probability in count_law(odds[0], odds[1], total).items())

    error = st.one_of(st.sampled_from([-tolerance, tolerance]), st.floats(-tolerance, tolerance))
    assert mean([[data.draw(error) for _ in group] for group in logits]) <= 1 + 1e-9
    side = math.copysign(tolerance, contrast)
    assert mean([[side for _ in logits[0]], [-side for _ in logits[1]]]) == pytest.approx(1, abs=1e-9)


def test_predictions_are_known_to_half_a_cell() -> None:
    edges = grid.edges()[1:-1]
    inner = edges[(edges > expit(-16.9)) & (edges < expit(16.9))]
    z = np.log(inner / (1 - inner))
    assert np.diff(z).max() / 2 <= _half_cell() * (1 + 1e-3) < 0.0042


@examples(10, 30)
@given(st.integers(0, 10**6), st.lists(st.integers(0, 40), max_size=6))
def test_batches_and_states_change_no_bit(seed: int, cuts: list[int]) -> None:
    rng = np.random.default_rng(seed)
    tables = []
    for pane in range(40):
        p = np.round(rng.beta(1, 4, rng.integers(0, 151)), rng.integers(1, 6))
        y = np.where(rng.random(p.size) < 0.2, -1, rng.random(p.size) < p)
        tables.append(((pane + 1) * 600_000, GridTable.from_events(p, y)))
    steps = Steps.of(tables)
    whole, parts, rows = PrevalenceBets(), PrevalenceBets(), []
    expected = whole.bet(steps).log_bets
    for start, stop in itertools.pairwise([0, *sorted(cuts), 40]):
        rows.append(parts.bet(steps.part(start, stop)).log_bets)
        parts = PrevalenceBets.from_state(stored(parts.state()))
    np.testing.assert_array_equal(np.concatenate(rows), expected)
    assert parts.names == whole.names
    assert whole.state().keys() == parts.state().keys()
    for key, value in whole.state().items():
        np.testing.assert_array_equal(parts.state()[key], value)


def test_blocks_hold_as_much_information_at_any_prevalence() -> None:
    rng = np.random.default_rng(0)
    for centre in (0.0, -3.6, -5.5):
        p, y = logistic(rng, 5000, centre=centre)
        detector = PrevalenceBets()
        detector.bet(steps_of(p, y, 100, 1000))
        width = int(detector.state()["width"])  # type: ignore[arg-type]
        assert width * (p * (1 - p)).mean() == pytest.approx(12, rel=0.2)


def test_two_distinct_predictions_are_enough_to_see_a_slope() -> None:
    rng = np.random.default_rng(0)
    z = rng.choice([-1.0, 1.0], 20_000)
    detector = PrevalenceBets()
    gain = detector.bet(steps_of(expit(z), rng.random(z.size) < expit(1.3 * z), 100, 1000)).log_bets.sum(axis=0)
    assert gain.max() > 20
    assert detector.names[int(gain.argmax())] == "slope 1.3"


@pytest.mark.parametrize(("centre", "slope", "name"), [(0.0, 1.3, "slope 1.3"), (-3.6, 0.77, "slope 0.77")])
def test_the_slope_that_is_true_gains_most(centre: float, slope: float, name: str) -> None:
    p, y = logistic(np.random.default_rng(0), 100_000, slope=slope, offset=(1 - slope) * centre, centre=centre)
    detector = PrevalenceBets()
    gain = detector.bet(steps_of(p, y, 100, 1000)).log_bets.sum(axis=0)
    assert detector.names[int(gain.argmax())] == name


@pytest.mark.parametrize(("centre", "about", "events", "largest"), [(0.0, 0.0, 6000, 1900), (-3.6, -1.9, 15_000, 4500)])
def test_logits_1_3_times_too_small_are_seen_early(centre: float, about: float, events: int, largest: int) -> None:
    """Median delay over 60 streams, with the tolerance of .05 logits and one false alarm in the time of 1e5 events."""
    rng, delays = np.random.default_rng(0), []
    for _ in range(60):
        z = centre + 1.5 * rng.normal(size=3000 + events)
        truth = np.where(np.arange(z.size) < 3000, z, about + 1.3 * (z - about))
        steps = steps_of(expit(z), rng.random(z.size) < expit(truth), 50, 50)
        alarms = Evidence(0).update({"whole": {"": PrevalenceBets().bet(steps)}}, 1e5 / YEAR_MS)
        delays.append(next((alarm.end_ms - 3000 for alarm in alarms if alarm.end_ms > 3000), math.inf))
    print(f"\nmedian delay {np.median(delays):.0f} events")
    assert np.median(delays) <= largest


def jumps(rng: np.random.Generator, events: int) -> Floats:
    return np.repeat(rng.normal(size=10), events // 10)


def ramp(_rng: np.random.Generator, events: int) -> Floats:
    return np.linspace(0, 2, events)


def drift(rng: np.random.Generator, events: int) -> Floats:
    return np.cumsum(rng.normal(size=events)) * 0.005


@pytest.mark.parametrize("prevalence", [jumps, ramp, drift])
@pytest.mark.parametrize(("centre", "edge"), short_rows([(0.0, 0.05), (0.0, 0.0), (-5.5, 0.05)], 1))
def test_changes_of_prevalence_alarm_the_other_detector_alone(
    prevalence: Callable[[np.random.Generator, int], Floats], centre: float, edge: float
) -> None:
    """At a bound of 5 false alarms in 25 streams, each of a year; ``edge``: errors in logits, of the tolerated size."""
    rng = np.random.default_rng(1)
    streams, events, threshold, alarms = 25, 40_000, 5.0, np.zeros(2, np.int64)
    for _ in range(streams):
        z = centre + 1.5 * rng.normal(size=events)
        error = edge * np.sign(z - centre - 1.5)
        y = rng.random(events) < expit(z + error + prevalence(rng, events))
        steps = steps_of(expit(z), y, 100, YEAR_MS * 100 // events)
        for at, bets in enumerate((PrevalenceBets().bet(steps), CalibrationBets().bet(steps))):
            alarms[at] += bool(Evidence(0).update({"whole": {"": bets}}, threshold))
    print(f"\nalarmed: {alarms[0]} of {streams} streams, and against calibration {alarms[1]}")
    assert alarms[0] <= 5
    assert alarms[1] == streams
