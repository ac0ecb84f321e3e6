"""Awkward input: what counts by ratio, times of any kind, masks, names, and what is refused by name."""

from datetime import UTC, date, datetime, timedelta, timezone
from typing import Any

import numpy as np
import pytest

import monitor
from monitor.errors import InputError
from monitor.measures import MEASURES
from monitor.reports.evaluation.assess import Minimum, assess
from monitor.reports.evaluation.classes import ClassReport
from monitor.reports.evaluation.evaluate import evaluate_binary as evaluate
from monitor.reports.evaluation.evaluate import evaluate_classes
from monitor.reports.evaluation.inputs import measures_by_name, times_ms
from monitor.scores import ScoreTable
from monitor.scores.table import relative_weights
from tests.reference.naive_classes import simulated
from tests.windows.memory import calibrated

P, Y = calibrated(400, seed=3)
MOMENT_MS = 1_704_067_200_000
"""2024-01-01, midnight, UTC."""


@pytest.mark.parametrize("weight", [1e-3, 5e-324, 1e300, 7.0])
def test_equal_weights_of_any_size_are_weights_of_1(weight: float) -> None:
    ones, scaled = (evaluate(P, Y, weight=np.full(400, each), draws=19) for each in (1.0, weight))
    assert ones.insufficient is None
    assert scaled == ones


@pytest.mark.parametrize("scale", [2.0**-900, 2.0**900])
def test_only_ratios_of_weights_matter(scale: float) -> None:
    weight = np.random.default_rng(1).gamma(1.0, size=400)
    assert evaluate(P, Y, weight=weight * scale, draws=19) == evaluate(P, Y, weight=weight, draws=19)


def test_weights_too_small_to_notice_count_as_none() -> None:
    weight = np.r_[np.full(200, 1e-200), np.ones(200)]
    few = evaluate(P[200:], Y[200:], weight=np.ones(200), draws=19)
    assert evaluate(P, Y, weight=weight, draws=19).measures == few.measures
    assert relative_weights(np.array([0.0, 1e-200, 1.0, 3.0])).tolist() == [0.0, 0.0, 0.5, 1.5]


def test_the_least_of_weighted_events_is_of_what_they_are_worth() -> None:
    assert evaluate(P, Y, weight=np.zeros(400)).insufficient == "no prediction with an outcome has a weight above 0"
    assert evaluate([0.5], [np.nan], weight=[1.0]).insufficient == "no prediction has an outcome: at least 2 are needed"
    weight = np.ones(400)
    weight[0] = 1e300
    assert evaluate(P, Y, weight=weight).insufficient == (
        "the predictions with an outcome are worth only 1 of equal weight: at least 2 are needed"
    )
    one_heavy = np.where(np.cumsum(Y) == 1, Y * 1e6, 0.0) + 1.0
    assert evaluate(P, Y, weight=one_heavy, minimum=Minimum(1, 5, 5)).insufficient == (
        "the positives are worth only 1 of equal weight: at least 5 are needed"
    )


def test_equal_weights_are_worth_their_number() -> None:
    table = ScoreTable.from_events(P[:30], Y[:30], np.full(30, 0.1))
    positives = int(Y[:30].sum())
    assert assess(table, minimum=Minimum(30, positives, 30 - positives), draws=0).insufficient is None
    assert assess(table, minimum=Minimum(31, 0, 0), draws=0).insufficient == (
        "the predictions with an outcome are worth only 30 of equal weight: at least 31 are needed"
    )


@pytest.mark.parametrize("unit", ["ns", "us", "ms", "s", "h", "D"])
def test_datetimes_of_numpy_count_milliseconds_whatever_their_unit(unit: str) -> None:
    found = times_ms(np.array(["2024-01-01", "1969-12-31"], "datetime64[D]").astype(f"datetime64[{unit}]"))
    assert found.tolist() == [MOMENT_MS, -86_400_000]


def test_datetimes_with_and_without_a_zone() -> None:
    paris = timezone(timedelta(hours=1))
    moments = [
        datetime(2024, 1, 1),  # noqa: DTZ001 - one without a zone is what is tried
        datetime(2024, 1, 1, 1, tzinfo=paris),
        datetime(2024, 1, 1, 0, 0, 0, 1999, tzinfo=UTC),
        date(2024, 1, 1),
    ]
    assert times_ms(np.array(moments, object)).tolist() == [MOMENT_MS, MOMENT_MS, MOMENT_MS + 1, MOMENT_MS]
    report = evaluate([0.5, 0.5], [0, 1], time_ms=moments[:2], draws=0)
    assert (report.from_ms, report.to_ms) == (MOMENT_MS, MOMENT_MS + 1)


