"""A classifier of scikit-learn whose predictions are logged."""

from collections.abc import Iterable
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator, ClassifierMixin, MetaEstimatorMixin
from sklearn.utils.validation import check_is_fitted

from monitor.arrays import Floats
from monitor.logging.logger import PredictionLogger, Time

_BINARY = 2


class MonitoredClassifier(ClassifierMixin, MetaEstimatorMixin, BaseEstimator):  # type: ignore[misc]  # untyped
    """Wraps a classifier; :meth:`predict_proba` logs what it returns.

    Clones share the logger. Sent to another process, it makes a logger there with the same arguments.

    Parameters
    ----------
    estimator
        A classifier with ``predict_proba``, fitted or not.
    logger
        Logs the predictions: P(y = 1) of two classes, else the probabilities of all.
    log_features
        Whether the inputs are logged too, for recalibration maps that use them. They must be numbers.
    """

    def __init__(self, estimator: Any, logger: PredictionLogger, *, log_features: bool = False) -> None:
        self.estimator = estimator
        self.logger = logger
        self.log_features = log_features

    def fit(self, X: Any, y: ArrayLike, **parameters: Any) -> Self:  # noqa: N803 - scikit-learn's name
        """Fit the wrapped classifier."""
        self.estimator.fit(X, y, **parameters)
        return self

    def predict(self, X: Any) -> Any:  # noqa: N803
        """Predict classes. They are not logged: they are no probabilities."""
        return self.estimator.predict(X)

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
        probabilities: Floats = np.asarray(self.estimator.predict_proba(X))
        p = probabilities[:, 1] if probabilities.shape[1] == _BINARY else probabilities
        self.logger.log_many(p, ids, ts, X if self.log_features else None, segments)
        return probabilities

    @property
    def classes_(self) -> Any:
        """The classes of the wrapped classifier."""
        return self.estimator.classes_

    def __sklearn_is_fitted__(self) -> bool:
        check_is_fitted(self.estimator)
        return True
