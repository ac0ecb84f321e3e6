import json
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from monitor.errors import InputError
from monitor.local import PrincipalComponents, Standardised, local_calibration_error
from monitor.measures import ece
from monitor.reports.evaluation.local import evaluate_local
from monitor.scores import ScoreTable

Floats = NDArray[np.float64]


def drawn(n: int, size: float) -> tuple[Floats, Floats, dict[str, Floats]]:
    """Predictions too high by ``size`` for ages above 40, and too low below."""
    rng = np.random.default_rng(1)
    age, income = rng.uniform(20, 60, n), rng.lognormal(10, 1, n)
    p = rng.uniform(0.3, 0.7, n)
    y = (rng.random(n) < p - size * np.sign(age - 40)).astype(np.float64)
    return p, y, {"age": age, "income": income}


def columns(features: dict[str, Floats]) -> Floats:
    return np.column_stack(list(features.values()))


def test_a_report_is_the_measures_of_the_standardised_features() -> None:
    p, y, features = drawn(2000, 0.2)
    report = evaluate_local(p, y, features, draws=39, seed=1)
    x = columns(features)
    found = local_calibration_error(p, y, Standardised.fit(x).apply(x), draws=39, seed=1)
    assert found.level is not None
    for name, value, level in (
        ("mlce", found.mlce, found.level.mlce),
        ("mean_lce", found.mean_lce, found.level.mean_lce),
    ):
        measure = report.measures[name]
        assert (measure.value, measure.null_mean, measure.null_q95) == (value, level.mean, level.q95)
        assert measure.p_value == level.p_value
        assert measure.excess == value - level.mean
    assert (report.n, report.features, report.dimensions, report.components) == (2000, ("age", "income"), 2, False)
    assert (report.bins, report.points, report.valid_share) == (15, 2000, found.valid_share)
    assert report.ece == ece(ScoreTable.from_events(p, y), n_bins=15)


def test_the_worst_place_is_shown_with_its_features() -> None:
    p, y, features = drawn(4000, 0.2)
    report = evaluate_local(p, y, features, draws=39)
    worst = report.worst
    assert worst is not None
    assert abs(worst.prediction - worst.outcome) == pytest.approx(report.measures["mlce"].value)
    assert worst.features == {"age": features["age"][worst.row], "income": features["income"][worst.row]}
    old = bool(features["age"][worst.row] > 40)
    assert (worst.prediction > worst.outcome) == old
    assert worst.n_eff >= 50.0
    too = "high" if old else "low"
    assert f"too {too} at worst" in report.sentence
    assert f"up to {report.measures['mlce'].null_q95:.3f} in 95% of cases" in report.sentence
    assert report.sentence.endswith("this is more than chance (p = 0.025).")


def test_a_calibrated_model_is_not_called_worse_than_chance() -> None:
    p, y, features = drawn(2000, 0.0)
    assert "this is no more than chance" in evaluate_local(p, y, features, draws=39).sentence
    assert "chance" not in evaluate_local(p, y, features, draws=0).sentence


def test_many_features_are_reduced_to_components() -> None:
    p, y, _ = drawn(1500, 0.1)
    x = np.random.default_rng(2).normal(size=(1500, 6))
    report = evaluate_local(p, y, x, dimensions=3, draws=0)
    found = local_calibration_error(p, y, PrincipalComponents.fit(x, 3).apply(x))
    assert (report.dimensions, report.components) == (3, True)
    assert report.features == tuple(f"feature {number}" for number in range(6))
    assert report.measures["mlce"].value == pytest.approx(found.mlce)


def test_predictions_without_an_outcome_are_left_out_and_rows_are_the_callers() -> None:
    p, y, features = drawn(2000, 0.2)
    y[::2] = np.nan
    report = evaluate_local(p, y, features, draws=0)
    alone = evaluate_local(p[1::2], y[1::2], {name: values[1::2] for name, values in features.items()}, draws=0)
    assert report.n == 1000
    assert report.worst is not None
    assert alone.worst is not None
    assert report.worst.row == 2 * alone.worst.row + 1
    assert report.measures == alone.measures


def test_many_classes() -> None:
    rng = np.random.default_rng(3)
    p = rng.dirichlet([1.0, 1.0, 1.0], 600)
    report = evaluate_local(p, rng.integers(0, 3, 600), rng.normal(size=(600, 2)), draws=19)
    assert report.bins == 5
    assert report.worst is not None
    assert report.worst.prediction > 1 / 3


def test_the_same_data_give_the_same_report() -> None:
    p, y, features = drawn(800, 0.1)
    assert evaluate_local(p, y, features) == evaluate_local(p, y, features)


def test_what_is_insufficient_says_why() -> None:
    p, y, features = drawn(30, 0.1)
    few = evaluate_local(p, y, features)
    assert few.measures == {}
    assert few.insufficient is not None
    assert few.insufficient.startswith("no event has 50 effective neighbours")
    assert few.sentence.startswith("Local calibration is not known: no event has 50")
    none = evaluate_local(p, np.full(30, np.nan), features)
    assert (none.n, none.insufficient) == (0, "no prediction has an outcome")


@pytest.mark.parametrize("n", [900, 20])
def test_a_report_is_json(n: int) -> None:
    report = evaluate_local(*drawn(n, 0.1), draws=19)
    shown = json.loads(json.dumps(report.to_dict()))
    assert shown["features"] == ["age", "income"]
    assert shown["sentence"] == report.sentence
    assert shown["insufficient"] == report.insufficient
    assert {name: each["value"] for name, each in shown["measures"].items()} == {
        name: each.value for name, each in report.measures.items()
    }


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"features": {}}, "features must name at least one"),
        ({"features": {"a": [1.0, 2.0], "b": [1.0]}}, r"features must be equally long, got shapes .*'b': \(1,\)"),
        (
            {"features": {"a": [1.0, float("inf")]}},
            "feature a must be finite and up to 1e.150 in size, got inf at index 1",
        ),
        (
            {"features": [[1.0], [float("nan")]]},
            "features must be finite and up to 1e.150 in size, got nan in row 1, column 0",
        ),
        ({"features": [[1.0], [2.0], [3.0]]}, "features must be as long as p, got 3 and 2"),
        ({"y": [float("nan"), 3]}, "outcome must be 0 or 1, got 3 at index 1"),
        ({"y": [0]}, r"equally long, got shapes \(2,\) and \(1,\)"),
        ({"y": ["no", "yes"]}, "y must be numbers"),
        ({"dimensions": 0}, "dimensions must be a whole number of at least 1"),
        ({"gamma": 0.0}, "gamma must be above 0"),
    ],
)
def test_a_wrong_value_is_named(options: dict[str, Any], message: str) -> None:
    given: dict[str, Any] = {"p": [0.2, 0.6], "y": [0, 1], "features": {"a": [1.0, 2.0]}} | options
    with pytest.raises(InputError, match=message):
        evaluate_local(**given)
