"""Bets on blocks of one horizon: as over their events, and within the bound whatever a block has in common."""

import itertools
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import expit

from monitor.arrays import Floats
from monitor.errors import SettingsError
from monitor.scores import GridTable, grid
from monitor.scores.steps import Steps
from monitor.sequential.alternatives import Profile, middle_logits
from monitor.sequential.blocks import BlockBets
from monitor.sequential.calibration import CalibrationBets
from monitor.sequential.detector import Detector
from monitor.sequential.evidence import YEAR_MS, Evidence
from monitor.sequential.serving_map import SHARES
from tests.long import examples
from tests.reference.naive_blocks import log_bet
from tests.sequential.stored import stored
from tests.sequential.streams import steps_of

HORIZON_MS = 1000


def patterns(cell: int) -> list[float]:
    """Weights of a prediction, as they are tabulated for its cell; below 0 where rates are to be lower."""
    slope = float(np.clip(middle_logits()[cell], -1, 1))
    region = int(Profile.default().regions()[cell])
    bumps = [sign * (place == region) for place in range(8) for sign in (1.0, -1.0)]
    return [1.0, -1.0, slope, -slope, *bumps]


PATTERNS = 20


@examples(12, 40)
@given(
    st.lists(st.tuples(st.integers(1, 6000), st.floats(0.001, 0.999), st.integers(0, 1)), max_size=20),
    st.integers(0, 1),
    st.sampled_from([0.0, 0.05, 0.3]),
)
def test_bets_are_those_on_the_events_of_each_complete_block(
    events: list[tuple[int, float, int]], parity: int, tolerance: float
) -> None:
    tables, blocks = {6001: GridTable.zero()}, dict[int, list[tuple[float, int]]]()
    for end_ms, p, y in events:
        tables[end_ms] = tables.get(end_ms, GridTable.zero()) + GridTable.from_events([p], [y])
        blocks.setdefault((end_ms - 1) // HORIZON_MS, []).append((p, y))
    steps = Steps.of(sorted(tables.items()))
    bets = BlockBets(HORIZON_MS, parity, tolerance).bet(steps)
    expected = np.zeros_like(bets.log_bets)
    for block, of_block in blocks.items():
        if block % 2 == parity:
            # Known with the first step that ends with the block, or after it.
            row = int(np.searchsorted(steps.end_ms, (block + 1) * HORIZON_MS))
            weights = np.array([patterns(int(grid.locate(np.array([p]))[0])) for p, _ in of_block]).T.tolist()
            expected[row] += [log_bet(of_block, weight, share, tolerance) for weight in weights for share in SHARES]
    np.testing.assert_allclose(bets.log_bets, expected, rtol=0.01, atol=0.01)


@examples(8, 20)
@given(st.integers(0, 10**6), st.lists(st.integers(0, 40), max_size=6), st.integers(0, 1))
def test_batches_and_states_change_no_bit(seed: int, cuts: list[int], parity: int) -> None:
    rng = np.random.default_rng(seed)
    tables = []
    for pane in range(40):
        p = np.round(rng.beta(1, 4, rng.integers(0, 151)), rng.integers(1, 6))
        y = np.where(rng.random(p.size) < 0.2, -1, rng.random(p.size) < p)
        tables.append(((pane + 1) * 250, GridTable.from_events(p, y)))
    steps = Steps.of(tables)
    whole, parts, rows = BlockBets(HORIZON_MS, parity), BlockBets(HORIZON_MS, parity), []
    expected = whole.bet(steps).log_bets
    for start, stop in itertools.pairwise([0, *sorted(cuts), 40]):
        rows.append(parts.bet(steps.part(start, stop)).log_bets)
        parts = BlockBets.from_state(stored(parts.state()))
    np.testing.assert_array_equal(np.concatenate(rows), expected)
    assert parts.names == whole.names
    assert len(whole.names) == expected.shape[1]


def test_a_step_that_completes_a_block_may_end_with_it_or_later() -> None:
    table = GridTable.from_events([0.2, 0.6], [1, 1])
    for ends in ([500, 1000, 1500], [500, 900, 1500]):
        bets = BlockBets(HORIZON_MS, 0).bet(Steps.of([(end, table) for end in ends]))
        assert bets.log_bets.any(axis=1).tolist() == [False, ends[1] == 1000, ends[1] != 1000]


@pytest.mark.parametrize("tolerance", [0.0, 0.1])
def test_the_mean_of_a_bet_is_at_most_1_whatever_outcomes_have_in_common(tolerance: float) -> None:
    """Outcomes of a block depend on one uniform number, with the rates at either edge of the band."""
    p = np.array([0.003, 0.1, 0.3, 0.31, 0.6, 0.98])
    rng = np.random.default_rng(0)
    u = (np.arange(2000) + 0.5) / 2000
    for side in (-1, 1, 0):
        truth = expit(np.log(p / (1 - p)) + tolerance * (side or rng.choice([-1, 1], p.size)))
        for way in (np.ones(p.size), rng.choice([-1, 1], p.size)):
            outcomes = np.where(way == 1, u[:, None] < truth, 1 - u[:, None] < truth)
            mean = np.zeros(len(SHARES) * PATTERNS)
            for outcome, count in zip(*np.unique(outcomes, axis=0, return_counts=True), strict=True):
                steps = Steps.of([(HORIZON_MS, GridTable.from_events(p, outcome))])
                mean += count / u.size * np.exp(BlockBets(HORIZON_MS, 0, tolerance).bet(steps).log_bets[0])
            assert mean.max() <= 1 + 0.01


@pytest.mark.parametrize("p", [0.0, 1.0])
def test_predictions_of_0_and_1_win_where_they_are_contradicted_and_hardly_lose_otherwise(p: float) -> None:
    def bets(contradictions: int) -> Floats:
        y = np.full(100, p)
        y[:contradictions] = 1 - p
        steps = Steps.of([(HORIZON_MS, GridTable.from_events(np.full(100, p), y))])
        return np.asarray(BlockBets(HORIZON_MS, 0).bet(steps).log_bets[0])

    assert (bets(0) <= 1e-9).all()
    names = BlockBets(HORIZON_MS, 0).names
    for pattern in ("rates higher" if p == 0.0 else "rates lower", "slope below 1"):
        assert bets(1)[names.index(f"{pattern}, share 0.5")] > 10


def alarm_times(detectors: list[Detector], steps: Steps, bound: float) -> list[int]:
    """Of the first alarm of each, in a year in which so many false ones are allowed on average, of all together."""
    threshold = len(detectors) / bound
    found = [Evidence(0).update({"whole": {"": detector.bet(steps)}}, threshold) for detector in detectors]
    return sorted(alarms[0].end_ms for alarms in found if alarms)


def shocked(rng: np.random.Generator, blocks: int, deviation: float, shift: float = 0.0) -> tuple[Floats, Steps]:
    """A year in which each block of 100 events has a shock of its own, whose rates are right on average."""
    p = expit(1.5 * rng.normal(size=(blocks, 100)))
    # Half of the blocks are higher and half lower: the mean of the two rates is p.
    far = np.minimum(p, 1 - p) * np.tanh(deviation)
    rate = np.clip(p + far * rng.choice([-1, 1], (blocks, 1)), 0, 1)
    y = rng.random(p.shape) < expit(np.log(rate / (1 - rate)) + shift)
    return p, steps_of(p.ravel(), y.ravel().astype(np.float64), 25, YEAR_MS // (4 * blocks))


def test_shared_shocks_alarm_the_detector_of_events_but_not_that_of_blocks() -> None:
    """A quarter of the streams may alarm."""
    rng, blocks, bound = np.random.default_rng(0), 300, 0.25
    horizon_ms = 4 * (YEAR_MS // (4 * blocks))
    alarms = np.zeros(2, np.int64)
    for _ in range(40):
        _, steps = shocked(rng, blocks, 0.4)
        both: list[Detector] = [BlockBets(horizon_ms, parity) for parity in (0, 1)]
        alarms += [bool(alarm_times(both, steps, bound)), bool(alarm_times([CalibrationBets()], steps, bound))]
    print(f"\nalarmed: {alarms[0]} of 40 streams in blocks, {alarms[1]} by events")
    assert alarms[0] <= 10
    assert alarms[1] >= 35


def test_an_offset_is_seen_through_shared_shocks() -> None:
    rng, blocks = np.random.default_rng(0), 600
    horizon_ms = 4 * (YEAR_MS // (4 * blocks))
    delays = []
    for _ in range(11):
        _, steps = shocked(rng, blocks, 0.2, 0.5)
        both: list[Detector] = [BlockBets(horizon_ms, parity) for parity in (0, 1)]
        delays += [next(iter(alarm_times(both, steps, 0.25)), math.inf) / horizon_ms]
    print(f"\nmedian delay {np.median(delays):.0f} blocks")
    assert np.median(delays) < 150


def test_a_horizon_is_above_0() -> None:
    with pytest.raises(SettingsError, match="above 0 ms, got 0"):
        BlockBets(0, 0)
