"""Accuracy, AUC, average precision and log loss beside calibration."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import expit
from sklearn import metrics

from monitor import evaluate
from monitor.reports.evaluation.report import Performance, Report, performance
from monitor.scores import GridTable, ScoreTable
from tests.long import examples


@examples(50, 200)
@given(
    events=st.lists(
        st.tuples(st.integers(1, 9), st.booleans(), st.sampled_from([0.5, 1.0, 3.0])), min_size=2, max_size=60
    ),
    weighted=st.booleans(),
)
def test_scores_are_those_of_scikit_learn_with_ties_and_weights(
    events: list[tuple[int, bool, float]], weighted: bool
) -> None:
    tenths, happened, weights = map(np.array, zip(*events, strict=True))
    p, y = tenths / 10.0, happened.astype(int)
    w = weights if weighted else None
    found = performance(ScoreTable.from_events(p, y, w))
    assert found.accuracy == pytest.approx(metrics.accuracy_score(y, p >= 0.5, sample_weight=w))
    assert found.log_loss == pytest.approx(metrics.log_loss(y, p, sample_weight=w, labels=[0, 1]))
    if 0 < y.sum() < y.size:
        assert found.auc == pytest.approx(metrics.roc_auc_score(y, p, sample_weight=w))
        assert found.average_precision == pytest.approx(metrics.average_precision_score(y, p, sample_weight=w))
    else:
        assert found.auc is None


def test_what_is_not_defined_is_none() -> None:
    loss = -(math.log(0.8) + math.log(0.4)) / 2.0
    assert performance(ScoreTable.from_events([0.2, 0.6], [0, 0])) == Performance(0.5, None, None, loss)
    assert performance(ScoreTable.from_events([0.0, 0.6], [1, 1])).log_loss is None
    assert performance(ScoreTable.from_events([0.5, 0.5], [1, 0])).auc == 0.5


def test_a_map_that_keeps_the_order_changes_no_auc_and_cells_hardly_do() -> None:
    rng = np.random.default_rng(1)
    z = rng.normal(-1.0, 1.5, 50_000)
    y = rng.random(z.size) < expit(z)
    raw, moved = (performance(ScoreTable.from_events(expit(each), y)) for each in (z, 0.5 * z - 2.0))
    assert (moved.auc, moved.average_precision) == pytest.approx((raw.auc, raw.average_precision), rel=1e-12)
    cells = performance(GridTable.from_events(expit(z), y).to_scores())
    assert cells.auc == pytest.approx(raw.auc, abs=1e-4)
    assert cells.average_precision == pytest.approx(raw.average_precision, abs=1e-3)
    assert cells.accuracy == pytest.approx(raw.accuracy, abs=1e-3)


def test_it_stands_in_the_report_where_there_are_measures() -> None:
    p, y = [0.1, 0.4, 0.35, 0.8], [0, 0, 1, 1]
    report = evaluate(p, y, draws=0)
    assert isinstance(report, Report)
    assert report.performance == performance(ScoreTable.from_events(p, y))
    assert report.to_dict()["performance"] == {
        "accuracy": 0.75,
        "auc": 0.75,
        "average_precision": pytest.approx(5 / 6),
        "log_loss": pytest.approx(metrics.log_loss(y, p)),
    }
    assert evaluate([0.3], [1], draws=0).to_dict()["performance"] is None


def test_of_many_classes_it_is_of_each_and_not_of_the_top_label() -> None:
    """Whose accuracy is another: that of the most probable class, which the report has already."""
    rng = np.random.default_rng(2)
    p = rng.dirichlet([1.0, 1.0, 1.0], 300)
    report = evaluate(p, rng.integers(0, 3, 300), draws=0)
    assert not isinstance(report, Report)
    assert report.top_label.performance is None
    assert all(each.performance is not None for each in report.each_class)
