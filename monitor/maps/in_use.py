"""What whoever serves predictions does with a batch: the map that serves is applied, or there is none."""

from collections.abc import Mapping

import numpy as np
from numpy.typing import ArrayLike, NDArray

from monitor.errors import InputError
from monitor.maps.base import RecalibrationMap
from monitor.maps.fitting import apply_map
from monitor.maps.identity import Identity
from monitor.scores.arguments import require_same_index

Floats = NDArray[np.float64]


def apply_in_use(
    serving: RecalibrationMap | None,
    prediction: ArrayLike,
    *,
    features: ArrayLike | None = None,
    segments: Mapping[str, ArrayLike] | None = None,
    name: str,
) -> Floats:
    """Recalibrated predictions; where no map serves, the predictions themselves, checked.

    Parameters
    ----------
    serving
        The map; None where none serves.
    prediction, features, segments
        As of :func:`monitor.maps.apply_map`. No event at all is no fault, whatever serves.
    name
        What to call the map in errors.

    Raises
    ------
    InputError
        A value is out of its range, features or segments that the map needs are missing, or shapes do not fit.
    """
    require_same_index(prediction=prediction, features=features, segments=segments)
    try:
        p = np.asarray(prediction, np.float64)
    except (TypeError, ValueError, OverflowError) as error:
        raise InputError("p must be numbers, or lists of numbers that are equally long") from error
    others = (() if features is None else features, *(segments or {}).values())
    if p.shape == (0,) and all(_is_empty(each) for each in others):
        # Of no event there is no telling how many classes or features it has.
        return p
    if serving is None:
        return apply_map(Identity(p.shape[1] if p.ndim == 2 else 2), p, features=features, segments=segments)
    try:
        return apply_map(serving, p, features=features, segments=segments)
    except InputError as error:
        raise InputError(f"{name}: {error}") from error


def _is_empty(values: ArrayLike) -> bool:
    try:
        return np.size(values) == 0
    except ValueError:
        # Lists that are not equally long: whoever needs them says so.
        return False
