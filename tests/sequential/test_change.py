"""Bets that outcomes changed: fair whatever the numbers, silent about a stable miscalibrated model."""

import math
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from monitor.arrays import Floats
from monitor.errors import SettingsError
from monitor.scores import GridTable, grid
from monitor.sequential import change
from monitor.sequential.change import ChangeBets
from monitor.sequential.change_loops import log_tail, uniform
from monitor.sequential.evidence import YEAR_MS, Evidence
from monitor.sequential.steps import Steps
from monitor.simulation.generator import HOUR_MS, Law
from tests.alarms_benchmark.streams import EVENTS_PER_HOUR, Panes, parts
from tests.reference.naive_change_bets import log_bet, rank
from tests.sequential.stored import stored

ACCEPTED = Law(accepted_slope=1 / 1.5, accepted_offset=0.3)

Panel = list[tuple[float, int]]
"""Predictions and outcomes of a step."""


@st.composite
def hypergeometric(draw: st.DrawFn) -> tuple[int, int, int, int]:
    """The law's number of positives in the block, of events, of positives, and of events in the block."""
    before, draws = draw(st.integers(0, 5000)), draw(st.integers(1, 500))
    population = before + draws
    successes = draw(st.integers(0, population))
    k = draw(st.integers(max(0, draws - (population - successes)), min(draws, successes)))
    return k, population, successes, draws


@given(hypergeometric(), st.floats(0.01, 0.99))
def test_a_tail_is_that_of_the_hypergeometric_law(law: tuple[int, int, int, int], share: float) -> None:
    k, population, successes, draws = law
    tail, lower = log_tail(k, population, successes, draws, share)
    expected = rank(k, draws, (population - draws, successes - k), share)
    assert math.exp(tail) == pytest.approx(expected if lower else 1.0 - expected, rel=1e-6, abs=1e-12)


@given(hypergeometric())
def test_ranks_of_all_numbers_fill_the_unit_interval_without_gap_or_overlap(law: tuple[int, int, int, int]) -> None:
    """So a rank is uniform, exactly, if the share is."""
    _, population, successes, draws = law

    def place(k: int, share: float) -> float:
        tail, lower = log_tail(k, population, successes, draws, share)
        return math.exp(tail) if lower else 1.0 - math.exp(tail)

    numbers = range(max(0, draws - (population - successes)), min(draws, successes) + 1)
    assert place(numbers[0], 0.0) == pytest.approx(0.0, abs=1e-15)
    assert place(numbers[-1], 1.0) == pytest.approx(1.0)
    assert all(place(k, 1.0) == pytest.approx(place(next_k, 0.0), abs=1e-9) for k, next_k in pairwise(numbers))


def test_tails_keep_their_precision_where_probabilities_underflow() -> None:
    tail, lower = log_tail(60_000, 200_000, 110_000, 100_000, 0.5)
    # The exponent of a normal law: the number's standard deviation is 111.
    assert not lower
    assert tail == pytest.approx(-((60_000 - 55_000) ** 2) / 2 / 111.2**2, rel=0.01)


def test_draws_look_uniform_and_depend_on_series_step_and_group() -> None:
    draws = np.array(
        [[uniform(seed, end, g) for g in range(16)] for seed in (0, -5) for end in range(0, 60_000_000, 60_000)]
    )
    assert draws.mean() == pytest.approx(0.5, abs=0.005)
    assert np.histogram(draws, 16, (0, 1))[0] == pytest.approx(np.full(16, 2000), abs=200)
    assert np.abs(np.corrcoef(draws.T) - np.eye(16)).max() < 0.1
    assert abs(np.corrcoef(draws[:1000].ravel(), draws[1000:].ravel())[0, 1]) < 0.03


def steps_of(panel: list[Panel], begin: int = 0) -> Steps:
    return Steps.of(
        (60_000 * (begin + at + 1), GridTable.from_events([p for p, _ in events], [y for _, y in events]))
        for at, events in enumerate(panel)
    )


# Few different values, so that many are tied.
predictions = st.one_of(st.sampled_from([0.0, 0.02, 0.3, 0.31, 0.5, 0.97, 1.0]), st.floats(0, 1))
panels = st.lists(st.lists(st.tuples(predictions, st.sampled_from([-1, 0, 1])), max_size=40), min_size=1, max_size=12)


@given(panels, st.integers(1, 100), st.integers(-(2**63), 2**63 - 1), st.data())
def test_bets_are_equal_to_the_last_bit_however_steps_are_passed(
    panel: list[Panel], reference: int, seed: int, data: st.DataObject
) -> None:
    whole = ChangeBets(seed, reference).bet(steps_of(panel))
    cuts = sorted(data.draw(st.sets(st.integers(1, len(panel)))) | {len(panel)})
    detector, results = ChangeBets(seed, reference), []
    for begin, end in pairwise([0, *cuts]):
        results.append(detector.bet(steps_of(panel[begin:end], begin)))
        detector = ChangeBets.from_state(stored(detector.state()))
    np.testing.assert_array_equal(np.concatenate([bets.end_ms for bets in results]), whole.end_ms)
    np.testing.assert_array_equal(np.concatenate([bets.log_bets for bets in results]), whole.log_bets)


