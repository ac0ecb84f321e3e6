"""A calibrator is an estimator of scikit-learn, and gives what its maps give."""

import doctest
import pickle
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy.sparse import csr_matrix
from sklearn.base import clone
from sklearn.calibration import CalibratedClassifierCV
from sklearn.datasets import make_classification
from sklearn.exceptions import NotFittedError
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import log_loss
from sklearn.model_selection import GridSearchCV, StratifiedKFold, cross_val_predict, cross_val_score
from sklearn.naive_bayes import GaussianNB
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import LinearSVC
from sklearn.utils.estimator_checks import (
    check_estimator,
    check_estimator_cloneable,
    check_estimator_repr,
    check_get_params_invariance,
    check_no_attributes_set_in_init,
    check_set_params,
    parametrize_with_checks,
)

import monitor
import monitor.sklearn.calibrator
from monitor.maps import METHODS, LabelledEvents, apply_map, fit_map
from monitor.sklearn import Calibrator
from tests.long import short_of


def data(n: int = 1200, *, classes: int = 2, seed: int = 1) -> tuple[Any, Any]:
    """Features that repeat each other, of which a naive Bayes classifier is far too sure."""
    x, y = make_classification(
        n, 12, n_informative=4, n_redundant=6, n_classes=classes, flip_y=0.1, random_state=seed, shuffle=True
    )
    return x, y


@parametrize_with_checks(  # type: ignore[untyped-decorator]
    [
        Calibrator(LogisticRegression()),
        Calibrator(LogisticRegression(), method="temperature", cv=3),
        # The checks' folds of four rows are too few for any map but this one.
        Calibrator(LogisticRegression(), method="identity", cv=3, ensemble=True),
    ]
)
def test_scikit_learn_takes_it_for_an_estimator_of_its_own(estimator: Calibrator, check: Callable[[Any], None]) -> None:
    check(estimator)


@pytest.mark.parametrize("method", short_of(["isotonic", "vector_scaling", "histogram"], 1))
def test_of_other_methods_no_check_fails_but_for_too_few_rows(method: str) -> None:
    results = check_estimator(Calibrator(LogisticRegression(), method=method), on_skip=None, on_fail=None)
    failed = {one["check_name"]: str(one["exception"]) for one in results if one["status"] == "failed"}
    # Their weights are relative: these methods have terms that depend on the number of rows.
    assert {name for name, text in failed.items() if "labelled events, at least" not in text} <= {
        "check_sample_weight_equivalence_on_dense_data",
        "check_sample_weight_equivalence_on_sparse_data",
        "check_sample_weights_pandas_series",  # it does not say why the fit failed
    }
    assert sum(one["status"] == "passed" for one in results) > 40


@pytest.mark.parametrize(
    "check",
    [
        check_estimator_cloneable,
        check_estimator_repr,
        check_get_params_invariance,
        check_no_attributes_set_in_init,
        check_set_params,
    ],
)
def test_over_scores_it_is_an_estimator_too(check: Callable[[str, Any], None]) -> None:
    check("Calibrator", Calibrator())


@pytest.mark.parametrize("ensemble", [False, True])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("classes", [2, 3])
def test_folds_are_those_of_scikit_learns_own(classes: int, *, ensemble: bool, weighted: bool) -> None:
    x, y = data(classes=classes)
    weight = np.random.default_rng(1).integers(1, 5, y.size).astype(float) if weighted else None
    both = [
        each(LogisticRegression(), method="temperature", cv=4, ensemble=ensemble).fit(x, y, sample_weight=weight)
        for each in (Calibrator, CalibratedClassifierCV)
    ]
    np.testing.assert_allclose(both[0].predict_proba(x), both[1].predict_proba(x), atol=1e-5)
    assert len(both[0].maps_) == len(both[0].estimators_) == (4 if ensemble else 1)


def test_platt_scaling_is_scikit_learns_sigmoid_of_a_margin() -> None:
    x, y = data()
    ours = Calibrator(LogisticRegression(), method="platt", options={"smoothing": True}).fit(x, y)
    theirs = CalibratedClassifierCV(LogisticRegression(), method="sigmoid", ensemble=False).fit(x, y)
    np.testing.assert_allclose(ours.predict_proba(x), theirs.predict_proba(x), atol=1e-5)


def test_one_map_is_that_of_predictions_by_other_folds() -> None:
    x, y = data()
    folds = StratifiedKFold(3, shuffle=True, random_state=2)
    calibrated = Calibrator(GaussianNB(), method="isotonic", cv=folds).fit(x, y)
    crossed = cross_val_predict(GaussianNB(), x, y, cv=folds, method="predict_proba")
    expected = fit_map(METHODS["isotonic"], LabelledEvents.of(crossed[:, 1], y))
    assert calibrated.maps_[0].describe() == expected.describe()
    whole = GaussianNB().fit(x, y).predict_proba(x)[:, 1]
    np.testing.assert_array_equal(calibrated.predict_proba(x)[:, 1], apply_map(expected, whole))
    np.testing.assert_array_equal(monitor.apply(calibrated.maps_[0], whole), apply_map(expected, whole))


