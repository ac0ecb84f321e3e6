"""Bets that outcomes changed: fair whatever the numbers, silent about a stable miscalibrated model."""

import math
from dataclasses import replace
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import expit, logit, ndtri
from scipy.stats import hypergeom

from monitor.arrays import Floats
from monitor.errors import SettingsError
from monitor.scores import GridTable, grid
from monitor.scores.steps import Steps
from monitor.sequential import change
from monitor.sequential.alternatives import certainty, middle_logits
from monitor.sequential.change import ChangeBets
from monitor.sequential.change_loops import log_tail, uniform
from monitor.sequential.evidence import YEAR_MS, Evidence
from monitor.simulation.generator import HOUR_MS, Law
from tests.alarms_benchmark.streams import EVENTS_PER_HOUR, Panes, parts
from tests.reference.naive_change_bets import NaiveGroup, log_bet, pilot_offsets, rank
from tests.sequential.stored import stored

ACCEPTED = Law(accepted_slope=1 / 1.5, accepted_offset=0.3)

Panel = list[tuple[float, int]]
"""Predictions and outcomes of a step."""


class Drawn(NamedTuple):
    """Events before a block and in it, by the logits of their predictions, and their positive ones."""

    before: tuple[Floats, Floats]
    """How many events have which logit."""
    block: tuple[Floats, Floats]
    positives: int
    k: int
    """Of the block."""

    def log_tail(self, share: float, k: int | None = None) -> tuple[float, bool]:
        sides = np.zeros((2, 2, max(self.before[0].size, self.block[0].size)))
        for side, (counts, logits) in zip(sides, (self.block, self.before), strict=True):
            side[:, : counts.size] = counts, logits
        tail, lower, _ = log_tail(self.k if k is None else k, self.positives, sides, 0.0, share)
        return tail, lower


@st.composite
def draws(draw: st.DrawFn, most: int = 400) -> Drawn:
    """Few logits, around one that may be far from 0, so that events are rare, and so are those that are not."""
    centre, sides = draw(st.floats(-8, 8)), []
    for least in (0, 1):
        counts = draw(st.lists(st.integers(0, most), min_size=1, max_size=4))
        counts[0] = max(counts[0], least)
        logits = draw(st.lists(st.floats(-0.3, 0.3), min_size=len(counts), max_size=len(counts)))
        sides.append((np.array(counts, np.float64), centre + np.array(logits)))
    offset, draw_seed = draw(st.floats(-3, 3)), draw(st.integers(0, 2**32 - 1))
    rng = np.random.default_rng(draw_seed)
    before, now = (int(rng.binomial(counts.astype(int), expit(logit + offset)).sum()) for counts, logit in sides)
    return Drawn(sides[0], sides[1], before + now, now)


@given(draws(), st.floats(0.01, 0.99))
def test_a_tail_is_that_of_the_noncentral_hypergeometric_law(law: Drawn, share: float) -> None:
    tail, lower = law.log_tail(share)
    before, block = (np.repeat(logit, counts.astype(int)).tolist() for counts, logit in (law.before, law.block))
    expected = rank(law.k, law.positives, before, block, share)
    assert math.exp(tail) == pytest.approx(expected if lower else 1.0 - expected, rel=1e-4, abs=1e-12)


@given(st.integers(0, 5000), st.integers(1, 500), st.floats(-6, 6), st.data())
def test_equal_predictions_have_the_hypergeometric_law_whatever_they_are(
    before: int, block: int, logit: float, data: st.DataObject
) -> None:
    positives = data.draw(st.integers(0, before + block))
    k = data.draw(st.integers(max(0, positives - before), min(block, positives)))
    at = np.array([logit])
    sides = (np.array([float(before)]), at), (np.array([float(block)]), at)
    tail, lower = Drawn(*sides, positives, k).log_tail(0.5)
    law = hypergeom(before + block, positives, block)
    expected = law.cdf(k - 1) if lower else law.sf(k)
    assert math.exp(tail) == pytest.approx(expected + 0.5 * law.pmf(k), rel=1e-4, abs=1e-12)


