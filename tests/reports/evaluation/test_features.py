"""Features of any kind as coordinates, and places among them in words."""

import json
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.special import expit

from monitor.errors import InputError
from monitor.local import Standardised
from monitor.reports.evaluation.features import FeatureColumns
from monitor.reports.evaluation.local import LocalReport, evaluate_local
from monitor.sources.tables import SegmentColumn

Floats = NDArray[np.float64]


def coordinates(**features: object) -> tuple[Floats, float, bool]:
    return FeatureColumns.of(features).coordinates(20)  # type: ignore[arg-type]  # lists of any kind


def test_numbers_alone_are_standardised() -> None:
    x = np.random.default_rng(1).normal(size=(50, 3))
    found, share, reduced = coordinates(a=x[:, 0], b=x[:, 1].tolist(), c=x[:, 2])
    np.testing.assert_array_equal(found, Standardised.fit(x).apply(x))
    assert (share, reduced) == (1.0, False)


def test_different_categories_lie_two_apart_and_a_column_of_them_counts_once() -> None:
    found, share, _ = coordinates(region=["eu", "us", "apac", "eu", None], size=[1.0, 1.0, 1.0, 1.0, 1.0])
    distance = np.abs(found[:, None] - found[None]).sum(axis=2)
    np.testing.assert_allclose(distance[0], [0.0, 2.0, 2.0, 0.0, 2.0])
    assert share * found.shape[1] == pytest.approx(2.0)


def test_a_missing_number_lies_in_the_middle_and_is_marked() -> None:
    found, _, _ = coordinates(age=[20.0, None, 40.0])
    assert found[1].tolist() == [0.0, 1.0]
    assert found[:, 1].tolist() == [0.0, 1.0, 0.0]


def test_rare_categories_share_a_coordinate_and_many_are_reduced() -> None:
    rng = np.random.default_rng(2)
    many = rng.integers(0, 60, 2000).astype(str)
    found, share, reduced = coordinates(city=many)
    assert found.shape == (2000, 11)
    assert (share, reduced) == (1 / 11, False)
    found, share, reduced = coordinates(city=many, shop=rng.permutation(many))
    assert found.shape == (2000, 20)
    assert (share, reduced) == (1.0, True)


@pytest.mark.parametrize(
    ("features", "message"),
    [
        ({}, "features must name at least one, got none"),
        ({"a": [1.0, 2.0], "b": ["x"]}, r"features must be equally long, got shapes .*'b': \(1,\)"),
        ({"a": [1.0, float("inf")]}, "feature a must be finite and up to 1e.150 in size, got inf at index 1"),
    ],
)
def test_what_is_no_feature(features: dict[str, list[Any]], message: str) -> None:
    with pytest.raises(InputError, match=message):
        FeatureColumns.of({name: np.array(values) for name, values in features.items()})


def reported(size: float, seed: int = 4, n: int = 8000) -> LocalReport:
    """Too high by ``size`` in log odds for people of 60 and more in the us; ages may be missing."""
    rng = np.random.default_rng(seed)
    age, region = rng.integers(18, 90, n).astype(np.float64), rng.choice(["eu", "us", "apac"], n)
    noise = rng.normal(size=n)
    p = expit(rng.normal(0.0, 1.0, n))
    wrong = (age >= 60) & (region == "us")
    y = (rng.random(n) < expit(np.log(p / (1.0 - p)) - size * wrong)).astype(np.float64)
    age[rng.random(n) < 0.03] = np.nan
    values, codes = np.unique(region, return_inverse=True)
    column = SegmentColumn(codes.astype(np.int32), tuple(values.tolist()))
    return evaluate_local(p, y, {"age": age, "noise": noise, "region": column}, draws=99)


def test_the_place_of_the_worst_error_is_told_in_the_features_values() -> None:
    for seed in (4, 5, 6):
        report = reported(1.5, seed)
        assert report.worst is not None
        place = report.worst.place
        assert place is not None
        conditions = {each.split("=")[0].split()[0]: each for each in place.conditions}
        assert conditions["region"] == "region=us"
        low = int(conditions["age"].split()[1])
        assert 55 <= low <= 80
        assert "noise" not in conditions
        assert place.n >= 50
        assert place.prediction - place.outcome > 0.2
        assert f"That is about where {', '.join(place.conditions)}: of {place.n:,} such events" in report.sentence
        assert report.sentence.endswith("this is more than chance (p = 0.01).")
        json.dumps(report.to_dict())


def test_where_nothing_is_wrong_there_is_hardly_a_place() -> None:
    places = [report.worst.place for seed in range(6) if (report := reported(0.0, seed, 4000)).worst is not None]
    assert sum(place is not None for place in places) <= 4
    assert all(place is None or abs(place.prediction - place.outcome) < 0.25 for place in places)


def test_categories_alone_and_missing_values_have_places_too() -> None:
    rng = np.random.default_rng(7)
    kind = rng.choice(np.array(["a", "b", ""]), 6000)
    p = rng.uniform(0.2, 0.8, 6000)
    y = (rng.random(6000) < p - 0.2 * (kind == "")).astype(np.float64)
    report = evaluate_local(p, y, {"kind": np.array([each or None for each in kind.tolist()], object)}, draws=19)
    assert report.worst is not None
    assert report.worst.place is not None
    assert report.worst.place.conditions[0] == "kind=(empty)"
    number = np.where(kind == "", np.nan, rng.normal(size=6000))
    report = evaluate_local(p, y, {"number": number}, draws=19)
    assert report.worst is not None
    assert report.worst.features == {"number": None}
    assert report.worst.place is not None
    assert report.worst.place.conditions[0] == "number=(empty)"
