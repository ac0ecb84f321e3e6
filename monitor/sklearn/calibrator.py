"""A classifier of scikit-learn whose probabilities are recalibrated by a map."""

import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Final, NamedTuple, Self, cast

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator, ClassifierMixin, MetaEstimatorMixin, clone
from sklearn.frozen import FrozenEstimator
from sklearn.model_selection import check_cv, cross_val_predict
from sklearn.utils import Tags, _safe_indexing, assert_all_finite, check_array, column_or_1d, get_tags, indexable
from sklearn.utils.metaestimators import available_if
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.parallel import Parallel, delayed
from sklearn.utils.validation import check_is_fitted, has_fit_parameter

from monitor.arrays import Floats, Ints
from monitor.errors import InputError, NotEnoughData
from monitor.maps import METHODS, LabelledEvents, Method, RecalibrationMap, apply_map, choose_method, fit_map

_BINARY: Final = 2


class Calibrator(MetaEstimatorMixin, ClassifierMixin, BaseEstimator):  # type: ignore[misc]  # untyped
    """Recalibrates a classifier, or scores that are at hand, by one of this package's maps.

    Over an ``estimator``, :meth:`fit` predicts each row by a clone that was not fitted on it, and fits the map on these
    predictions, as ``CalibratedClassifierCV`` does. An estimator in a ``FrozenEstimator`` is used as it is, and all
    rows are for the map. Without an estimator X holds the predictions themselves, as :meth:`predict_proba` of a
    classifier returned them; then there is :meth:`transform`, too.

    Parameters
    ----------
    estimator
        A classifier with ``predict_proba``; None where X holds predictions: shape (n,) or (n, 1), P(y = 1), or (n, K).
    method
        Name of the map, as ``monitor.recalibrate`` takes it: ``"beta"``, ``"platt"``, ``"isotonic"``,
        ``"temperature"``, ... For more than two classes a method of P(y = 1) is fitted class by class:
        ``"beta_classwise"`` for ``"beta"``. Methods of features or groups are left to ``monitor.recalibrate``.
    options
        Options of the method, such as ``{"parameters": "am"}``; its defaults where left out.
    cv
        Folds, as of ``CalibratedClassifierCV``: 5 if left out.
    ensemble
        False: one map on the predictions of all folds, over an estimator that is fitted on all rows. Little data is
        enough, and the map can be described and saved. True: an estimator and a map for each fold, whose probabilities
        are averaged; each map is fitted on its fold alone.
    n_jobs
        How many folds are fitted at the same time, as scikit-learn has it.

    Attributes
    ----------
    classes_
        The classes, shape (K,).
    maps_
        The fitted maps: one, or one for each fold. ``maps_[0]`` of one map can be applied by ``monitor.apply``.
    estimators_
        The fitted estimators, in the order of ``maps_``; empty where X holds predictions.
    method_
        Name of the method that was fitted.

    Examples
    --------
    >>> from sklearn.datasets import make_classification
    >>> from sklearn.naive_bayes import GaussianNB
    >>> X, y = make_classification(2000, n_redundant=10, random_state=1)
    >>> calibrated = Calibrator(GaussianNB(), method="beta").fit(X, y)
    >>> calibrated.predict_proba(X[:2]).round(2).shape
    (2, 2)
    """

    def __init__(
        self,
        estimator: Any = None,
        *,
        method: str = "beta",
        options: Mapping[str, Any] | None = None,
        cv: Any = None,
        ensemble: bool = False,
        n_jobs: int | None = None,
    ) -> None:
        self.estimator = estimator
        self.method = method
        self.options = options
        self.cv = cv
        self.ensemble = ensemble
        self.n_jobs = n_jobs

    def fit(self, X: Any, y: ArrayLike, sample_weight: ArrayLike | None = None) -> Self:  # noqa: N803 - scikit-learn's name
        """Fit the maps, and the estimators that they are over.

        Parameters
        ----------
        X
            Shape (n, D): features; without an estimator, predictions.
        y
            Classes, shape (n,).
        sample_weight
            How much each row counts beside the others, at least 0, shape (n,). Every map takes weights; an estimator
            that takes none is fitted without them, with a warning.

        Raises
        ------
        ValueError
            There are too few rows of a class for a fold or for the map, there is no such method or option, or a value
            is out of its range.
        """
        if y is None:
            raise ValueError("Calibrator requires y to be passed, but the target y is None")
        labels = column_or_1d(y, warn=True)
        assert_all_finite(labels, input_name="y")
        check_classification_targets(labels)
        X, labels = indexable(X, labels)  # noqa: N806
        weight = None if sample_weight is None else _weights(sample_weight, labels.size)
        self.classes_, codes = np.unique(labels, return_inverse=True)
        weighed = self.classes_ if weight is None else self.classes_[np.unique(codes[weight > 0.0])]
        if weighed.size < _BINARY:
            raise ValueError(f"y must hold two classes or more, got {weighed.size} class: {weighed.tolist()}")
        method = self._method(self.classes_.size)
        if self.estimator is None:
            self.estimators_: list[Any] = []
            self.maps_ = [self._map(method, _vectors(_scores(X), self.classes_.size), codes, weight)]
        elif not hasattr(self.estimator, "predict_proba"):
            raise ValueError(f"{type(self.estimator).__name__} has no predict_proba, and maps are of probabilities")
        else:
            self._fit_estimators(method, _Rows(X, labels, codes, weight, self._fit_arguments(weight)))
            for name in ("n_features_in_", "feature_names_in_"):
                if hasattr(self.estimators_[0], name):
                    setattr(self, name, getattr(self.estimators_[0], name))
        self.method_ = method.name
        return self

    def predict_proba(self, X: Any) -> Floats:  # noqa: N803
        """Return recalibrated probabilities, float64, shape (n, K), classes in the order of ``classes_``."""
        check_is_fitted(self)
        classes = self.classes_
        if not self.estimators_:
            return _apply(self.maps_[0], _vectors(_scores(X), classes.size))
        pairs = zip(self.estimators_, self.maps_, strict=True)
        return cast("Floats", np.mean([_apply(chosen, _predict(each, X, classes)) for each, chosen in pairs], axis=0))

    def predict(self, X: Any) -> Any:  # noqa: N803
        """Return the most probable class of each row, shape (n,)."""
        probabilities = self.predict_proba(X)
        return self.classes_[probabilities.argmax(axis=1)]

    @available_if(lambda self: self.estimator is None)  # type: ignore[untyped-decorator]
    def transform(self, X: Any) -> Floats:  # noqa: N803
        """Return recalibrated predictions in the shape of X: (n,), (n, 1) or (n, K)."""
        probabilities = self.predict_proba(X)
        scores = _scores(X)
        return probabilities if scores.ndim == 2 and scores.shape[1] > 1 else probabilities[:, 1].reshape(scores.shape)

    def _method(self, classes: int) -> Method:
        """The method of this name for so many classes."""
        with _as_value_error():
            method = choose_method(self.method)
        if method.needs_features or method.needs_segments:
            needed = "features" if method.needs_features else "groups"
            raise ValueError(
                f"{method.name} needs {needed}, which a Calibrator does not hand on: monitor.recalibrate does"
            )
        if classes > _BINARY and not method.many_classes:
            return METHODS[f"{method.name}_classwise"]
        return method

    def _fit_arguments(self, weight: Floats | None) -> dict[str, Any]:
        """Arguments of the estimator's fit, a value for each row."""
        if weight is None:
            return {}
        if has_fit_parameter(self.estimator, "sample_weight"):
            return {"sample_weight": weight}
        name = type(self.estimator).__name__
        warnings.warn(f"{name} takes no sample_weight: the weights are for the map alone", stacklevel=3)
        return {}

    def _fit_estimators(self, method: Method, rows: "_Rows") -> None:
        if isinstance(self.estimator, FrozenEstimator):
            self.estimators_ = [self.estimator]
            self.maps_ = [self._map(method, _predict(self.estimator, rows.X, self.classes_), rows.codes, rows.weight)]
            return
        cv = check_cv(self.cv, rows.y, classifier=True)
        if self.ensemble:
            fit = delayed(self._fit_fold)
            splits = cv.split(rows.X, rows.y)
            folds = Parallel(n_jobs=self.n_jobs)(fit(method, rows, fitted, held_out) for fitted, held_out in splits)
            self.estimators_, self.maps_ = map(list, zip(*folds, strict=True))
            return
        predicted = cross_val_predict(
            self.estimator, rows.X, rows.y, cv=cv, method="predict_proba", n_jobs=self.n_jobs, params=rows.fit_arguments
        )
        self.maps_ = [self._map(method, predicted, rows.codes, rows.weight)]
        self.estimators_ = [clone(self.estimator).fit(rows.X, rows.y, **rows.fit_arguments)]

    def _fit_fold(self, method: Method, rows: "_Rows", fitted: Ints, held_out: Ints) -> tuple[Any, RecalibrationMap]:
        """Fit the estimator on some rows, and a map on its predictions of the others."""
        some, others = rows.select(fitted), rows.select(held_out)
        estimator = clone(self.estimator).fit(some.X, some.y, **some.fit_arguments)
        return estimator, self._map(method, _predict(estimator, others.X, self.classes_), others.codes, others.weight)

    def _map(self, method: Method, predicted: Floats, codes: Ints, weight: Floats | None) -> RecalibrationMap:
        """Fit a map on predictions (n, K); rows of no weight are left out."""
        rows = slice(None) if weight is None else weight > 0.0
        with _as_value_error():
            events = LabelledEvents.of(predicted[rows], codes[rows], weight=None if weight is None else weight[rows])
            return fit_map(method, events, self.options)

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        if self.estimator is None:
            tags.input_tags.one_d_array, tags.input_tags.two_d_array = True, False
        else:
            tags.input_tags.sparse = get_tags(self.estimator).input_tags.sparse
        return tags


