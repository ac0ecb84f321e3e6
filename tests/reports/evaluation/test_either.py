import doctest
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import monitor
import monitor.reports.evaluation.either
from monitor.errors import InputError
from monitor.reports.evaluation import data
from monitor.reports.evaluation.classes import ClassReport, evaluate_classes
from monitor.reports.evaluation.either import evaluate
from monitor.reports.evaluation.report import Report
from tests.reference.naive_classes import simulated
from tests.windows.memory import calibrated

BOTH = pytest.mark.parametrize("function", [evaluate, monitor.evaluate])


def test_one_column_is_a_report_of_two_classes_and_vectors_one_of_many() -> None:
    p, y = calibrated(300, seed=1)
    two = evaluate(p, y, model="churn", draws=19)
    assert isinstance(two, Report)
    assert two == data.evaluate(p, y, model="churn", draws=19)
    vectors, classes = simulated(1, 100, 3)
    many = evaluate(vectors, classes, model="species", version="3", segment="eu", draws=19, seed=5)
    assert isinstance(many, ClassReport)
    assert many == evaluate_classes(vectors, classes, model="species", version="3", segment="eu", draws=19, seed=5)


@BOTH
def test_vectors_of_two_classes_are_vectors(function: Callable[..., Any]) -> None:
    report = function([[0.9, 0.1], [0.2, 0.8], [0.6, 0.4]], [0, 1, 1], draws=0)
    assert isinstance(report, ClassReport)
    assert report.classes == 2


@BOTH
def test_what_is_wrong_is_named(function: Callable[..., Any]) -> None:
    with pytest.raises(InputError, match="weight must be left out for probability vectors"):
        function([[0.5, 0.5]], [1], weight=[1.0])
    with pytest.raises(InputError, match="as many for each event"):
        function([[0.5, 0.5], [1.0]], [1, 0])
    with pytest.raises(InputError, match="p must have one dimension"):
        function(np.zeros((1, 1, 1)), [1])


def test_the_examples() -> None:
    result = doctest.testmod(monitor.reports.evaluation.either)
    assert result.attempted > 0
    assert result.failed == 0