@pytest.mark.parametrize(
    ("times", "message"),
    [
        ([1.0, np.nan], "got nan at index 1"),
        ([1.0, None], "got nan at index 1"),
        ([datetime(2024, 1, 1, tzinfo=UTC), None], "got nan at index 1"),
        (np.array(["2024-01-01", "NaT"], "datetime64[ns]"), "got nan at index 1"),
        (np.ma.array([1.0, 2.0], mask=[False, True]), "time_ms must not be masked, got a masked value at index 1"),
        ([MOMENT_MS * 1_000_000, 0], "milliseconds since the epoch"),
        (["2024-01-01", "2024-01-02"], "time_ms must be numbers or datetimes, got text"),
        (np.array(["2024", None], object), "time_ms must be numbers or datetimes, got text"),
        (np.zeros(2, "timedelta64[s]"), "time_ms must be numbers, got datetimes or durations"),
        (np.zeros((2, 1), "datetime64[s]"), r"time_ms must have one dimension, got shape \(2, 1\)"),
    ],
)
def test_times_that_are_none_are_refused(times: Any, message: str) -> None:
    with pytest.raises(InputError, match=message):
        evaluate([0.5, 0.5], [0, 1], time_ms=times)


@pytest.mark.parametrize("measures", ["smce", ["smce"], ("smce",), iter(["smce"]), {"smce": MEASURES["smce"]}])
def test_measures_are_named_in_any_way(measures: Any) -> None:
    assert list(evaluate(P, Y, measures=measures, draws=0).measures) == ["smce"]


@pytest.mark.parametrize(
    ("measures", "message"),
    [
        ("smc", "did you mean smce"),
        ([], "at least one measure must be named"),
        (3, "measures must be names such as"),
        ([MEASURES["smce"]], "measures must be names such as"),
        ({"smce": 1}, "measures must hold measures by name.*got 1 for 'smce'"),
    ],
)
def test_what_names_no_measure_is_refused(measures: Any, message: str) -> None:
    with pytest.raises(InputError, match=message):
        measures_by_name(measures)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"draws": 50.5}, "draws must be 0 or at least 19, got 50.5"),
        ({"draws": -1}, "draws must be 0 or at least 19, got -1"),
        ({"seed": -1}, "seed must be a whole number of at least 0, got -1"),
        ({"seed": "a"}, "seed must be a whole number of at least 0, got 'a'"),
    ],
)
def test_options_are_refused_by_name_also_where_nothing_is_drawn(options: dict[str, Any], message: str) -> None:
    for p, y in ((P, Y), ([], []), (np.full((3, 2), 0.5), [0, 1, 1])):
        with pytest.raises(InputError, match=message):
            monitor.evaluate(p, y, **options)


def test_a_seed_may_be_a_whole_number_of_numpy() -> None:
    assert evaluate(P, Y, draws=19, seed=np.int64(5)) == evaluate(P, Y, draws=19, seed=5)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("p", "y", "message"),
    [
        (P + 0j, Y, "p must be real numbers, got complex ones"),
        (P, list(Y + 0j), "y must be real numbers, got complex ones"),
        (P[:, None], Y, r"p must have one dimension, got shape \(400, 1\); pass p\[:, 0\]"),
        (P, Y[:, None], r"y must have one dimension, got shape \(400, 1\); pass y\[:, 0\]"),
        (P, np.zeros(400, "datetime64[s]"), "y must be numbers, got datetimes"),
        (np.ma.array(P, mask=np.arange(400) == 7), Y, "p must not be masked, got a masked value at index 7"),
        (np.full((2, 2), 0.5), np.eye(2), r"y must have one dimension, got shape \(2, 2\)"),
        (np.full((2, 2), 0.6), [0, 1], "p must add up to 1 over the classes, got 1.2 in row 0"),
    ],
)
def test_shapes_and_kinds_are_refused_by_the_name_of_the_argument(p: Any, y: Any, message: str) -> None:
    with pytest.raises(InputError, match=message):
        monitor.evaluate(p, y)


@pytest.mark.parametrize("dtype", [float, bool, int])
def test_a_masked_outcome_is_not_known(dtype: type) -> None:
    hidden = np.arange(400) < 150
    masked = evaluate(P, np.ma.array(Y.astype(dtype), mask=hidden), draws=19)
    assert masked == evaluate(P, np.where(hidden, np.nan, Y), draws=19)
    vectors, classes = simulated(1, 60, 3)
    found = evaluate_classes(vectors, np.ma.array(classes, mask=np.arange(60) < 20), draws=0)
    assert (found.n, found.top_label.predictions) == (40, 60)


def test_each_class_says_which_it_is() -> None:
    vectors, classes = simulated(1, 60, 3)

    def segments(**about: Any) -> list[str]:
        report = evaluate_classes(vectors, classes, each_class="ece", draws=0, **about)
        assert isinstance(report, ClassReport)
        assert [each["segment"] for each in report.to_dict()["each_class"]] == [x.segment for x in report.each_class]
        return [report.top_label.segment, *(each.segment for each in report.each_class)]

    assert segments() == ["all", "class=0", "class=1", "class=2"]
    assert segments(class_names=["cat", "dog", "cow"]) == ["all", "class=cat", "class=dog", "class=cow"]
    assert segments(segment="eu") == ["eu", "eu, class=0", "eu, class=1", "eu, class=2"]
    with pytest.raises(InputError, match="class_names must name each of the 3 classes, got 1"):
        segments(class_names=["cat"])