class _Rows(NamedTuple):
    """The rows that maps are fitted on."""

    X: Any
    y: Any
    codes: Ints
    weight: Floats | None
    fit_arguments: Mapping[str, Any]

    def select(self, rows: Ints) -> "_Rows":
        arguments = {name: value[rows] for name, value in self.fit_arguments.items()}
        weight = None if self.weight is None else self.weight[rows]
        return _Rows(_safe_indexing(self.X, rows), self.y[rows], self.codes[rows], weight, arguments)


@contextmanager
def _as_value_error() -> Iterator[None]:
    """Raise errors of arguments and data as scikit-learn does: a grid search, say, expects ValueError."""
    try:
        yield
    except (InputError, NotEnoughData) as error:
        raise ValueError(str(error)) from error


def _weights(sample_weight: ArrayLike, n: int) -> Floats:
    """Check weights, shape (n,)."""
    weight = np.asarray(sample_weight, np.float64)
    if weight.shape != (n,):
        raise ValueError(f"sample_weight must have the shape ({n},), got {weight.shape}: Sample weights must be 1D")
    if not ((weight >= 0.0) & np.isfinite(weight)).all():
        raise ValueError("sample_weight must be finite and at least 0")
    if not weight.any():
        raise ValueError("sample_weight must not be zero for all rows")
    return weight


def _scores(X: Any) -> Floats:  # noqa: N803
    """Predictions that are at hand, float64, shape (n,) or (n, K)."""
    return cast("Floats", check_array(X, dtype=np.float64, ensure_2d=False, input_name="X"))


def _vectors(scores: Floats, classes: int) -> Floats:
    """Predictions as probability vectors (n, K)."""
    if scores.ndim == 1 or scores.shape[1] == 1:
        positive = scores.ravel()
        scores = np.column_stack([1.0 - positive, positive])
    if scores.shape[1] != classes:
        raise ValueError(f"X holds predictions of {scores.shape[1]} classes, and y has {classes}")
    return scores


def _predict(estimator: Any, X: Any, classes: Any) -> Floats:  # noqa: N803
    """Probabilities (n, K) of a fitted estimator; 0 for a class that it was not fitted on."""
    predicted = np.asarray(estimator.predict_proba(X), np.float64)
    if len(estimator.classes_) == classes.size:
        return predicted
    whole = np.zeros((predicted.shape[0], classes.size))
    whole[:, np.searchsorted(classes, estimator.classes_)] = predicted
    return whole


def _apply(chosen: RecalibrationMap, predicted: Floats) -> Floats:
    with _as_value_error():
        return apply_map(chosen, predicted)
