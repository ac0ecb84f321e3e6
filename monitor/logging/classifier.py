"""A classifier of scikit-learn whose predictions are logged."""

from collections.abc import Iterable
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator, ClassifierMixin, MetaEstimatorMixin, clone
from sklearn.utils import Tags, get_tags
from sklearn.utils.validation import check_is_fitted

from monitor.arrays import Floats
from monitor.logging.logger import PredictionLogger, Time

_BINARY = 2


class MonitoredClassifier(MetaEstimatorMixin, ClassifierMixin, BaseEstimator):  # type: ignore[misc]  # untyped
    """Wraps a classifier; :meth:`predict_proba` logs what it returns.

    Clones share the logger. Sent to another process, it makes a logger there with the same arguments.

    Parameters
    ----------
    estimator
        A classifier with ``predict_proba``. One that is fitted can be used at once; :meth:`fit` fits a clone.
    logger
        Logs the predictions: P(y = 1) of two classes, else the probabilities of all.
    log_features
        Whether the inputs are logged too, for recalibration maps that use them. They must be numbers.

    Attributes
    ----------
    estimator_
        The clone that :meth:`fit` fitted.
    """

    def __init__(self, estimator: Any, logger: PredictionLogger, *, log_features: bool = False) -> None:
        self.estimator = estimator
        self.logger = logger
        self.log_features = log_features

    def fit(self, X: Any, y: ArrayLike, **parameters: Any) -> Self:  # noqa: N803 - scikit-learn's name
        """Fit a clone of the classifier."""
        self.estimator_ = clone(self.estimator).fit(X, y, **parameters)
        return self

    def predict(self, X: Any) -> Any:  # noqa: N803
        """Predict classes. They are not logged: they are no probabilities."""
        return self._fitted.predict(X)

    def predict_proba(
        self,
        X: Any,  # noqa: N803
        *,
        ids: Iterable[Any] | None = None,
        ts: Time | Iterable[Time] | None = None,
        segments: Any = None,
    ) -> Floats:
        """Predict probabilities, and log them.

        Parameters
        ----------
        X
            Shape (n, D).
        ids, ts, segments
            As of :meth:`PredictionLogger.log_many`: ids by which outcomes are logged later, times, and segments.

        Returns
        -------
        float64, shape (n, K).
        """
        probabilities: Floats = np.asarray(self._fitted.predict_proba(X))
        p = probabilities[:, 1] if probabilities.shape[1] == _BINARY else probabilities
        self.logger.log_many(p, ids, ts, X if self.log_features else None, segments)
        return probabilities

    @property
    def _fitted(self) -> Any:
        """The classifier that predicts."""
        return getattr(self, "estimator_", self.estimator)

    @property
    def classes_(self) -> Any:
        """The classes of the wrapped classifier."""
        return self._fitted.classes_

    @property
    def n_features_in_(self) -> int:
        """Number of columns that the wrapped classifier was fitted on."""
        number: int = self._fitted.n_features_in_
        return number

    @property
    def feature_names_in_(self) -> Any:
        """Their names, if all were texts."""
        return self._fitted.feature_names_in_

    def __sklearn_is_fitted__(self) -> bool:
        check_is_fitted(self._fitted)
        return True

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        wrapped = get_tags(self.estimator)
        tags.input_tags, tags.classifier_tags = wrapped.input_tags, wrapped.classifier_tags
        tags.classifier_tags.multi_label = False  # a prediction that is logged has one outcome
        return tags