@pytest.mark.parametrize("classes", [2, 3])
@pytest.mark.parametrize("ensemble", [False, True])
def test_it_repairs_a_classifier_that_is_too_sure(classes: int, *, ensemble: bool) -> None:
    x, y = data(3000, classes=classes)
    words = np.array(["no", "perhaps", "yes"])[y]
    before = GaussianNB().fit(x[:2000], words[:2000])
    after = Calibrator(GaussianNB(), ensemble=ensemble).fit(x[:2000], words[:2000])
    assert after.method_ == ("beta" if classes == 2 else "beta_classwise")
    assert after.classes_.tolist() == before.classes_.tolist()
    losses = [log_loss(words[2000:], each.predict_proba(x[2000:])) for each in (before, after)]
    assert losses[1] < 0.95 * losses[0]
    assert set(after.predict(x[2000:])) <= set(before.classes_)


@pytest.mark.parametrize("method", ["temperature", "offset", "vector_scaling", "matrix_scaling"])
@pytest.mark.parametrize("classes", [2, 4])
def test_methods_of_vectors_take_any_number_of_classes(method: str, classes: int) -> None:
    x, y = data(classes=classes)
    p = Calibrator(GaussianNB(), method=method).fit(x, y).predict_proba(x)
    assert p.shape == (y.size, classes)
    np.testing.assert_allclose(p.sum(axis=1), 1.0)


def test_a_fold_without_a_class_gives_it_no_probability() -> None:
    x, y = data(900)
    y = np.where(np.arange(y.size) < 300, y, y + 1)
    folds = [(np.arange(300, 900), np.arange(300)), (np.arange(600), np.arange(600, 900))]
    calibrated = Calibrator(GaussianNB(), method="identity", cv=folds, ensemble=True).fit(x, y)
    assert [each.classes_.tolist() for each in calibrated.estimators_] == [[1, 2], [0, 1, 2]]
    assert calibrated.predict_proba(x).shape == (900, 3)
    np.testing.assert_allclose(
        calibrated.predict_proba(x)[:, 0], calibrated.estimators_[1].predict_proba(x)[:, 0] / 2.0
    )


def test_scores_at_hand_are_those_of_a_frozen_estimator() -> None:
    x, y = data()
    fitted = GaussianNB().fit(x[:600], y[:600])
    scores = fitted.predict_proba(x[600:])
    frozen = Calibrator(FrozenEstimator(fitted)).fit(x[600:], y[600:])
    expected = frozen.predict_proba(x[600:])
    for form in (scores, scores[:, 1], scores[:, 1:], pd.Series(scores[:, 1]), pd.DataFrame(scores)):
        calibrated = Calibrator().fit(form, y[600:])
        np.testing.assert_allclose(calibrated.predict_proba(form), expected, atol=1e-12)
        assert calibrated.transform(form).shape == form.shape
        assert calibrated.predict(form).tolist() == frozen.predict(x[600:]).tolist()
    np.testing.assert_array_equal(Calibrator().fit(scores, y[600:]).transform(scores[:, 1]), expected[:, 1])
    assert not hasattr(frozen, "transform")


def test_grids_pipelines_copies_and_processes() -> None:
    x, y = data(600)
    pipe = make_pipeline(StandardScaler(), Calibrator(LogisticRegression(), cv=3))
    grid = {"calibrator__estimator__C": [0.01, 1.0], "calibrator__method": ["beta", "platt", "isotonic"]}
    search = GridSearchCV(pipe, grid, scoring="neg_log_loss", cv=2, error_score="raise").fit(x, y)
    assert np.isfinite(search.cv_results_["mean_test_score"]).all()
    assert cross_val_score(search.best_estimator_, x, y, scoring="neg_log_loss").mean() > -0.7
    best = search.best_estimator_[-1]
    assert pickle.loads(pickle.dumps(best)).predict_proba(x).tolist() == best.predict_proba(x).tolist()
    with pytest.raises(NotFittedError):
        clone(best).predict_proba(x)


