"""The rule of a full sample: as obvious loops tell it, in any order, from any parts, by any tree of merges."""

import itertools
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from monitor.store.bottom_sample_loops import EDGES, keep_fewest, thresholds
from tests.reference.naive_sample import keep

# (stratum, hash): few strata and small hashes, so that ties and empty strata are common.
EVENTS = st.lists(st.tuples(st.integers(0, 5), st.integers(0, 30)), max_size=60)
SKEWED = st.lists(st.tuples(st.sampled_from([0] * 20 + [1, 2, 40]), st.integers(0, 2**64 - 1)), max_size=120)
Event = tuple[int, int]


def kept(events: list[Event], capacity: int) -> list[Event]:
    stratum = np.array([stratum for stratum, _ in events], np.int32)
    high = np.array([high for _, high in events], np.uint64)
    return [events[at] for at in keep_fewest(stratum, capacity, high)]


def naive(events: list[Event], capacity: int) -> list[Event]:
    return keep(events, capacity, lambda event: event[0], lambda event: event[1])


def hashes(events: list[Event]) -> list[tuple[int, int]]:
    return sorted(events)


@given(events=st.one_of(EVENTS, SKEWED), capacity=st.integers(1, 40))
def test_it_keeps_the_first_of_each_stratum_then_the_second(events: list[Event], capacity: int) -> None:
    unique = list(dict(zip([event[1] for event in events], events, strict=True)).values())
    assert kept(unique, capacity) == naive(unique, capacity)


@given(
    events=SKEWED,
    capacity=st.integers(1, 40),
    cuts=st.lists(st.integers(0, 120), max_size=5),
    seed=st.integers(0, 2**32 - 1),
)
def test_any_order_any_parts_and_any_tree_give_the_same(
    events: list[Event], capacity: int, cuts: list[int], seed: int
) -> None:
    unique = list(dict(zip([event[1] for event in events], events, strict=True)).values())
    rng = np.random.default_rng(seed)
    shuffled = [unique[at] for at in rng.permutation(len(unique))]
    edges = [0, *sorted(min(cut, len(unique)) for cut in cuts), len(unique)]
    parts = [kept(shuffled[a:b], capacity) for a, b in itertools.pairwise(edges)]
    while len(parts) > 1:
        one, other = (parts.pop(int(rng.integers(len(parts)))) for _ in range(2))
        parts.append(kept(one + other, capacity))
    assert hashes(parts[0]) == hashes(kept(unique, capacity))


@given(events=SKEWED, more=SKEWED, capacity=st.integers(1, 30))
def test_a_threshold_turns_away_nothing_that_would_be_kept(
    events: list[Event], more: list[Event], capacity: int
) -> None:
    first = kept(list({event[1]: event for event in events}.values()), capacity)
    limit = thresholds(
        np.array([stratum for stratum, _ in first], np.int32),
        np.array([high for _, high in first], np.uint64),
        capacity,
    )
    known = {high for _, high in first}
    new = [event for event in {event[1]: event for event in more}.values() if event[1] not in known]
    let_in = [event for event in new if event[0] >= limit.size or event[1] <= limit[event[0]]]
    assert kept(first + let_in, capacity) == kept(first + new, capacity)


def test_a_full_sample_turns_nearly_all_away() -> None:
    rng = np.random.default_rng(1)
    stratum, high = rng.integers(0, 16, 100_000).astype(np.int32), rng.integers(0, 2**64, 100_000, np.uint64)
    first = keep_fewest(stratum[:50_000], 160, high[:50_000])
    limit = thresholds(stratum[first], high[first], 160)
    let_in = np.count_nonzero(high[50_000:] <= limit[stratum[50_000:]])
    assert 0 < let_in < 3 * 160


def test_a_rare_stratum_is_kept_whole() -> None:
    rng = np.random.default_rng(2)
    stratum = np.where(np.arange(10_000) % 1_000 == 0, 3, 0).astype(np.int32)
    found = keep_fewest(stratum, 100, rng.random(10_000))
    assert np.bincount(stratum[found]).tolist() == [90, 0, 0, 10]


def test_of_more_strata_than_there_is_room_no_number_is_preferred() -> None:
    rng = np.random.default_rng(4)
    stratum = np.arange(1_000, dtype=np.int32)
    found = stratum[keep_fewest(stratum, 100, rng.random(1_000))]
    assert 40 <= np.count_nonzero(found < 500) <= 60


def test_edges_are_logits() -> None:
    assert tuple(round(1 / (1 + math.exp(-logit)), 6) for logit in range(-7, 8)) == EDGES
    assert len(EDGES) + 1 == 16


@pytest.mark.parametrize("capacity", [1, 5])
def test_of_nothing_nothing_is_kept(capacity: int) -> None:
    empty = np.empty(0, np.int32)
    assert keep_fewest(empty, capacity, np.empty(0, np.uint64)).size == 0
    assert thresholds(empty, np.empty(0, np.uint64), capacity).size == 0
