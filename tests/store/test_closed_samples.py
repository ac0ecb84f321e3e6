"""Closed samples are values: they add in any order, and their bytes are read or refused."""

import itertools
from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from monitor.errors import DamagedStore
from monitor.store import closed_samples as arrow
from monitor.store.candidates import CANDIDATE_ROW, Candidates, Lists
from monitor.store.closed_samples import SCHEMA, ClosedSample
from tests.long import examples
from tests.reference.naive_sample import naive_closed
from tests.store.drawn_samples import closed, random_rows, row


@examples(15, 40)
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


def candidates(features: Sequence[Sequence[float] | None]) -> Candidates:
    """Candidates with these features, numbered by their strata, of ever more classes."""
    rows = np.zeros(len(features), CANDIDATE_ROW)
    rows["stratum"] = rows["id_low"] = np.arange(rows.size)
    vectors = [None if part is None else np.array(part, np.float32) for part in features]
    classes = np.arange(rows.size) % 3 + 1
    return Candidates(rows, Lists(classes.astype(np.int32), np.arange(classes.sum()) / 8.0), Lists.of(vectors))


def test_candidates_come_back_from_their_bytes() -> None:
    some = candidates([[0.5, -1.0], None, [2.0]])
    some.rows["id_high"], some.rows["confidence"] = [3, 1, 2**64 - 1], [1, 1, 2]
    again = Candidates.from_bytes(some.to_bytes())
    assert again.table.equals(some.table)
    assert again.rows["outcome"].tolist() == [-1, -1, -1]
    assert again.table["features"].to_pylist() == [[0.5, -1.0], None, [2.0]]
    assert again.table["prediction"].to_pylist() == [[0.0], [0.125, 0.25], [0.375, 0.5, 0.625]]
    assert again.fewest(2).tolist() == [1, 2]
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
    wanted = [[at, at + 1] for at in range(len(features))] if even else features
    some = candidates(wanted)
    places = np.random.default_rng(seed).permutation(len(wanted))[: len(wanted) * 2 // 3]
    taken = some.take(places)
    assert taken.table["features"].to_pylist() == [wanted[at] for at in places.tolist()]
    assert taken.rows["stratum"].tolist() == places.tolist()
    assert Candidates.from_bytes(taken.to_bytes()).table.equals(taken.table)
