"""Reports from Spark's tables have every number that the library gives for the same rows on the grid."""

import json
from collections.abc import Callable

import numpy as np
import pytest
from pyspark.sql import DataFrame, SparkSession

import monitor
from monitor.errors import InputError
from monitor.inference.resampling import coarsen
from monitor.measures import REPORT_MEASURES, WINDOW_MEASURES
from monitor.reports.evaluation.assess import Minimum, assess
from monitor.scores import GridTable, ScoreTable
from monitor.scores.table import relative_weights
from monitor.spark import compare, report, reports, score_tables
from tests.spark.test_tables import events


def test_every_number_of_a_group_is_that_of_the_library(frame: Callable[..., DataFrame]) -> None:
    p, y, _ = events(30_000)
    group = np.where(np.arange(p.size) % 3, "eu", "us").astype(object)
    group[:20] = "few"
    df = frame(prediction=p, outcome=y, region=group, model=["churn"] * p.size)
    table = reports(score_tables(df, ["model", "region"]), draws=99, seed=3).toArrow()
    rows = {row["region"]: row for row in table.to_pylist()}
    assert table.column_names[:6] == ["model", "region", "rejected", "predictions", "n", "positives"]
    assert set(WINDOW_MEASURES) < set(table.column_names)
    for region in ("eu", "us"):
        of_group = (group == region) & ~np.isnan(y)
        scores = GridTable.from_events(p[of_group], y[of_group]).to_scores()
        expected = assess(scores, measures=WINDOW_MEASURES, draws=99, seed=3).measures
        assert rows[region]["n"] == of_group.sum()
        assert rows[region]["predictions"] == (group == region).sum()
        for name in WINDOW_MEASURES:
            numbers = expected[name].to_dict()
            assert rows[region][name] == {field: numbers[field] for field in rows[region][name]}
        document = json.loads(rows[region]["report"])
        assert (document["model"], document["segment"]) == ("churn", f"region={region}")
        assert document["measures"] == {name: result.to_dict() for name, result in expected.items()}
        assert document["diagnosis"]["verdict"] == rows[region]["verdict"]
    assert rows["few"]["insufficient"] == "only 17 of at least 100 predictions have an outcome"
    assert rows["few"]["smce"] is None


def test_a_report_on_all_rows_has_its_figures(frame: Callable[..., DataFrame]) -> None:
    p, y, _ = events(20_000)
    p[:2] = np.nan
    tables = score_tables(frame(prediction=p, outcome=y))
    made = report(tables, model="churn")
    labelled = ~np.isnan(y) & ~np.isnan(p)
    expected = assess(GridTable.from_events(p[labelled], y[labelled]).to_scores(), seed=0)
    assert made.measures == expected.measures
    assert set(made.measures) == set(REPORT_MEASURES)
    assert made.cautions == ("2 rows left out: invalid prediction",)
    assert repr(made).startswith("Calibration of churn: 19,998 predictions, 17,141 with an outcome")
    assert len(made.plot().axes) > 0
    assert "churn" in made.to_html()


def test_weights_give_what_the_library_gives(frame: Callable[..., DataFrame]) -> None:
    p, y, w = events(20_000)
    made = report(score_tables(frame(prediction=p, outcome=y, w=w), weight="w"), draws=0)
    labelled = ~np.isnan(y)
    exact = ScoreTable.from_events(p[labelled], y[labelled], relative_weights(w[labelled]))
    expected = assess(coarsen(exact), draws=0)
    assert made.n == labelled.sum()
    assert set(made.measures) == set(expected.measures)
    assert set(made.omitted) == set(expected.omitted)
    for name, result in expected.measures.items():
        assert made.measures[name].value == pytest.approx(result.value, rel=1e-9, abs=1e-11), name


def test_options_are_checked_before_anything_runs(spark: SparkSession) -> None:
    tables = score_tables(spark.createDataFrame([(0.5, 1)], "prediction double, outcome int"))
    with pytest.raises(InputError, match="there is no measure 'smc'; did you mean smce"):
        reports(tables, measures=["smc"])
    with pytest.raises(InputError, match="draws"):
        reports(tables, draws=5)
    only = reports(tables, minimum=Minimum(1, 0, 0), measures=["ece"], draws=0).collect()[0]
    assert only["ece"]["value"] == 0.5


def test_two_tables_are_compared_as_two_files_of_different_events(frame: Callable[..., DataFrame]) -> None:
    p, y, _ = events(30_000)
    known = ~np.isnan(y)
    p, y = p[known], y[known]
    half = p.size // 2
    worse = np.clip(p[half:] * 1.2, 0.0, 1.0)
    tables = [score_tables(frame(prediction=a, outcome=b)) for a, b in ((p[:half], y[:half]), (worse, y[half:]))]
    names = ["smce", "ece", "brier"]
    made = compare(*tables, measures=names, draws=199, models=("old", "new"))
    expected = monitor.compare((p[:half], y[:half]), (worse, y[half:]), measures=names, draws=199, seed=0)
    assert (made.first.model, made.second.model, made.pairing) == ("old", "new", "none")
    assert made.differences["smce"].significant
    for name in names:
        found, exact = made.differences[name], expected.differences[name]
        bound = sum(one.measures[name].error_bound or 0.0 for one in (made.first, made.second))
        assert found.difference == pytest.approx(exact.difference, abs=bound + 1e-9)
        # Both are drawn on cells, where predictions are as many.
        assert found.lower == pytest.approx(exact.lower, abs=0.1 * (exact.upper or 0.0) + bound)
    assert len(made.plot().axes) > 0
    assert "new" in made.to_html()