@given(draws())
def test_ranks_of_all_numbers_fill_the_unit_interval_without_gap_or_overlap(law: Drawn) -> None:
    """So a rank is uniform if the share is."""

    def place(k: int, share: float) -> float:
        tail, lower = law.log_tail(share, k)
        return math.exp(tail) if lower else 1.0 - math.exp(tail)

    (before, _), (block, _) = law.before, law.block
    numbers = range(max(0, law.positives - int(before.sum())), min(int(block.sum()), law.positives) + 1)
    assert place(numbers[0], 0.0) == pytest.approx(0.0, abs=1e-15)
    assert place(numbers[-1], 1.0) == pytest.approx(1.0)
    near = [k for k in numbers if abs(k - law.k) <= 8]
    # Far from the mean, weights are approximated in another range.
    assert all(place(k, 1.0) == pytest.approx(place(next_k, 0.0), abs=1e-6) for k, next_k in pairwise(near))


def test_tails_keep_their_precision_where_probabilities_underflow() -> None:
    at = np.array([0.2])
    law = Drawn((np.array([100_000.0]), at), (np.array([100_000.0]), at), 110_000, 60_000)
    tail, lower = law.log_tail(0.5)
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
    ends = np.cumsum([len(events) for events in panel])
    pilot_steps, learnt = (int(np.searchsorted(ends, most)) + 1 for most in (50, 500))
    bets = detector.bet(steps_of(panel))

    wide = np.searchsorted(grid.wide_edges(), grid.edges(), side="right") - 1
    middles = middle_logits()
    seen = [event for events in panel[:learnt] for event in events]
    cells = np.sort(grid.locate(np.array([p for p, _ in seen])))
    quantiles = [int(wide[cells[math.ceil(len(cells) * g / 16) - 1]]) + 1 for g in range(1, 16)]
    cuts = {int(wide[np.flatnonzero(middles >= at)[0]]) for at in np.arange(-16.5, 17.0, 0.5)}
    starts = sorted({0, *cuts, *(q for q in quantiles if q <= wide[-1])})
    # The group of each bin, and of each group its sixteenth and mean logit.
    group = [sum(start <= one for start in starts) - 1 for one in range(wide[-1] + 1)]
    sixteenths = [sum(start >= q for q in quantiles) for start in starts]
    logits = [float(np.mean(middles[np.array(group)[wide] == g])) for g in range(len(starts))]
    centre = float(np.mean(middles[cells]))

    def split(events: Panel) -> list[tuple[list[float], int]]:
        """Logits and positive events of each group; predictions of a wide cell are taken for their mean."""
        result: list[tuple[list[float], int]] = [([], 0) for _ in starts]
        places = [int(wide[grid.locate(np.array([p]))[0]]) for p, _ in events]
        for place in sorted(set(places)):
            inside = [event for event, one in zip(events, places, strict=True) if one == place]
            mean = float(logit(np.mean([np.clip(p, *certainty()) for p, _ in inside])))
            of_group, positives = result[group[place]]
            result[group[place]] = (of_group + [mean] * len(inside), positives + sum(y for _, y in inside))
        return result

    pilot = [event for events in panel[:pilot_steps] for event in events]
    offsets = pilot_offsets(split(pilot)).tolist()
    before, block, rows = seen[len(pilot) :], [], []
    for at, events in enumerate(panel[learnt:], learnt):
        block += events
        places = [int(wide[grid.locate(np.array([p]))[0]]) for p, _ in block]
        rates = [float(expit(np.mean(middles[wide == one]) + offsets[group[one]])) for one in places]
        if sum(rate * (1.0 - rate) for rate in rates) < change.INFORMATION or len(block) < change.MIN_EVENTS:
            continue
        end_ms = 60_000 * (at + 1)
        of_groups = list(zip(offsets, split(before), split(block), strict=True))

        def gain(shifts: list[float], of_groups: Any = of_groups, end_ms: int = end_ms) -> float:
            return log_bet(
                NaiveGroup(shift, offset, earlier[0], now[0], earlier[1], now[1], uniform(7, end_ms, g))
                for g, (shift, (offset, earlier, now)) in enumerate(zip(shifts, of_groups, strict=True))
            )

        rows.append(
            (
                end_ms,
                gain([-0.4] * len(starts)),
                gain([0.3 * (one - centre) for one in logits]),
                gain([0.5 * (sixteenth // 2 == 5) for sixteenth in sixteenths]),
            )
        )
        before += block
        block = []
    columns = [
        detector.names.index(name) for name in ("offset -0.4", "slope 1.3", "bump +0.5 in eighth 6 of the reference")
    ]
    assert len(rows) > 5
    np.testing.assert_array_equal(bets.end_ms, [row[0] for row in rows])
    np.testing.assert_allclose(bets.log_bets[:, columns], np.array(rows)[:, 1:], rtol=1e-4, atol=1e-5)
    assert bets.log_bets.shape[1] == len(detector.names) == len(set(detector.names))


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


def moving(seed: int, hours: int, spread: float, slope: float = 1.0) -> Steps:
    """Each hour's predictions come from a window of 2% to 50% of all."""
    rng, tables = np.random.default_rng(seed), []
    for hour in range(hours):
        width = rng.uniform(0.02, 0.5)
        lower = rng.uniform(0.0, 1.0 - width)
        z = spread * ndtri(rng.uniform(lower, lower + width, EVENTS_PER_HOUR))
        outcomes = rng.random(z.size) < expit(slope * z)
        tables.append(((hour + 1) * HOUR_MS, GridTable.from_events(expit(z), outcomes)))
    return Steps.of(tables)


@pytest.mark.parametrize(("spread", "slope"), [(1.5, 1.0), (0.3, 1.0), (1.5, 1 / 1.5)])
def test_predictions_that_move_inside_their_groups_are_no_change(spread: float, slope: float) -> None:
    """Outcomes that are exchangeable within a group raised 101 alarms in 10 of these streams of spread .3."""
    false = 0
    for seed in range(4):
        evidence = Evidence(0)
        bets = {"": {"": ChangeBets(seed).bet(moving(seed, 60, spread, slope))}}
        false += len(evidence.update(bets, 1e5 / (EVENTS_PER_HOUR * YEAR_MS / HOUR_MS)))
    assert false <= 4 * 60 * EVENTS_PER_HOUR / 1e5


def test_a_change_of_a_model_far_from_its_rates_is_seen() -> None:
    """Its rates are those of a slope of 3: by predictions alone, numbers would spread twice as far."""
    assert delay(Law(slope=1.3, change_at=22_000, accepted_slope=3.0)) <= 4_000


def test_predictions_of_one_are_watched_at_the_rate_at_which_they_fail() -> None:
    rng = np.random.default_rng(3)

    def steps(first: int, count: int, wrong: float) -> Steps:
        return Steps.of(
            (60_000 * (first + at + 1), GridTable.from_events(np.ones(200), rng.random(200) >= wrong))
            for at in range(count)
        )

    detector = ChangeBets(0, 4_000)
    offset = detector.names.index("offset -0.4")
    before = detector.bet(steps(0, 60, 0.09)).log_bets[:, offset]
    after = detector.bet(steps(60, 40, 0.13)).log_bets[:, offset]
    assert before.sum() < 0.0
    assert after.sum() > 5.0


def test_a_small_reference_sees_offsets_and_no_slopes() -> None:
    accepted = Law(change_at=4_000, accepted_slope=1 / 1.5, accepted_offset=0.3)
    assert delay(replace(accepted, offset=0.25), 2_000) <= 6_000
    assert delay(replace(accepted, slope=1.15), 2_000) > 20_000


def test_without_a_whole_reference_there_are_no_bets() -> None:
    panel: list[Panel] = [[(0.2, 0), (0.7, 1), (0.4, -1)]] * 300
    detector = ChangeBets(0, 300)
    assert detector.bet(steps_of(panel[:149])).end_ms.size == 0
    assert detector.bet(steps_of(panel[149:150], 149)).log_bets.shape == (0, 34)
    # Two events a step, whose information is enough long before.
    assert detector.bet(steps_of(panel[150:], 150)).end_ms.tolist() == [60_000 * (150 + at) for at in (64, 128)]


def test_blocks_of_rare_events_hold_as_much_information_as_others() -> None:
    """At a prevalence of 1% they have 1,200 events; 64 positive ones are 6,400, in which a large change is over."""
    panel: list[Panel] = [[(0.01, int(at % 5 == 0))] * 20 for at in range(500)]
    detector = ChangeBets(0, 4_000)
    detector.bet(steps_of([[(0.01, 0)] * 99 + [(0.01, 1)]] * 40))
    ends = detector.bet(steps_of(panel, 40)).end_ms // 60_000 - 40
    assert set(np.diff([0, *ends]).tolist()) <= {60, 61, 62}


def test_an_empty_reference_is_refused() -> None:
    with pytest.raises(SettingsError, match="reference_events must be at least 1, got 0"):
        ChangeBets(0, 0)
