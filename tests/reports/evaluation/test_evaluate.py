import doctest
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import monitor
import monitor.reports.evaluation.evaluate
from monitor.errors import InputError
from monitor.measures import REPORT_MEASURES
from monitor.reports.evaluation.assess import Minimum
from monitor.reports.evaluation.classes import ClassReport
from monitor.reports.evaluation.evaluate import evaluate, evaluate_binary, evaluate_classes
from monitor.reports.evaluation.local import evaluate_local
from monitor.reports.evaluation.report import Report
from monitor.scores import ScoreTable
from tests.reference.naive_classes import simulated
from tests.windows.memory import calibrated

P = [0.91, 0.32, 0.66, 0.67, 0.57, 0.98, 0.41, 0.19]
Y = [1, 0, 1, 1, 0, 1, 0, 0]


@pytest.mark.parametrize(
    ("name", "value"),
    [("smce", 0.10575), ("kce", 0.10627258027498664), ("intce", 0.17875), ("surrogate_intce", 0.28375)],
)
def test_the_small_exact_vectors(name: str, value: float) -> None:
    assert evaluate_binary(P, Y).measures[name].value == pytest.approx(value, abs=1e-12)


def test_one_falls_in_the_last_bin() -> None:
    assert evaluate_binary([0.95, 1.0], [1, 0]).measures["ece"].value == pytest.approx(0.475)


def test_a_report_of_two_lists() -> None:
    report = evaluate_binary(P, Y, model="toy", version="3")
    assert (report.model, report.version, report.segment, report.window) == ("toy", "3", "all", "all")
    assert (report.n, report.positives, report.predictions) == (8, 4, 8)
    assert report.prevalence == 0.5
    assert report.mean_prediction == pytest.approx(np.mean(P))
    assert (report.from_ms, report.to_ms) == (None, None)
    assert list(report.measures) == list(REPORT_MEASURES)
    assert report.insufficient is None
    assert report == evaluate_binary(P, Y, model="toy", version="3")


def test_the_order_of_the_events_does_not_matter() -> None:
    p, y = calibrated(2000, seed=4)
    p = np.round(p, 2)
    order = np.random.default_rng(0).permutation(2000)
    assert evaluate_binary(p, y) == evaluate_binary(p[order], y[order])


def test_an_outcome_that_is_not_known_counts_as_a_prediction_only() -> None:
    report = evaluate_binary([*P, 0.5], [*Y, float("nan")])
    assert (report.n, report.predictions) == (8, 9)
    assert report.label_coverage == 8 / 9
    assert report.measures == evaluate_binary(P, Y).measures
    assert report.mean_prediction == pytest.approx(np.mean(P))


def test_times_say_what_is_covered() -> None:
    report = evaluate_binary(P, Y, time_ms=np.arange(8) * 1000 + 5000)
    assert (report.from_ms, report.to_ms) == (5000, 12_001)


def test_nothing_is_insufficient() -> None:
    report = evaluate_binary([], [])
    assert report.insufficient == "there are no predictions"
    assert (report.n, report.prevalence, report.mean_prediction, report.measures) == (0, None, None, {})


def test_a_minimum_can_be_asked_for() -> None:
    report = evaluate_binary(P, Y, minimum=Minimum())
    assert report.insufficient == "only 8 of at least 100 predictions have an outcome"


def test_weights_equal_repeated_events() -> None:
    weighted = evaluate_binary(P, Y, weight=[2.0] * 8)
    repeated = evaluate_binary(P * 2, Y * 2)
    assert weighted.n == 8
    assert weighted.prevalence == repeated.prevalence
    assert weighted.measures["smce"].value == pytest.approx(repeated.measures["smce"].value)


@pytest.mark.parametrize(
    ("p", "y", "more", "message"),
    [
        ([0.5, 1.5], [0, 1], {}, "p must be in [0, 1], got 1.5 at index 1"),
        ([0.5, float("nan")], [0, 1], {}, "p must be in [0, 1], got nan at index 1"),
        ([0.5], [0, 1], {}, "p and y must be equally long, got 1 and 2"),
        ([0.5, 0.5], [0, 2], {}, "y must be 0 or 1, got 2 at index 1"),
        ([0.5, 0.5, 0.5], [float("nan"), 0, 2], {}, "y must be 0 or 1, got 2 at index 2"),
        (
            [0.5, 0.5, 0.5],
            [None, 0, 1],
            {"weight": [1, 1, -1]},
            "weight must be finite and at least 0, got -1 at index 2",
        ),
        (["a"], [0], {}, "p must be numbers: could not convert string to float: 'a'"),
        (
            [[0.4, 0.6]],
            [0],
            {},
            "p must have one dimension, got shape (1, 2); of class probabilities pass the column of class 1, p[:, 1]",
        ),
        ([0.5], [[0]], {}, "y must have one dimension, got shape (1, 1); pass y[:, 0]"),
        ([0.5], [0], {"weight": [1, 2]}, "weight must be as long as p, got 2 and 1"),
        ([0.5], [0], {"time_ms": []}, "time_ms must be as long as p, got 0 and 1"),
    ],
)
def test_what_is_wrong_is_named(p: list[float], y: list[int], more: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError) as caught:
        evaluate_binary(p, y, **more)
    assert str(caught.value) == message


