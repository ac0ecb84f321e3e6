import json
import math
from typing import Any

import numpy as np
import pytest
from scipy.special import expit, logit

from monitor.measures import tce
from monitor.reports.diagrams.document import MAX_TEST_BINS, diagrams_document, number, probability
from monitor.scores import GridTable, ScoreTable
from tests.reports.figures.tables import TABLES, every_table


def numbers(value: Any) -> list[float]:
    if isinstance(value, dict):
        return [found for part in value.values() for found in numbers(part)]
    if isinstance(value, list):
        return [found for part in value for found in numbers(part)]
    return [value] if isinstance(value, int | float) else []


@every_table
def test_a_document_is_plain_json_of_bounded_size(name: str) -> None:
    document = diagrams_document(TABLES[name]())
    text = json.dumps(document, separators=(",", ":"), allow_nan=False)
    assert len(text) < 15_000
    assert json.loads(text) == document
    for columns in (
        document["curve"],
        *(document[axis][part] for axis in ("probability", "logit") for part in ("bins", "columns")),
    ):
        assert len({len(column) for column in columns.values()}) == 1
    assert len(document["probability"]["columns"]["chance"]) == 40


def test_a_window_of_ten_million_predictions_is_no_larger() -> None:
    rng = np.random.default_rng(1)
    z = rng.normal(-1.0, 1.5, 200_000)
    table = GridTable.from_events(expit(z), rng.random(z.size) < expit(0.9 * z)).to_scores()
    positives, negatives, positive_sum, negative_sum = (
        50.0 * column for column in (table.positives, table.negatives, table.positive_sum, table.negative_sum)
    )
    large = ScoreTable(table.score, positives, negatives, positive_sum, negative_sum, table.lower, table.upper)
    document = diagrams_document(large)
    assert sum(document["curve"]["n"]) == 10_000_000
    assert len(json.dumps(document, separators=(",", ":"))) < 15_000
    assert len(document["test"]["n"]) == MAX_TEST_BINS


@pytest.mark.parametrize("name", ["balanced", "rare", "cells", "tiny"])
def test_the_parts_agree_with_each_other_and_with_the_table(name: str) -> None:
    table = TABLES[name]()
    document = diagrams_document(table)
    positives = int(table.positives.sum())
    assert sum(document["curve"]["n"]) == table.total
    for axis in ("probability", "logit"):
        bins, columns = document[axis]["bins"], document[axis]["columns"]
        assert sum(bins["n"]) == table.total
        assert sum(bins["positives"]) == sum(columns["positives"]) == positives
        assert sum(columns["negatives"]) == table.total - positives
        assert sum(columns["surplus"]) == pytest.approx(table.residual.sum(), abs=0.2)
        assert all(a <= r <= b for a, r, b in zip(bins["lower"], bins["rate"], bins["upper"], strict=True))
    test = document["test"]
    assert sum(test["n"]) == table.total
    refuted = sum(test["too_low"]) + sum(test["too_high"])
    assert 100.0 * refuted / sum(test["n"]) == pytest.approx(tce(table))


def test_it_says_what_is_wrong_with_a_model_that_exaggerates() -> None:
    document = diagrams_document(TABLES["balanced"]())
    low, high = document["places"]
    assert low["prediction"] < low["rate"]
    assert high["prediction"] > high["rate"]
    assert 0.5 < document["fit"]["slope_lower"] < document["fit"]["slope"] < document["fit"]["slope_upper"] < 0.75
    # Small predictions are too low: their columns come true more often than chance explains.
    columns = document["probability"]["columns"]
    assert columns["surplus"][1] > columns["chance"][1]
    assert sum(document["test"]["too_low"][:3]) > 0
    assert sum(document["test"]["too_high"][:3]) == 0


def test_the_axis_is_that_of_the_figures() -> None:
    assert diagrams_document(TABLES["rare"]())["axis"] == "logit"
    document = diagrams_document(TABLES["balanced"]())
    assert document["axis"] == "probability"
    assert (document["probability"]["from"], document["probability"]["to"]) == (0.0, 1.0)
    assert document["logit"]["from"] < -3.0 < 3.0 < document["logit"]["to"]


def test_weighted_predictions_have_no_test() -> None:
    assert diagrams_document(TABLES["weighted"]())["test"] is None


def test_the_same_table_has_the_same_document() -> None:
    assert diagrams_document(TABLES["rare"]()) == diagrams_document(TABLES["rare"]())


def test_numbers_have_the_digits_that_can_be_seen() -> None:
    assert number(0.123456789) == 0.1235
    assert number(-1234567.0) == -1235000.0
    assert number(None) is None
    assert number(math.inf) is None
    assert number(math.nan) is None


@pytest.mark.parametrize("z", np.linspace(-30.0, 30.0, 41).tolist())
def test_a_rounded_probability_keeps_its_log_odds(z: float) -> None:
    p = float(expit(z))
    if 0.0 < p < 1.0:
        assert 0.0 < probability(p) < 1.0
        assert logit(probability(p)) == pytest.approx(logit(p), abs=2e-3)
    assert probability(0.0) == 0.0
    assert probability(1.0) == 1.0


def test_there_are_no_digits_beyond() -> None:
    for value in numbers(diagrams_document(TABLES["balanced"]())):
        assert len(repr(value)) <= 12
