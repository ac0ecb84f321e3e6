"""The registry, the choice by names, and how calls with wrong arguments are refused."""

import dataclasses
import inspect
import pkgutil
import re
from typing import Any

import numpy as np
import pandas as pd
import pytest

from monitor import measures
from monitor.errors import InputError
from monitor.inference import interval, intervals, null_level
from monitor.measures import MEASURES, choose_measures
from monitor.scores import ScoreTable


def test_measures_come_in_the_order_of_a_report() -> None:
    assert list(choose_measures(["ece", "smce", "tce", "ece"])) == ["tce", "smce", "ece"]
    assert list(choose_measures(sorted(MEASURES, reverse=True))) == list(MEASURES)


def test_one_name_is_one_measure() -> None:
    assert list(choose_measures("smce")) == ["smce"]


@pytest.mark.parametrize(
    ("names", "message"),
    [
        ("smec", "there is no measure 'smec'; did you mean smce"),
        (["smce", "accuracy"], "there is no measure 'accuracy'; there are tce, kce, "),
        ([], "at least one measure must be named; there are tce, kce, "),
    ],
)
def test_a_measure_that_is_not_there_is_named(names: str | list[str], message: str) -> None:
    with pytest.raises(InputError, match=message):
        choose_measures(names)


P = np.array([0.2, 0.4, 0.8])
TABLE = ScoreTable.from_events(P, [0, 1, 1])
RNG = np.random.default_rng(5)

_NAMES = [
    name
    for name in measures.__all__
    if inspect.isfunction(each := getattr(measures, name)) and "table" in inspect.signature(each).parameters
]


def test_every_measure_is_among_the_functions() -> None:
    assert {*MEASURES} <= {*_NAMES}


@pytest.mark.parametrize("name", _NAMES)
def test_predictions_and_outcomes_are_taken_as_well_as_their_table(name: str) -> None:
    function: Any = getattr(measures, name)
    p, y = RNG.random(300), RNG.random(300) < 0.5
    expected = function(ScoreTable.from_events(p, y))
    for predictions in (p, p.tolist(), pd.Series(p), np.column_stack([1.0 - p, p])):
        assert same(function(predictions, y), expected)


def same(value: Any, other: Any) -> bool:
    if dataclasses.is_dataclass(value):
        return all(same(getattr(value, each.name), getattr(other, each.name)) for each in dataclasses.fields(value))
    return bool(np.array_equal(value, other))


def test_options_follow() -> None:
    p, y = RNG.random(300), RNG.random(300) < 0.5
    table = ScoreTable.from_events(p, y)
    assert measures.ece(p, y, n_bins=30) == measures.ece(table, n_bins=30) != measures.ece(table)
    assert measures.rintce(p, y, 0.5) == measures.rintce(table, 0.5)


@pytest.mark.parametrize("name", _NAMES)
def test_without_outcomes_both_ways_are_said(name: str) -> None:
    with pytest.raises(InputError, match=rf"^{name} needs predictions and outcomes, {name}\(p, y\), or a score"):
        getattr(measures, name)(P)


def test_wrong_predictions_and_outcomes_are_refused() -> None:
    for p, y, message in (
        ([0.5, 1.5], [0, 1], r"prediction must be in \[0, 1\], got 1.5 at index 1"),
        ([0.5, 0.5], [0, 2], "outcome must be 0 or 1, got 2 at index 1"),
        ([0.5], [0, 1], "prediction and outcome must be equally long, got 1 and 2"),
        ([[0.4, 0.7]], [1], "p must add up to 1 over the classes"),
        ([[0.4, 0.2, 0.4]], [1], "prediction must have one dimension"),
        (pd.Series([0.4, 0.6], index=[0, 1]), pd.Series([0, 1], index=[1, 0]), "prediction and outcome"),
    ):
        with pytest.raises(InputError, match=message):
            measures.smce(p, y)


def test_no_function_hides_a_file() -> None:
    for file in pkgutil.iter_modules(measures.__path__):
        assert inspect.ismodule(getattr(measures, file.name)), file.name


def test_resampling_says_so_too() -> None:
    for what in (null_level, intervals):
        with pytest.raises(InputError, match="needs a score table, got list"):
            what([0.5], [MEASURES["smce"]])  # type: ignore[arg-type]


@pytest.mark.parametrize("wrong", ["smce", ["smce"], MEASURES["smce"]])
def test_resampling_takes_measures_and_not_their_names(wrong: object) -> None:
    for what in (null_level, intervals):
        with pytest.raises(InputError, match=re.escape('measures must be a list such as [MEASURES["smce"]]')):
            what(TABLE, wrong)  # type: ignore[arg-type]
    with pytest.raises(InputError, match="measures must be a list"):
        interval(TABLE, "smce")  # type: ignore[arg-type]


def test_draws_and_seed_are_whole_numbers() -> None:
    with pytest.raises(InputError, match=r"draws must be a whole number of at least 19, got 50\.5"):
        null_level(TABLE, [MEASURES["smce"]], draws=50.5)  # type: ignore[arg-type]
    with pytest.raises(InputError, match="seed must be a whole number of at least 0, got -1"):
        null_level(TABLE, [MEASURES["smce"]], seed=-1)


def test_weights_whose_squares_overflow_are_refused_by_a_table() -> None:
    with pytest.raises(InputError, match=r"weight must be at most 1e\+100: divide all by their mean, got 1e\+300"):
        ScoreTable.from_events([0.5], [1], [1e300])