def test_who_wants_a_table_alone_does_not_load_the_measures() -> None:
    program = """
import sys
from monitor.scores import ScoreTable
assert not [name for name in sys.modules if name.startswith(("monitor.measures", "monitor.reports", "pyarrow"))]
import monitor
assert callable(monitor.evaluate)
"""
    subprocess.run([sys.executable, "-c", program], check=True)


def test_what_a_user_needs_stands_at_the_top() -> None:
    assert monitor.evaluate_local is evaluate_local
    assert monitor.ScoreTable is ScoreTable


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="module 'monitor' has no attribute 'evaluat'"):
        monitor.evaluat  # noqa: B018


def test_where_no_measure_takes_weights_that_is_said() -> None:
    said = (
        "tce needs whole counts, and there are weights: leave --weight out, or choose a measure that takes weights, "
        "such as kce or smce or intce"
    )
    with pytest.raises(InputError, match=f"^{said}"):
        evaluate_binary(P, Y, weight=[1.0, 2.0] * 4, measures="tce")
    with pytest.raises(InputError, match=r"^tce and tce_t need whole counts"):
        evaluate_binary(P, Y, weight=[1.0, 2.0] * 4, measures=("tce", "tce_t"))
    both = evaluate_binary(P, Y, weight=[1.0, 2.0] * 4, measures=("tce", "smce"), draws=19)
    assert (list(both.measures), both.omitted) == (["smce"], {"tce": "needs whole counts, not weights"})


def test_the_diagnosis_does_not_depend_on_the_measures() -> None:
    rng = np.random.default_rng(3)
    p = rng.uniform(0.1, 0.9, 400)
    p[0] = 0.0
    y = rng.random(400) < p
    y[0] = True  # what was impossible came true
    none = evaluate_binary(p, y, measures="log_loss", draws=19)
    assert (none.measures, none.insufficient) == ({}, "log_loss: not finite on these data")
    assert none.diagnosis is not None
    assert none.diagnosis == evaluate_binary(p, y, measures="smce", draws=19).diagnosis


BOTH = pytest.mark.parametrize("function", [evaluate, monitor.evaluate])


def test_one_column_is_a_report_of_two_classes_and_vectors_one_of_many() -> None:
    p, y = calibrated(300, seed=1)
    two = evaluate(p, y, model="churn", draws=19)
    assert isinstance(two, Report)
    assert two == evaluate_binary(p, y, model="churn", draws=19)
    vectors, classes = simulated(1, 100, 3)
    many = evaluate(vectors, classes, model="species", version="3", segment="eu", draws=19, seed=5)
    assert isinstance(many, ClassReport)
    assert many == evaluate_classes(vectors, classes, model="species", version="3", segment="eu", draws=19, seed=5)


def test_vectors_of_two_classes_are_vectors_where_they_are_declared() -> None:
    p = [[0.9, 0.1], [0.2, 0.8], [0.6, 0.4]]
    report = evaluate(p, [0, 1, 1], draws=0, of_classes=True)
    assert isinstance(report, ClassReport)
    assert report.classes == 2
    assert evaluate(p, [0, 1, 1], draws=0) == evaluate([0.1, 0.8, 0.4], [0, 1, 1], draws=0)


@BOTH
def test_vectors_of_wrong_shape_are_refused(function: Callable[..., Any]) -> None:
    with pytest.raises(InputError, match="weight must be left out for probability vectors"):
        function([[0.5, 0.25, 0.25]], [1], weight=[1.0])
    with pytest.raises(InputError, match="as many for each event"):
        function([[0.5, 0.5], [1.0]], [1, 0])
    with pytest.raises(InputError, match="p must have one dimension"):
        function(np.zeros((1, 1, 1)), [1])


def test_the_examples() -> None:
    result = doctest.testmod(monitor.reports.evaluation.evaluate)
    assert result.attempted > 0
    assert result.failed == 0
