"""The registry, the choice by names, and how calls with wrong arguments are refused."""

import inspect
import re

import numpy as np
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

_OF_TABLES = [
    each
    for name in measures.__all__
    if inspect.isfunction(each := getattr(measures, name)) and "table" in inspect.signature(each).parameters
]


@pytest.mark.parametrize("function", _OF_TABLES, ids=lambda function: function.__name__)
def test_whoever_passes_predictions_learns_how_to_make_a_table(function: object) -> None:
    assert callable(function)
    needed = {"draws": 2, "seed": 1} if "draws" in inspect.signature(function).parameters else {}
    with pytest.raises(InputError, match=r"needs a score table, got ndarray; make one with ScoreTable.from_events\(p"):
        function(P, **needed)


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
