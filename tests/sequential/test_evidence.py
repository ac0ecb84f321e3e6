"""Evidence: the process of the papers, and the same to the last bit in one go or in parts."""

import itertools
import math
from collections.abc import Mapping
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from monitor.arrays import Bools, Floats
from monitor.errors import InputError
from monitor.sequential.detector import Bets
from monitor.sequential.evidence import YEAR_MS, Alarm, Evidence
from tests.reference.naive_sequential import average_evidence, latest_rise, shiryaev_roberts
from tests.sequential.stored import stored

HUGE = 1e300

Series = Mapping[str, Mapping[str, Bets]]


def bets(log_bets: Floats, end_ms: list[int] | None = None) -> Bets:
    ends = np.arange(1, log_bets.shape[0] + 1) * 1000 if end_ms is None else np.array(end_ms, np.int64)
    return Bets(ends, log_bets)


def rows(part: Bets, kept: Bools) -> Bets:
    return Bets(part.end_ms[kept], part.log_bets[kept])


def between(series: Series, after: int, to: int) -> Series:
    """The bets of steps that end after one time and not after another."""
    return {
        group: {name: rows(part, (part.end_ms > after) & (part.end_ms <= to)) for name, part in members.items()}
        for group, members in series.items()
    }


def test_one_alternative_is_shiryaev_roberts_with_weights_of_time() -> None:
    factors = [Fraction(3, 2), Fraction(1, 4), Fraction(5, 1), Fraction(7, 8)]
    ends = [YEAR_MS // 10, YEAR_MS // 4, YEAR_MS // 2, 2 * YEAR_MS]
    weights = [Fraction(b - a, YEAR_MS) for a, b in zip([0, *ends], ends, strict=False)]
    evidence = Evidence(0)
    for end, factor, value in zip(ends, factors, shiryaev_roberts(weights, factors), strict=True):
        evidence.update({"whole": {"": bets(np.log([[float(factor)]]), [end])}}, HUGE)
        assert evidence.value == pytest.approx(float(value), rel=1e-14)


def test_groups_have_equal_weights_and_so_have_their_series() -> None:
    end = [YEAR_MS]
    evidence = Evidence(0)
    factor = {"whole": {"": 2.0}, "segments": {"a": 3.0, "b": 5.0, "c": 10.0}}
    evidence.update({g: {s: bets(np.log([[f, 1.0]]), end) for s, f in m.items()} for g, m in factor.items()}, HUGE)
    assert evidence.value == pytest.approx((1.5 + (2 + 3 + 5.5) / 3) / 2)
    contributions = evidence.groups()
    assert contributions["segments"]["b"].evidence == pytest.approx(3.0)
    assert contributions["segments"]["b"].score == pytest.approx(math.log(5))
    assert contributions["segments"]["b"].alternatives == (0,)


def test_a_series_that_comes_later_starts_at_0_and_takes_weight_from_the_others() -> None:
    year = [[0.5]]
    evidence = Evidence(0)
    evidence.update({"segments": {"a": bets(np.array(year), [YEAR_MS])}}, HUGE)
    before = evidence.value
    later = {"segments": {"a": bets(np.array(year), [2 * YEAR_MS]), "b": bets(np.array(year), [2 * YEAR_MS])}}
    evidence.update(later, HUGE)
    e = math.exp(0.5)
    assert evidence.value == pytest.approx(((before + 1) * e + e) / 2)


def test_an_alarm_says_where_it_comes_from_and_the_evidence_starts_again_at_0() -> None:
    log_bets = np.full((6, 3), -0.2)
    log_bets[2:, 1] = 5.0
    evidence = Evidence(0)
    alarms = evidence.update({"whole": {"": bets(log_bets)}}, 0.01)
    assert [alarm.end_ms for alarm in alarms] == [5000]
    assert alarms[0].evidence >= alarms[0].threshold == 0.01
    contribution = alarms[0].groups["whole"][""]
    assert (contribution.alternatives, contribution.since_ms) == ((1,), 2000)
    assert contribution.score == pytest.approx(15.0)
    again = Evidence(5000)
    again.update({"whole": {"": bets(log_bets[5:], [6000])}}, 0.01)
    assert evidence.value == again.value


def test_the_data_speak_for_alternatives_with_at_least_half_of_the_largest_gain() -> None:
    evidence = Evidence(0)
    evidence.update({"whole": {"": bets(np.array([[1.0, 4.0, 2.0, -1.0, 1.9, 3.0]]))}}, HUGE)
    assert evidence.groups()["whole"][""].alternatives == (1, 5, 2)
    evidence.update({"whole": {"": bets(np.full((1, 6), -9.0), [2000])}}, HUGE)
    assert evidence.groups()["whole"][""].alternatives == ()


def test_a_threshold_does_not_fall_until_the_evidence_starts_again() -> None:
    evidence = Evidence(0)
    one = {"whole": {"": bets(np.array([[0.0]]), [1])}}
    evidence.update(one, 10.0)
    evidence.update({"whole": {"": bets(np.array([[0.1]]), [YEAR_MS])}}, 0.5)
    assert evidence.threshold == 10.0
    alarms = evidence.update({"whole": {"": bets(np.array([[3.0]]), [YEAR_MS + 1])}}, 0.5)
    assert [alarm.threshold for alarm in alarms] == [10.0]
    assert evidence.threshold == 0.5


def test_bets_that_do_not_fit_a_float_are_cut_off() -> None:
    evidence = Evidence(0)
    evidence.update({"whole": {"": bets(np.array([[1e4], [1e4], [-1e4], [2.0]]))}}, math.inf)
    assert math.isfinite(evidence.value)
    assert evidence.value == pytest.approx(1000 / YEAR_MS * math.exp(2.0))


def test_steps_that_were_added_before_are_refused() -> None:
    evidence = Evidence(0)
    series = {"whole": {"": bets(np.ones((3, 1)))}}
    evidence.update(series, HUGE)
    with pytest.raises(InputError, match="steps must end after 3000 ms, where evidence is, got 1000"):
        evidence.update(series, HUGE)


FACTORS = [Fraction(1, 4), Fraction(1, 2), Fraction(3, 2), Fraction(2), Fraction(9)]


@settings(deadline=None)
@given(st.integers(0, 10**6))
def test_the_average_over_series_is_that_of_the_definition(seed: int) -> None:
    rng = np.random.default_rng(seed)
    keys = [("whole", ""), ("segments", "a"), ("segments", "b"), ("segments", "c")]
    ends = np.cumsum(rng.integers(1, 4, 15)) * 600_000
    steps = []
    columns: dict[tuple[str, str], tuple[list[int], list[list[Fraction]]]] = {key: ([], []) for key in keys}
    for end in ends.tolist():
        factors = {key: [FACTORS[k] for k in rng.integers(0, 5, 2)] for key in keys if rng.random() < 0.4}
        if factors:
            steps.append((end, factors))
        for key, e in factors.items():
            columns[key][0].append(end)
            columns[key][1].append(e)
    threshold = Fraction(1, 3000)
    alarms, value = average_evidence(steps, 0, YEAR_MS, threshold)
    series: dict[str, dict[str, Bets]] = {}
    for (group, name), (end_ms, e) in columns.items():
        log_bets = np.log(np.array(e, np.float64).reshape(-1, 2))
        series.setdefault(group, {})[name] = bets(log_bets, end_ms)
    evidence = Evidence(0)
    found = evidence.update(series, float(threshold))
    assert [alarm.end_ms for alarm in found] == alarms
    assert evidence.value == pytest.approx(float(value), rel=1e-9)


def random_series(seed: int) -> Series:
    """Series with gaps, a segment that comes late, and bets that are large now and then."""
    rng = np.random.default_rng(seed)

    def one(start: int, share: float) -> Bets:
        kept = np.flatnonzero(rng.random(40) < share) + 1
        kept = kept[kept > start]
        log_bets = rng.normal(0, 1.5, (kept.size, 5)) * (rng.random((kept.size, 1)) < 0.8)
        return Bets(kept * 600_000, log_bets)

    return {"whole": {"": one(0, 0.9)}, "segments": {"a": one(0, 0.5), "b": one(11, 0.6), "c": one(20, 0.1)}}


@settings(deadline=None)
@given(st.integers(0, 10**6), st.lists(st.integers(1, 40), max_size=6))
def test_batches_states_and_empty_steps_change_nothing(seed: int, cuts: list[int]) -> None:
    series = random_series(seed)
    whole, parts = Evidence(0), Evidence(0)
    threshold = 3e-4
    expected = whole.update(series, threshold)
    alarms: list[Alarm] = []
    ends = [0, *sorted(cut * 600_000 for cut in cuts), 41 * 600_000]
    for after, to in itertools.pairwise(ends):
        alarms += parts.update(between(series, after, to), threshold)
        parts = Evidence.from_state(stored(parts.state()))
    filled = Evidence(0)
    with_bets = {
        group: {name: rows(part, (part.log_bets != 0.0).any(axis=1)) for name, part in members.items()}
        for group, members in series.items()
    }
    assert filled.update(with_bets, threshold) == expected
    assert alarms == expected
    for other in (parts, filled):
        for name, value in whole.state().items():
            np.testing.assert_array_equal(np.asarray(other.state()[name]), np.asarray(value))


@settings(deadline=None)
@given(st.lists(st.integers(-8, 8).filter(bool), min_size=1, max_size=12))
def test_the_largest_rise_is_that_over_all_starts(values: list[int]) -> None:
    evidence = Evidence(0)
    evidence.update({"whole": {"": bets(np.array(values, np.float64)[:, None] / 4)}}, HUGE)
    ends = [1000 * (at + 1) for at in range(len(values))]
    contribution = evidence.groups()["whole"][""]
    assert (contribution.score, contribution.since_ms) == latest_rise([v / 4 for v in values], ends, 0)
