"""Columns of predictions and outcomes: one probability or those of several classes, and the true class."""

from collections.abc import Sequence
from itertools import chain
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from monitor.events.model import ClassVectors
from monitor.scores.class_table import SUM_TOLERANCE
from monitor.scores.probability_loops import normalise

_OF_TWO: Final = 2


class Predictions(NamedTuple):
    """The predictions of a batch."""

    value: NDArray[np.float64]
    """Shape (n,): P(y = 1), or the largest of several; nan where there is no valid one."""
    vectors: ClassVectors | None
    """Predictions of several classes; None if there are none."""


def read_predictions(
    written: Sequence[float | list[float] | None], is_outcome: NDArray[np.bool_], classes: NDArray[np.int32] | None
) -> Predictions:
    """Columns of the ``p`` of events.

    Parameters
    ----------
    written
        The value of each event's ``p``, in [0, 1]; ignored for outcomes.
    is_outcome
        bool, shape (n,).
    classes
        int32, shape (n,): declared number of classes of each event's model, 0 for a model of one probability; None if
        no model has several. For a model of one probability, a list of two means the second.
    """
    try:
        # None becomes nan. Numbers and lists side by side are refused; lists alone, all of one length, are not.
        value = np.array(written, np.float64)
    except ValueError:
        value = np.empty((0, 0))
    if value.ndim == 1:
        value += 0.0  # 0.0 for -0.0
        value[is_outcome] = np.nan
        if classes is not None:
            value[classes > 0] = np.nan
        return Predictions(value, None)
    return _read_lists(written, is_outcome, np.zeros(len(written), np.int32) if classes is None else classes)


def read_labels(written: Sequence[float | None], classes: NDArray[np.int32] | None) -> NDArray[np.int16]:
    """Column of the ``y`` of events, int16, shape (n,): 0 or 1, or a class; -1 if not valid.

    Parameters
    ----------
    written
        The value of each event's ``y``.
    classes
        As of :func:`read_predictions`.
    """
    label = np.array(written, np.float64)  # None becomes nan
    if classes is None:
        good = (label == 0) | (label == 1)
    else:
        of_several = classes > 0
        good = (label == np.floor(label)) & (label >= 0) & (label < np.where(of_several, classes, _OF_TWO))
        good &= ~of_several | np.array([not isinstance(y, bool) for y in written], np.bool_)
    return np.where(good, label, -1).astype(np.int16)


def _read_lists(
    written: Sequence[float | list[float] | None], is_outcome: NDArray[np.bool_], declared: NDArray[np.int32]
) -> Predictions:
    value = np.array([np.nan if isinstance(p, list) else p for p in written], np.float64) + 0.0
    value[is_outcome | (declared > 0)] = np.nan
    lists = [p if isinstance(p, list) else () for p in written]
    length = np.fromiter(map(len, lists), np.int64, len(lists))
    flat = np.fromiter(chain.from_iterable(lists), np.float64, int(length.sum())) + 0.0
    largest = np.empty(len(lists))
    normalise(flat, length, SUM_TOLERANCE, largest)
    adds_up = ~is_outcome & ~np.isnan(largest)
    of_two = adds_up & (declared == 0) & (length == _OF_TWO)
    value[of_two] = flat[np.cumsum(length)[of_two] - 1]
    of_several = adds_up & (declared > 0) & (length == declared)
    if not of_several.any():
        return Predictions(value, None)
    value[of_several] = largest[of_several]
    vectors = ClassVectors(np.where(of_several, length, 0).astype(np.int32), flat[np.repeat(of_several, length)])
    return Predictions(value, vectors)
