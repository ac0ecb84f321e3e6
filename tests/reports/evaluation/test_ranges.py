"""Ranges of numbers, and segments that are made of them."""

import math
from itertools import pairwise

import numpy as np
import pytest

from monitor.reports.evaluation.segments import Range, are_whole, quantile_ranges, segment_columns, shortest_between
from monitor.sources.tables import SegmentColumn


@pytest.mark.parametrize(
    ("below", "up_to", "expected"),
    [
        (34, 35, 35),
        (19_998, 20_004, 20_000),
        (0.2471, 0.2533, 0.25),
        (-3, 2, 0),
        (0, 114, 100),
        (-0.0312, -0.0299, -0.03),
        (7, 7 + 1e-9, 7 + 1e-9),
    ],
)
def test_an_end_is_the_shortest_number_between_two(below: float, up_to: float, expected: float) -> None:
    found = shortest_between(below, up_to)
    assert below < found <= up_to
    assert found == pytest.approx(expected, abs=1e-9)


def test_the_shortest_number_parts_any_two_neighbours() -> None:
    rng = np.random.default_rng(1)
    values = np.unique(np.concatenate([rng.normal(size=300), 1e9 * rng.normal(size=300), 1e-9 * rng.normal(size=300)]))
    for below, up_to in pairwise(values.tolist()):
        assert below < shortest_between(below, up_to) <= up_to


def test_ranges_hold_all_values_once_and_about_equally_many() -> None:
    values = np.random.default_rng(2).lognormal(10, 1, 5000)
    ranges = quantile_ranges(values)
    assert len(ranges) == 5
    inside = np.array([each.holds(values) for each in ranges])
    assert (inside.sum(axis=0) == 1).all()
    assert inside.mean(axis=1) == pytest.approx(np.full(5, 0.2), abs=0.02)
    assert [each.low for each in ranges[1:]] == [each.high for each in ranges[:-1]]


def test_ties_stay_together() -> None:
    values = np.concatenate([np.zeros(900), np.arange(1.0, 101.0)])
    ranges = quantile_ranges(values)
    assert len(ranges) == 2
    assert ranges[0].holds(np.array([0.0, 1.0])).tolist() == [True, False]
    assert quantile_ranges(np.full(9, 4.0)) == [Range()]


@pytest.mark.parametrize(
    ("each", "whole", "text"),
    [
        (Range(18, 35), True, "18 to 34"),
        (Range(-math.inf, 18), True, "below 18"),
        (Range(62), True, "62 or more"),
        (Range(7, 8), True, "7"),
        (Range(0.25, 0.5), False, "0.25 to 0.5"),
        (Range(20_000, 40_000), True, "20,000 to 39,999"),
        (Range(2015, 2020), True, "2015 to 2019"),
    ],
)
def test_a_range_in_words(each: Range, whole: bool, text: str) -> None:
    assert each.text(whole=whole) == text


def test_whole_numbers() -> None:
    assert are_whole(np.array([1.0, np.nan, -3.0]))
    assert not are_whole(np.array([1.0, 0.5]))


def column(values: list[str]) -> SegmentColumn:
    distinct = list(dict.fromkeys(values))
    return SegmentColumn(np.array([distinct.index(each) for each in values], np.int32), tuple(distinct))


def test_many_numbers_are_ranges_and_few_are_not() -> None:
    ages = [str(18 + number % 60) for number in range(600)]
    columns = segment_columns(
        {
            "age": column([*ages, "(empty)", "n/a"]),
            "month": column([str(number % 12) for number in range(602)]),
            "zip": column([f"{number % 99:05d}" for number in range(602)]),
        }
    )
    assert columns["age"].titles[0].startswith("age below ")
    assert columns["age"].titles[-1] == "age=(empty)"
    assert len(columns["age"].titles) == 6
    assert (columns["age"].codes[-2:] == 5).all()
    assert columns["month"].values == tuple(str(number) for number in range(12))
    assert len(columns["zip"].values) == 99


def test_columns_are_crossed_with_empty_fields_and_names_of_their_own() -> None:
    columns = {
        "region": column(["eu", "us", "eu", "(empty)"]),
        "device": column(["phone", "phone", "desktop", "phone"]),
        "a*b": column(["1", "1", "2", "2"]),
    }
    found = segment_columns(columns, ["region * device", "a*b"])
    crossed = found["region * device"]
    assert [crossed.titles[code] for code in crossed.codes] == [
        "region=eu, device=phone",
        "region=us, device=phone",
        "region=eu, device=desktop",
        "region=(empty), device=phone",
    ]
    assert found["a*b"].values == ("1", "2")
