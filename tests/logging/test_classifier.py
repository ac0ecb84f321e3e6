"""A classifier of scikit-learn whose predictions are logged: it behaves as one, and loses none."""

import copy
import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.datasets import make_classification
from sklearn.exceptions import NotFittedError
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV
from sklearn.naive_bayes import GaussianNB
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import check_estimator
from sklearn.utils.validation import check_is_fitted

from monitor.events.features import read_features
from monitor.logging import File, MonitoredClassifier, PredictionLogger


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "events.jsonl"


def logged(file: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in file.read_text("utf-8").splitlines()]


def test_what_it_returns_is_what_is_logged(file: Path) -> None:
    x, y = make_classification(300, 4, random_state=1)
    table = pd.DataFrame(x, columns=list("abcd"))
    with PredictionLogger("churn", "7", to=File(file)) as predictions:
        model = MonitoredClassifier(LogisticRegression(), predictions, log_features=True).fit(table, y)
        orders = [f"order-{row}" for row in range(300)]
        region = {"region": np.where(x[:, 0] > 0, "eu", "us")}
        p = model.predict_proba(table, ids=orders, segments=region)
        assert model.predict(table).tolist() == p.argmax(axis=1).tolist()
    events = logged(file)
    assert p.tolist() == LogisticRegression().fit(table, y).predict_proba(table).tolist()
    assert [event["p"] for event in events] == p[:, 1].tolist()
    assert [event["id"] for event in events] == orders
    assert [event["segments"]["region"] for event in events] == region["region"].tolist()
    features = read_features(json.dumps(events[7]["features"]).encode())
    assert features is not None
    assert features.tolist() == x[7].astype(np.float32).tolist()


def test_all_probabilities_of_several_classes_are_logged(file: Path) -> None:
    x, y = make_classification(200, 5, n_informative=4, n_redundant=0, n_classes=3, random_state=1)
    with PredictionLogger("triage", to=File(file)) as predictions:
        p = MonitoredClassifier(LogisticRegression(), predictions).fit(x, y).predict_proba(x)
    assert [event["p"] for event in logged(file)] == p.tolist()


def test_it_is_an_estimator(file: Path) -> None:
    x, y = make_classification(200, 4, random_state=1)
    with PredictionLogger("churn", to=File(file)) as predictions:
        model = MonitoredClassifier(LogisticRegression(C=2.0), predictions)
        assert model.get_params()["estimator__C"] == 2.0
        twin = clone(model).set_params(estimator__C=3.0)
        assert twin.logger is predictions
        assert (twin.estimator.C, model.estimator.C) == (3.0, 2.0)
        with pytest.raises(NotFittedError):
            check_is_fitted(twin)
        twin.fit(x, y)
        check_is_fitted(twin)
        assert twin.classes_.tolist() == [0, 1]
        assert 0.5 < twin.score(x, y) <= 1.0
        search = GridSearchCV(make_pipeline(StandardScaler(), model), {"monitoredclassifier__estimator__C": [0.1, 1.0]})
        search.fit(x, y)
        assert search.predict_proba(x).shape == (200, 2)
    assert len(logged(file)) == 200


@pytest.mark.filterwarnings("ignore:divide by zero")  # of the naive Bayes classifier
def test_scikit_learn_takes_it_for_an_estimator_of_its_own(file: Path) -> None:
    with PredictionLogger("churn", to=File(file)) as predictions:
        check_estimator(MonitoredClassifier(GaussianNB(), predictions), on_skip=None)


def test_a_fitted_classifier_is_used_at_once_and_never_fitted_again(file: Path) -> None:
    x, y = make_classification(100, 4, random_state=1)
    fitted = LogisticRegression().fit(x, y)
    before = fitted.coef_.copy()
    with PredictionLogger("churn", to=File(file)) as predictions:
        model = MonitoredClassifier(fitted, predictions)
        check_is_fitted(model)
        assert (model.classes_.tolist(), model.n_features_in_) == ([0, 1], 4)
        assert model.predict_proba(x).tolist() == fitted.predict_proba(x).tolist()
        refitted = clone(model).fit(x, 1 - y)
        assert refitted.predict(x).tolist() == (1 - fitted.predict(x)).tolist()
        frozen = MonitoredClassifier(FrozenEstimator(fitted), predictions).fit(x, 1 - y)
        assert frozen.predict_proba(x).tolist() == fitted.predict_proba(x).tolist()
    assert fitted.coef_.tolist() == before.tolist()
    assert len(logged(file)) == 200


def test_in_another_process_it_logs_too(file: Path) -> None:
    x, y = make_classification(50, 4, random_state=1)
    with PredictionLogger("churn", "7", to=File(file)) as predictions:
        model = MonitoredClassifier(LogisticRegression(), predictions).fit(x, y)
        # What is sent to another process is taken apart and put together by the same protocol.
        with copy.copy(predictions) as there:
            MonitoredClassifier(copy.deepcopy(model.estimator_), there).predict_proba(x)
    assert [event["version"] for event in logged(file)] == ["7"] * 50
