"""Alarms are raised, raised again and over, the same in one go or in parts."""

import itertools

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from monitor.sequential.detector import Bets
from monitor.sequential.evidence import YEAR_MS
from monitor.sequential.recovery import MARGIN
from monitor.sequential.watch import SOON_MS, AlarmEvent, Watch
from tests.sequential.stored import stored

DAY_MS = 86_400_000
THRESHOLD = DAY_MS / YEAR_MS


def kinds(events: list[AlarmEvent]) -> list[tuple[str, int]]:
    return [(event.kind, event.end_ms) for event in events]


def bets(log_bets: list[float], step_ms: int = DAY_MS, start_ms: int = 0) -> Bets:
    ends = start_ms + step_ms * np.arange(1, len(log_bets) + 1)
    return Bets(ends, np.array(log_bets, np.float64)[:, None])


def test_an_alarm_is_raised_again_while_it_fires_and_over_once_it_has_lost_its_margin() -> None:
    watch = Watch(0)
    log_bets = [-1.0, 2.0, -3.0, -3.0, 2.0, -5.0, -5.0, -5.0, -1.0]
    events = watch.update({"whole": {"": bets(log_bets)}}, THRESHOLD)
    day = DAY_MS
    assert kinds(events) == [("raised", 2 * day), ("raised again", 5 * day), ("over", 8 * day)]
    assert events[0].alarm is not None
    assert events[0].alarm.groups["whole"][""].score == 2.0
    assert not watch.firing


def test_an_alarm_that_comes_back_soon_needs_twice_the_margin() -> None:
    once = [2.0, *([-MARGIN / 4] * 4)]
    soon, late = Watch(0), Watch(0)
    soon.update({"whole": {"": bets(once)}}, THRESHOLD)
    late.update({"whole": {"": bets(once)}}, THRESHOLD)
    start = 5 * DAY_MS
    again = soon.update({"whole": {"": bets([2.0, *([-MARGIN / 4] * 8)], start_ms=start)}}, THRESHOLD)
    assert kinds(again) == [("raised", 6 * DAY_MS), ("over", 14 * DAY_MS)]
    start += SOON_MS
    again = late.update({"whole": {"": bets([2.0, *([-MARGIN / 4] * 8)], start_ms=start)}}, THRESHOLD)
    assert kinds(again) == [("raised", start + DAY_MS), ("over", start + 5 * DAY_MS)]


def test_only_the_series_of_the_alarm_ends_it() -> None:
    watch = Watch(0)
    watch.update({"whole": {"": bets([0.1])}, "segments": {"a": bets([9.0])}}, THRESHOLD)
    assert watch.firing
    assert watch.update({"whole": {"": bets([-99.0], start_ms=DAY_MS)}}, THRESHOLD) == []
    over = watch.update({"segments": {"a": bets([-99.0], start_ms=2 * DAY_MS)}}, THRESHOLD)
    assert kinds(over) == [("over", 3 * DAY_MS)]


def moving(seed: int) -> Bets:
    """Bets that gain for a while, then lose for a while."""
    rng = np.random.default_rng(seed)
    drift = np.repeat(rng.choice([-1.5, 1.5], 8), 8)[:, None] * np.array([1.0, 0.5])
    return Bets(DAY_MS * np.arange(1, 65), rng.normal(drift, 1.0))


@settings(deadline=None)
@given(st.integers(0, 10**6), st.lists(st.integers(1, 64), max_size=6))
def test_batches_and_states_change_nothing(seed: int, cuts: list[int]) -> None:
    series = {"whole": {"": moving(seed)}, "segments": {"a": moving(seed + 1)}}
    whole, parts = Watch(0), Watch(0)
    expected = whole.update(series, THRESHOLD)
    events = []
    for start, stop in itertools.pairwise([0, *sorted(cuts), 64]):
        part = {
            group: {name: Bets(one.end_ms[start:stop], one.log_bets[start:stop]) for name, one in members.items()}
            for group, members in series.items()
        }
        events += parts.update(part, THRESHOLD)
        parts = Watch.from_state(stored(parts.state()))
    assert events == expected
    assert parts.state().keys() == whole.state().keys()
    for name, value in whole.state().items():
        np.testing.assert_array_equal(np.asarray(parts.state()[name]), np.asarray(value))
