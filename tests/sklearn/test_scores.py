"""The scores are the measures of a report, and work where scikit-learn takes scores."""

import pickle
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from sklearn.datasets import make_classification
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import brier_score_loss, log_loss, make_scorer
from sklearn.model_selection import GridSearchCV, StratifiedKFold, cross_val_score
from sklearn.naive_bayes import GaussianNB

import monitor
import monitor.sklearn
from monitor.classes import CLASS_MEASURES
from monitor.measures import MEASURES
from monitor.scores import ClassTable
from monitor.sklearn import Calibrator, ece_score, mmce_score, skce_score, smce_score

RNG = np.random.default_rng(5)
P = RNG.random(500)
Y = (RNG.random(500) < P**2).astype(int)
VECTORS = RNG.dirichlet(np.ones(3), 500)
CLASSES = RNG.integers(0, 3, 500)
WORDS = np.array(["a", "b", "c"])[CLASSES]


def score_of(name: str) -> Any:
    return getattr(monitor.sklearn, f"{name}_score")


def test_every_measure_has_a_score() -> None:
    scores = {name.removesuffix("_score") for name in dir(monitor.sklearn) if name.endswith("_score")}
    assert scores == {*MEASURES, *CLASS_MEASURES}
    assert all(score_of(name).__name__ == f"{name}_score" for name in scores)


@pytest.mark.parametrize("name", MEASURES)
def test_a_score_is_the_value_of_the_report(name: str) -> None:
    score, weight = score_of(name), np.arange(1.0, 501.0)
    expected = monitor.evaluate(P, Y, measures=[name], draws=0).measures[name].value
    assert score(Y, P) == pytest.approx(expected, rel=1e-12)
    assert score(Y.astype(bool), np.column_stack([1.0 - P, P])) == pytest.approx(expected, rel=1e-12)
    if MEASURES[name].needs_whole_counts:
        with pytest.raises(ValueError, match=f"sample_weight must be left out: {name} counts whole events"):
            score(Y, P, sample_weight=weight)
        return
    weighted = monitor.evaluate(P, Y, weight=weight, measures=[name], draws=0).measures[name].value
    assert score(Y, P, sample_weight=weight) == pytest.approx(weighted, rel=1e-12)
    if name not in CLASS_MEASURES:
        report = monitor.evaluate(VECTORS, CLASSES, measures=[name], draws=0)
        assert isinstance(report, monitor.results.DataClassReport)
        assert score(CLASSES, VECTORS) == pytest.approx(report.top_label.measures[name].value, rel=1e-12)


@pytest.mark.parametrize("name", CLASS_MEASURES)
def test_a_score_of_classes_is_the_value_of_the_report(name: str) -> None:
    expected = monitor.evaluate(VECTORS, CLASSES, measures=[name, "skce"], draws=0).measures[name].value
    assert score_of(name)(WORDS, VECTORS) == pytest.approx(expected, rel=1e-9)


def test_which_outcome_is_meant() -> None:
    words = np.where(Y == 1, "churned", "stays")
    expected = smce_score(Y, P)
    both = np.column_stack([P, 1.0 - P])  # "churned" comes first
    assert smce_score(2 * Y - 1, P) == expected
    assert smce_score(words, P, pos_label="churned") == expected
    assert smce_score(words, both, pos_label="churned") == expected
    assert smce_score(words, both, labels=["churned", "stays"]) == smce_score(1 - Y, 1.0 - P)
    assert smce_score(np.zeros(500), P) == pytest.approx(P.mean(), abs=0.2)
    assert skce_score(Y, P) == CLASS_MEASURES["skce"].value(ClassTable.from_events(np.c_[1.0 - P, P], Y))


def test_the_losses_are_those_of_scikit_learn() -> None:
    assert monitor.sklearn.brier_score(Y, P) == pytest.approx(brier_score_loss(Y, P))
    assert monitor.sklearn.log_loss_score(Y, P) == pytest.approx(log_loss(Y, P), rel=1e-6)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: smce_score(np.where(Y == 1, "yes", "no"), P), r"\['no', 'yes'\]: say which .* pos_label='yes'"),
        (lambda: smce_score(P, Y), "say which of them y_prob is the probability of"),
        (lambda: smce_score(CLASSES, P, pos_label=1), r"y_true must hold two classes, got 1 and \[0, 2\]"),
        (
            lambda: smce_score(WORDS[WORDS != "b"], VECTORS[WORDS != "b"]),
            "3 columns, and there are 2 classes: .*labels",
        ),
        (lambda: smce_score(WORDS, VECTORS, labels=["a", "b", "d"]), "y_true holds 'c', which is none of"),
        (lambda: smce_score(Y, P[:9]), r"got \(500,\) and \(9,\)"),
        (lambda: smce_score([], []), "n above 0"),
        (lambda: smce_score(np.where(Y == 1, 1.0, np.nan), P, pos_label=1), "some are nan: leave these rows out"),
        (lambda: smce_score(Y, P + 1.0), r"prediction must be in \[0, 1\]"),
        (lambda: smce_score(Y, P, sample_weight=-P), "sample_weight must be finite and at least 0"),
        (lambda: smce_score(Y, P, sample_weight=0.0 * P), "must not be zero for all rows"),
        (lambda: mmce_score(CLASSES, VECTORS, sample_weight=P), "sample_weight must be left out: mmce"),
        (lambda: skce_score([1], [0.5]), "needs at least"),
    ],
)
def test_mistakes_are_value_errors(call: Callable[[], object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        call()


@pytest.mark.parametrize("labels", [[0, 1], ["no", "yes"]])
def test_scorers_find_the_better_calibrated(labels: list[Any]) -> None:
    x, y = make_classification(1500, 12, n_informative=4, n_redundant=6, random_state=1)
    y = np.array(labels)[y]
    scorer = make_scorer(smce_score, response_method="predict_proba", greater_is_better=False, pos_label=labels[1])
    assert scorer._score_func is pickle.loads(pickle.dumps(smce_score))
    before, after = (cross_val_score(model, x, y, scoring=scorer) for model in (GaussianNB(), Calibrator(GaussianNB())))
    assert (after <= 0.0).all()
    assert after.mean() > before.mean() + 0.02
    search = GridSearchCV(Calibrator(GaussianNB()), {"method": ["identity", "beta"]}, scoring=scorer).fit(x, y)
    assert search.best_params_ == {"method": "beta"}
    (train, test) = next(StratifiedKFold().split(x, y))
    fitted = GaussianNB().fit(x[train], y[train])
    assert before[0] == -smce_score((y[test] == labels[1]).astype(int), fitted.predict_proba(x[test]))


def test_scorers_of_many_classes() -> None:
    x, y = make_classification(900, 8, n_informative=5, n_classes=3, random_state=1)
    scorer = make_scorer(ece_score, response_method="predict_proba", greater_is_better=False)
    values = cross_val_score(LogisticRegression(), x, np.array(["a", "b", "c"])[y], scoring=scorer)
    assert ((values < 0.0) & (values > -0.3)).all()
