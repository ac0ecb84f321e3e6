"""Outcomes in scikit-learn's forms, as 0 and 1 or as numbers of classes."""

from collections.abc import Sequence
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from monitor.arrays import Floats, Ints
from monitor.scores.arguments import numbers

_TWO: Final = 2


class Outcomes(NamedTuple):
    """Predictions and outcomes as measures take them."""

    prediction: Floats
    """P(y = 1), shape (n,); or of more than two classes (n, K)."""
    outcome: Ints
    """0 or 1; or the column of the class that came true."""


def read_outcomes(y_true: ArrayLike, y_prob: ArrayLike, pos_label: Any, labels: Sequence[Any] | None) -> Outcomes:
    """Read outcomes and predictions, without checks of the predictions' range.

    Raises
    ------
    ValueError
        It is not clear which outcome, or which column, is meant; or shapes do not fit.
    InputError
        Predictions are not numbers.
    """
    y, p = np.asarray(y_true), numbers("y_prob", y_prob)
    if y.ndim != 1 or p.ndim not in {1, _TWO} or y.size != len(p) or not y.size:
        raise ValueError(
            f"y_true must have the shape (n,) and y_prob (n,) or (n, K), n above 0, got {y.shape} and {p.shape}"
        )
    if y.dtype.kind == "f" and np.isnan(y).any():
        raise ValueError("y_true must hold an outcome for each row, and some are nan: leave these rows out")
    if p.ndim == _TWO and p.shape[1] > _TWO:
        return Outcomes(p, _codes(y, np.unique(y) if labels is None else np.asarray(labels), p.shape[1]))
    event = _event(y, labels) if pos_label is None else pos_label
    others = np.unique(y[y != event])
    if others.size > 1:
        raise ValueError(f"y_true must hold two classes, got {event!r} and {others.tolist()}")
    if p.ndim == 1:
        return Outcomes(p, (y == event).astype(np.int64))
    if p.shape[1] != _TWO:
        raise ValueError(f"y_prob must have the shape (n,) or a column for each class, got {p.shape}")
    # The columns are in the order of the classes, so that of the event is the first where it is the smaller label.
    is_first = labels[0] == event if labels is not None else bool(others.size and event < others[0])
    return Outcomes(np.ascontiguousarray(p[:, 0 if is_first else 1]), (y == event).astype(np.int64))


def _event(y: NDArray[Any], labels: Sequence[Any] | None) -> Any:
    """The outcome that predictions are of: 1 of 0 and 1, or of -1 and 1; else the second label."""
    if labels is not None:
        if len(labels) != _TWO:
            raise ValueError(f"labels must name two classes, got {list(labels)}")
        return labels[1]
    values = np.unique(y).tolist()
    if set(values) <= {0, 1} or set(values) <= {-1, 1}:
        return 1
    raise ValueError(f"y_true holds {values}: say which of them y_prob is the probability of, pos_label={values[-1]!r}")


def _codes(y: NDArray[Any], classes: NDArray[Any], columns: int) -> Ints:
    """The column of each outcome."""
    if classes.size != columns:
        raise ValueError(
            f"y_prob has {columns} columns, and there are {classes.size} classes: name that of each column with "
            "labels, such as labels=model.classes_"
        )
    hits = y[:, None] == classes[None, :]
    if not hits.any(axis=1).all():
        raise ValueError(f"y_true holds {y[np.argmin(hits.any(axis=1))].item()!r}, which is none of {classes.tolist()}")
    return np.asarray(hits.argmax(axis=1), np.int64)