def test_bets_are_those_of_the_naive_reference() -> None:
    rng = np.random.default_rng(1)
    panel = [
        [(round(p, 2), int(rng.random() < p)) for p in rng.beta(1, 2, rng.integers(0, 60)).tolist()] for _ in range(60)
    ]
    detector = ChangeBets(7, 500)
    learnt = int(np.searchsorted(np.cumsum([len(events) for events in panel]), 500)) + 1
    bets = detector.bet(steps_of(panel))

    middles = middle_predictions()
    reference = [event for events in panel[:learnt] for event in events]
    cells = np.sort(grid.locate(np.array([p for p, _ in reference])))
    quantiles = [int(cells[math.ceil(len(cells) * g / 16) - 1]) + 1 for g in range(1, 16)]
    z = np.log(middles / (1 - middles))
    half_logit = np.clip(np.floor(2 * z + 1e-9), -34, 33)
    keys = [(half_logit[cell], sum(cell >= start for start in quantiles)) for cell in range(len(middles))]
    order = {key: g for g, key in enumerate(dict.fromkeys(keys))}
    logits = [float(np.mean([z[cell] for cell in range(len(middles)) if keys[cell] == key])) for key in order]
    centre = float(np.mean(z[cells]))

    def groups_of(events: Panel) -> list[Panel]:
        result: list[Panel] = [[] for _ in order]
        for p, y in events:
            cell = int(grid.locate(np.array([p]))[0])
            result[order[keys[cell]]].append((float(middles[cell]), y))
        return result

    before, block, rows = groups_of(reference), [], []
    for at, events in enumerate(panel[learnt:], learnt):
        block += events
        expected = sum(middles[grid.locate(np.array([p]))[0]] for p, _ in block)
        if min(expected, len(block) - expected) < change.BLOCK_SIZE:
            continue
        end_ms = 60_000 * (at + 1)
        counts = [(len(events), sum(y for _, y in events)) for events in before]
        groups = list(zip(counts, groups_of(block), [uniform(7, end_ms, g) for g in range(len(order))], strict=True))
        rows.append(
            (
                end_ms,
                log_bet((-0.4, *group) for group in groups),
                log_bet((0.3 * (at - centre), *group) for at, group in zip(logits, groups, strict=True)),
                log_bet((0.5 * (key[1] // 2 == 5), *group) for key, group in zip(order, groups, strict=True)),
            )
        )
        before = [old + new for old, new in zip(before, groups_of(block), strict=True)]
        block = []
    columns = [
        detector.names.index(name) for name in ("offset -0.4", "slope 1.3", "bump +0.5 in eighth 6 of the reference")
    ]
    assert len(rows) > 5
    np.testing.assert_array_equal(bets.end_ms, [row[0] for row in rows])
    np.testing.assert_allclose(bets.log_bets[:, columns], np.array(rows)[:, 1:], rtol=1e-6, atol=1e-9)
    assert bets.log_bets.shape[1] == len(detector.names) == len(set(detector.names))


def middle_predictions() -> Floats:
    return change._middle()


def alarms(scenario: Law, seed: int, events: int, run_length: float, reference: int = 20_000) -> list[int]:
    """Events before each alarm with one false alarm at most in so many events."""
    detector, panes, evidence = ChangeBets(seed, reference), Panes(), Evidence(0)
    threshold = run_length / (EVENTS_PER_HOUR * YEAR_MS / HOUR_MS)
    result: list[int] = []
    for part in parts(scenario, "balanced", seed, events):
        bets = detector.bet(panes.steps(part))
        result += [alarm.end_ms * EVENTS_PER_HOUR // HOUR_MS for alarm in evidence.update({"": {"": bets}}, threshold)]
    return result


def delay(scenario: Law, reference: int = 20_000) -> float:
    """Median number of events until an alarm, at a run length of 1e5 events, of a change after the reference."""
    first = [
        next(
            (
                at - reference - 2000
                for at in alarms(scenario, seed, reference + 52_000, 1e5, reference)
                if at > reference
            ),
            math.inf,
        )
        for seed in range(9)
    ]
    return float(np.median(first))


def test_a_stable_miscalibrated_model_is_within_the_bound() -> None:
    false = [len(alarms(ACCEPTED, seed, 120_000, 1e4)) for seed in range(12)]
    assert 0 < np.mean(false) <= 10.0


@pytest.mark.parametrize(
    ("changed", "expected"),
    [(Law(slope=1.3), 3_200), (Law(slope=1.15), 11_400), (Law(offset=0.25), 1_500)],
)
def test_a_change_of_a_miscalibrated_model_is_seen_as_soon_as_the_mathematics_says(changed: Law, expected: int) -> None:
    scenario = replace(changed, change_at=22_000, accepted_slope=1 / 1.5, accepted_offset=0.3)
    assert delay(scenario) <= 1.2 * expected


def test_a_small_reference_sees_offsets_and_no_slopes() -> None:
    accepted = Law(change_at=4_000, accepted_slope=1 / 1.5, accepted_offset=0.3)
    assert delay(replace(accepted, offset=0.25), 2_000) <= 6_000
    assert delay(replace(accepted, slope=1.15), 2_000) > 20_000


def test_without_a_whole_reference_there_are_no_bets() -> None:
    panel: list[Panel] = [[(0.2, 0), (0.7, 1), (0.4, -1)]] * 300
    detector = ChangeBets(0, 300)
    assert detector.bet(steps_of(panel[:149])).end_ms.size == 0
    assert detector.bet(steps_of(panel[149:150], 149)).log_bets.shape == (0, 34)
    # Of two predictions, 0.9 positive events are expected.
    assert detector.bet(steps_of(panel[150:], 150)).end_ms.tolist() == [
        60_000 * (150 + at) for at in (36, 72, 108, 144)
    ]


def test_an_empty_reference_is_refused() -> None:
    with pytest.raises(SettingsError, match="reference_events must be at least 1, got 0"):
        ChangeBets(0, 0)
