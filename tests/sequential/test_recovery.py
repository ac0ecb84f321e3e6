"""An alarm is over when the data have turned against every alternative that spoke for it."""

import itertools

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from monitor.sequential.detector import Bets
from monitor.sequential.evidence import Alarm, SeriesEvidence
from monitor.sequential.recovery import Recovery
from tests.reference.naive_sequential import recovery
from tests.sequential.stored import stored

ALARM = Alarm(
    0,
    2.0,
    1.0,
    {
        "whole": {"": SeriesEvidence(1.0, 9.0, -100, (1,))},
        "segments": {"a": SeriesEvidence(9.0, 20.0, -70, (2, 0)), "b": SeriesEvidence(0.1, 3.0, -20, (0, 1, 2))},
    },
)


def bets(log_bets: list[list[float]]) -> Bets:
    return Bets(10 * np.arange(1, len(log_bets) + 1), np.array(log_bets))


def test_the_series_that_spoke_most_for_the_alarm_is_asked() -> None:
    found = Recovery.of(ALARM)
    assert (found.group, found.series, found.alternatives.tolist()) == ("segments", "a", [2, 0])


def test_every_alternative_must_lose() -> None:
    only_one = bets([[1.0, -20.0, -20.0]] * 3)
    assert Recovery.of(ALARM).update(only_one) is None
    both = bets([[-5.0, 9.0, -20.0]] * 3)
    assert Recovery.of(ALARM).update(both) == 30
    assert Recovery.of(ALARM, margin=5.0).update(both) == 10


def test_an_alarm_that_no_alternative_speaks_for_is_over_at_the_next_step() -> None:
    """Stakes alone have reached a threshold that is low beside the time between steps."""
    alarm = Alarm(0, 2.0, 1.0, {"whole": {"": SeriesEvidence(2.0, 0.0, 0, ())}})
    assert Recovery.of(alarm).update(bets([[3.0, 3.0, 3.0]])) == 10


@settings(deadline=None)
@given(
    st.lists(st.lists(st.integers(-8, 4), min_size=3, max_size=3), min_size=1, max_size=15),
    st.lists(st.integers(0, 15), max_size=4),
)
def test_it_is_that_of_the_definition_in_parts_and_over_states(rows: list[list[int]], cuts: list[int]) -> None:
    log_bets = [[value / 4 for value in row] for row in rows]
    whole = bets(log_bets)
    step = recovery(log_bets, (2, 0), 4.0)
    expected = None if step is None else 10 * (step + 1)
    assert Recovery.of(ALARM, 4.0).update(whole) == expected
    part, over = Recovery.of(ALARM, 4.0), None
    for start, stop in itertools.pairwise([0, *sorted(cuts), len(rows)]):
        part = Recovery.from_state(stored(part.state()))
        over = part.update(Bets(whole.end_ms[start:stop], whole.log_bets[start:stop]))
        if over is not None:
            break
    assert over == expected