def test_tables_and_sparse_features_go_to_the_estimator() -> None:
    x, y = data(400)
    table = pd.DataFrame(x, columns=[f"f{number}" for number in range(12)], index=np.arange(400) + 7)
    for ensemble in (False, True):
        calibrated = Calibrator(LogisticRegression(), ensemble=ensemble)
        expected = calibrated.fit(x, y).predict_proba(x)
        assert calibrated.n_features_in_ == 12
        of_table = clone(calibrated).fit(table, pd.Series(y, index=table.index))
        assert of_table.feature_names_in_.tolist() == table.columns.tolist()
        np.testing.assert_allclose(of_table.predict_proba(table), expected, atol=1e-9)
        of_sparse = clone(calibrated).fit(csr_matrix(x), y).predict_proba(csr_matrix(x))
        np.testing.assert_allclose(of_sparse, expected, atol=1e-3)


@pytest.mark.parametrize("method", ["offset", "temperature", "platt", "beta", "platt_classwise"])
def test_a_weight_is_a_number_of_equal_rows(method: str) -> None:
    rng = np.random.default_rng(3)
    p = rng.dirichlet(np.ones(3 if "classwise" in method else 2), 200)
    y = rng.integers(0, p.shape[1], 200)
    weight = rng.integers(0, 4, 200)
    weighted = Calibrator(method=method).fit(p, y, sample_weight=weight)
    repeated = Calibrator(method=method).fit(p.repeat(weight, axis=0), y.repeat(weight))
    np.testing.assert_allclose(weighted.predict_proba(p), repeated.predict_proba(p), atol=1e-6)
    assert not np.allclose(weighted.predict_proba(p), Calibrator(method=method).fit(p, y).predict_proba(p), atol=1e-3)


WEIGHED = [
    name
    for name, method in METHODS.items()
    if name != "identity" and not method.needs_features and not method.needs_segments
]


@pytest.mark.parametrize("method", WEIGHED)
def test_every_map_takes_weights(method: str) -> None:
    rng = np.random.default_rng(3)
    p = rng.dirichlet(np.ones(3 if not METHODS[method].binary else 2), 2000)
    y = np.array([rng.choice(row.size, p=row) for row in p])
    # Class 0 is counted four times: its probability rises.
    weight = np.where(y == 0, 4.0, 1.0)
    plain, weighted = (
        Calibrator(method=method).fit(p, y, sample_weight=one).predict_proba(p) for one in (None, weight)
    )
    if method in {"temperature", "mmce_temperature"}:
        assert not np.allclose(plain, weighted, atol=1e-3)  # a temperature moves all alike
    else:
        assert weighted[:, 0].mean() > plain[:, 0].mean() + 0.1


def test_an_estimator_without_weights_is_fitted_without_them_and_says_so() -> None:
    x, y = data(300)
    weight = np.where(y == 1, 3.0, 1.0)
    plain = Calibrator(KNeighborsClassifier()).fit(x, y)
    with pytest.warns(UserWarning, match="KNeighborsClassifier takes no sample_weight: the weights are for the map"):
        weighted = Calibrator(KNeighborsClassifier()).fit(x, y, sample_weight=weight)
    assert weighted.predict_proba(x)[:, 1].mean() > plain.predict_proba(x)[:, 1].mean() + 0.05


@pytest.mark.parametrize(
    ("fit", "message"),
    [
        (lambda x, y: Calibrator(LinearSVC()).fit(x, y), "LinearSVC has no predict_proba"),
        (lambda x, y: Calibrator(GaussianNB(), method="bta").fit(x, y), "no recalibration method 'bta'; did you mean"),
        (lambda x, y: Calibrator(GaussianNB(), method="lore").fit(x, y), "lore needs features, which a Calibrator"),
        (lambda x, y: Calibrator(GaussianNB(), method="group_wise_beta").fit(x, y), "group_wise_beta needs groups"),
        (lambda x, y: Calibrator(GaussianNB(), options={"bins": 3}).fit(x, y), "beta has no option 'bins'"),
        (lambda x, y: Calibrator(GaussianNB(), ensemble=True).fit(x[:30], y[:30]), "at least 10 are needed"),
        (lambda x, y: Calibrator(GaussianNB()).fit(x, np.zeros_like(y)), r"two classes or more, got 1 class: \[0\]"),
        (lambda x, y: Calibrator(GaussianNB()).fit(x, y, sample_weight=y - 1.0), "sample_weight must be finite and at"),
        (lambda x, y: Calibrator(GaussianNB()).fit(x, y, sample_weight=y * 0), "not be zero for all rows"),
        (lambda x, y: Calibrator().fit(x, y), "X holds predictions of 12 classes, and y has 2"),
        (lambda x, y: Calibrator().fit(x[:, 0], y), r"prediction must be in \[0, 1\]"),
    ],
)
def test_mistakes_are_value_errors_that_say_what_to_do(fit: Callable[[Any, Any], object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        fit(*data(300))


def test_the_examples() -> None:
    result = doctest.testmod(monitor.sklearn.calibrator)
    assert result.attempted > 3
    assert result.failed == 0
