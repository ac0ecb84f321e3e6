"""A display draws the diagram of the report on what it was given."""

import numpy as np
import pandas as pd
import pytest
from matplotlib.figure import Figure
from sklearn.datasets import make_classification
from sklearn.linear_model import LogisticRegression
from sklearn.naive_bayes import GaussianNB

import monitor
from monitor.results import DataClassReport, DataReport
from monitor.sklearn import CalibrationDisplay


def test_an_estimator_is_drawn_with_its_report() -> None:
    x, y = make_classification(2000, 12, n_informative=4, n_redundant=6, random_state=1)
    words = np.where(y == 1, "yes", "no")
    model = GaussianNB().fit(x[:1000], words[:1000])
    display = CalibrationDisplay.from_estimator(model, x[1000:], words[1000:])
    assert isinstance(display.report, DataReport)
    p = pd.Series(model.predict_proba(x[1000:])[:, 1], name="GaussianNB")
    assert display.report == monitor.evaluate(p, y[1000:], measures=["smce", "ece"], draws=199)
    assert display.report.measures["smce"].significant
    assert display.ax_ in display.figure_.axes
    assert "shape" in display._repr_html_()
    other = CalibrationDisplay.from_estimator(model, x[1000:], words[1000:], pos_label="no")
    assert other.report.prevalence == pytest.approx(1.0 - display.report.prevalence)  # type: ignore[operator]


def test_predictions_are_drawn_into_axes() -> None:
    rng = np.random.default_rng(1)
    p = rng.random(500)
    axes = Figure().subplots()
    display = CalibrationDisplay.from_predictions(rng.random(500) < p, p, name="churn", ax=axes)
    assert display.ax_ is axes
    assert display.figure_ is axes.figure
    assert axes.get_xlabel() == "predicted probability"
    assert axes.lines
    assert repr(display.report).startswith("Calibration of churn: 500 predictions")


def test_of_many_classes_the_most_probable_is_drawn() -> None:
    x, y = make_classification(900, 8, n_informative=5, n_classes=3, random_state=1)
    words = np.array(["a", "b", "c"])[y]
    display = CalibrationDisplay.from_estimator(
        LogisticRegression().fit(x, words), x[words != "a"], words[words != "a"]
    )
    assert isinstance(display.report, DataClassReport)
    assert display.report.classes == 3
    with pytest.raises(ValueError, match="y_true holds"):
        CalibrationDisplay.from_predictions(["d"], [[0.2, 0.3, 0.5]], labels=["a", "b", "c"])
