"""Closed samples are values: they add in any order, and their bytes are read or refused."""

import itertools

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from monitor.errors import DamagedStore
from monitor.store import closed_samples as arrow
from monitor.store.closed_samples import SCHEMA, ClosedSample
from monitor.stream.sample_candidates import SCHEMA as CANDIDATES
from monitor.stream.sample_candidates import Candidates
from tests.reference.naive_sample import naive_closed
from tests.store.drawn_samples import closed, random_rows, row


@settings(max_examples=40)
@given(cuts=st.lists(st.integers(0, 90), max_size=4), capacity=st.integers(1, 60), seed=st.integers(0, 99))
def test_parts_add_to_the_whole_in_any_order(cuts: list[int], capacity: int, seed: int) -> None:
    rows = random_rows(90, seed)
    edges = [0, *sorted(cuts), 90]
    parts = [closed(rows[a:b], capacity) for a, b in itertools.pairwise(edges)]
    rng = np.random.default_rng(seed)
    while len(parts) > 1:
        one, other = (parts.pop(int(rng.integers(len(parts)))) for _ in range(2))
        parts.append(ClosedSample.sum([one, other]))
    assert parts[0] == closed(rows, capacity)
    assert naive_closed(parts[0]) == naive_closed(closed(rows, capacity))
    assert len(parts[0]) == min(capacity, 90)


def test_of_two_capacities_the_smaller_holds() -> None:
    rows = random_rows(60, 1)
    assert ClosedSample.sum([closed(rows[:30], 10), closed(rows[30:], 50)]) == closed(rows, 10)


def test_it_comes_back_from_its_bytes_and_equal_ones_have_equal_bytes() -> None:
    rows = [*random_rows(20, 3), row(7, features=None), row(8, prediction=[0.25, 0.5, 0.25], outcome=2, features=[])]
    sample = closed(rows, 15)
    again = ClosedSample.from_bytes(sample.to_bytes())
    assert again == sample
    assert hash(again) == hash(sample)
    assert naive_closed(again) == naive_closed(sample)
    assert again.to_bytes() == closed(rows[::-1], 15).to_bytes()
    assert sample != closed(rows, 14)


def test_a_weight_is_how_many_of_its_stratum_an_event_stands_for() -> None:
    sample = closed([*(row(at, p=0.3) for at in range(1, 31)), *(row(at, p=0.6) for at in range(31, 35))], 14)
    weight = sample.raw_weights()
    strata = np.array([event.confidence for event in naive_closed(sample).events])
    assert weight[strata == 7].tolist() == [3.0] * 10
    assert weight[strata == 8].tolist() == [1.0] * 4


def damaged(what: str) -> bytes:
    good = closed(random_rows(5, 1))
    table = good.table
    header = {"capacity": 5, "labelled": []}
    match what:
        case "bytes":
            return good.to_bytes()[:-30]
        case "format":
            return arrow.encode(table, "events", {**header, "format": 2})
        case "kind":
            return arrow.encode(table, "candidates", header)
        case "column":
            return arrow.encode(table.drop_columns(["outcome"]), "events", header)
        case "header":
            return arrow.encode(table, "events", {"capacity": "many", "labelled": []})
        case "null":
            nulls = table.set_column(0, SCHEMA.field("id_high"), pa.array([None] * 5, pa.uint64()))
            return arrow.encode(nulls, "events", header)
        case _:
            return b""


@pytest.mark.parametrize(
    ("what", "says"),
    [
        ("bytes", "is not an Arrow file"),
        ("empty", "is not an Arrow file"),
        ("format", "is of format 2, this version reads 1"),
        ("kind", "has the header .*candidates"),
        ("column", "has the columns"),
        ("header", "header of a stored sample is damaged"),
        ("null", "lacks id_high of some events|is not an Arrow file"),
    ],
)
def test_damaged_bytes_are_refused_and_say_what_is_wrong(what: str, says: str) -> None:
    with pytest.raises(DamagedStore, match=says):
        ClosedSample.from_bytes(damaged(what))


def test_candidates_come_back_from_their_bytes() -> None:
    lengths, features = np.array([2, -1, 1], np.int32), np.array([0.5, -1.0, 2.0], np.float32)
    high, low = np.array([3, 1, 2**64 - 1], np.uint64), np.array([0, 5, 6], np.uint64)
    confidence, stratum = np.array([1, 1, 2], np.int32), np.array([0, 0, 4], np.int32)
    some = Candidates(high, low, confidence, stratum, lengths, features)
    again = Candidates.from_bytes(some.to_bytes())
    assert again.table.equals(some.table)
    assert again.table["features"].to_pylist() == [[0.5, -1.0], None, [2.0]]
    assert again.fewest(2).tolist() == [1, 2]
    assert Candidates.joined([]).table.schema.equals(CANDIDATES)
    both = Candidates.joined([again.take(np.array([0])), some])
    assert both.table["features"].to_pylist() == [[0.5, -1.0], [0.5, -1.0], None, [2.0]]
    assert both.take(np.array([3, 2, 0])).table["features"].to_pylist() == [[2.0], None, [0.5, -1.0]]
    assert [part.table["features"].to_pylist() for part in both.slices([0, 1, 1, 4])] == [
        [[0.5, -1.0]], [], [[0.5, -1.0], None, [2.0]],
    ]  # fmt: skip


@given(
    features=st.lists(st.one_of(st.none(), st.lists(st.integers(0, 9), max_size=3)), max_size=12),
    seed=st.integers(0, 99),
    even=st.booleans(),
)
def test_rows_are_taken_with_their_features(features: list[list[int] | None], seed: int, *, even: bool) -> None:
    told_of = [[at, at + 1] for at in range(len(features))] if even else features
    flat = np.array([number for each in told_of for number in each or ()], np.float32)
    number = np.arange(len(told_of))
    lengths = np.array([-1 if each is None else len(each) for each in told_of], np.int32)
    ids, names = number.astype(np.uint64), number.astype(np.int32)
    some = Candidates(ids, ids, names, names, lengths, flat)
    places = np.random.default_rng(seed).permutation(number)[: len(number) * 2 // 3]
    taken = some.take(places)
    assert taken.table["features"].to_pylist() == [told_of[at] for at in places.tolist()]
    assert taken.stratum.tolist() == places.tolist()
    assert Candidates.from_bytes(taken.to_bytes()).table.equals(taken.table)
