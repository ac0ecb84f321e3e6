"""Fit and apply maps, with the checks of input that methods and maps rely on."""

import math
import operator
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final

import numpy as np
from numpy.typing import ArrayLike, NDArray

from monitor.arrays import Floats
from monitor.errors import CorruptMap, InputError
from monitor.maps.base import Method, MethodOption, OptionValue, RecalibrationMap
from monitor.maps.identity import Identity
from monitor.scores import ClassTable
from monitor.scores.arguments import numbers, require_same_index
from monitor.scores.class_table import SUM_TOLERANCE, positive_class
from monitor.scores.labelled import LabelledEvents, feature_table
from monitor.scores.table import check

_MAX_INTEGER: Final = 2**63 - 1


def check_options(method: Method, options: Mapping[str, Any]) -> dict[str, OptionValue]:
    """Check the options of a fit and fill in defaults.

    Raises
    ------
    InputError
        An option is not the method's, or its value is out of its range. Names key and value.
    """
    for name in options:
        if name not in method.options:
            allowed = ", ".join(method.options) or "none"
            raise InputError(f"{method.name} has no option {name!r}; it has {allowed}")
    return {
        name: _check_option(method.name, name, option, options.get(name, option.default))
        for name, option in method.options.items()
    }


def fit_map(method: Method, events: LabelledEvents, options: Mapping[str, Any] | None = None) -> RecalibrationMap:
    """Fit a map; a method for P(y = 1) takes it from vectors of two classes, as its map does.

    Raises
    ------
    NotEnoughData
        There are too few events, or too few of an outcome.
    InputError
        An option is wrong, or the events lack what the method needs.
    """
    checked = check_options(method, options or {})
    if events.is_binary and not method.binary:
        raise InputError(f"{method.name} is for predictions over several classes, and these are P(y = 1)")
    if not method.many_classes and not events.is_binary and events.classes == 2:
        events = replace(events, prediction=positive_class(events.prediction))
    if not events.is_binary and not method.many_classes:
        raise InputError(f"{method.name} is for predictions P(y = 1), and these are over {events.classes} classes")
    if method.needs_features and events.features is None:
        raise InputError(f"{method.name} needs features, and these events have none: send them with the predictions")
    if method.needs_segments and not events.segments:
        raise InputError(f"{method.name} needs segments, and these events have none: declare them for the model")
    return method.fit(events, checked)


def apply_map(
    chosen: RecalibrationMap,
    prediction: ArrayLike,
    *,
    features: ArrayLike | None = None,
    segments: Mapping[str, ArrayLike] | None = None,
) -> Floats:
    """Recalibrate predictions.

    Parameters
    ----------
    prediction
        Shape (n,): P(y = 1); or (n, K).
    features
        Shape (n, D), where the map uses features. Ignored where it does not.
    segments
        Key -> text, shape (n,). Only the map's own ``segment_key`` is read.

    Returns
    -------
    float64, of the shape of ``prediction``.

    Raises
    ------
    InputError
        A value is out of its range, features or segments that the map needs are missing, or shapes do not fit.
    CorruptMap
        The map gives something else than probabilities.
    """
    require_same_index(prediction=prediction, features=features, segments=segments)
    p = _predictions(chosen, prediction)
    x: Floats | None = None
    if chosen.feature_count is not None:
        if features is None:
            raise InputError(f"the map needs {chosen.feature_count} features an event, and there are none")
        x = feature_table(features)
        if x.shape != (p.shape[0], chosen.feature_count):
            raise InputError(
                f"features must have the shape ({p.shape[0]}, {chosen.feature_count}) for this map, got {x.shape}"
            )
    group: NDArray[np.str_] | None = None
    if chosen.segment_key is not None:
        if segments is None or chosen.segment_key not in segments:
            raise InputError(f"the map needs the segment {chosen.segment_key!r} of each event")
        group = np.asarray(segments[chosen.segment_key], np.str_)
        if group.shape != p.shape[:1]:
            raise InputError(
                f"segment {chosen.segment_key!r} must have one value for each of {p.shape[0]} events, "
                f"got shape {group.shape}"
            )
    if p.shape[0] == 0:
        return p
    result = chosen.apply(p, x, group)
    rows = result.reshape(p.shape[0], -1)
    total = 1.0 if p.ndim == 1 else rows.sum(axis=1)
    wrong = ~(((rows >= 0.0) & (rows <= 1.0)).all(axis=1) & (np.abs(total - 1.0) <= SUM_TOLERANCE))
    if wrong.any():
        at = int(np.argmax(wrong))
        raise CorruptMap(
            f"the map takes the prediction {p[at].tolist()} to {result[at].tolist()}, which is no probability: "
            "roll back to the map before, and fit another"
        )
    return result


def apply_serving_map(
    serving: RecalibrationMap | None,
    prediction: ArrayLike,
    *,
    features: ArrayLike | None = None,
    segments: Mapping[str, ArrayLike] | None = None,
    name: str,
) -> Floats:
    """Recalibrate a batch with the map that serves, or check and return the predictions if none serves.

    Parameters
    ----------
    serving
        The map; None where none serves.
    prediction, features, segments
        As for :func:`apply_map`. A batch without events is allowed, whatever map serves.
    name
        Name of the map in error messages.

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
    if p.shape == (0,) and all(map(_is_empty, others)):
        # An empty batch does not show how many classes or features its events have.
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
        # Lists of different lengths: the function that reads them reports it.
        return False


def _predictions(chosen: RecalibrationMap, prediction: ArrayLike) -> Floats:
    p = np.ascontiguousarray(numbers("prediction", prediction))
    if chosen.classes == 2 and p.ndim == 1:
        check(p, (p >= 0.0) & (p <= 1.0), "prediction must be in [0, 1]")
        return p
    if p.ndim != 2 or p.shape[1] != chosen.classes:
        expected = "(n,)" if chosen.classes == 2 else f"(n, {chosen.classes})"
        raise InputError(f"prediction must have the shape {expected} for this map, got {p.shape}")
    return ClassTable.from_events(p, np.zeros(p.shape[0])).prediction


def _check_option(method: str, name: str, option: MethodOption, value: Any) -> OptionValue:
    if value is None:
        if option.default is not None:
            raise InputError(f"option {name} of {method} must not be null")
        return None
    where = f"option {name} of {method}"
    if option.kind == "flag":
        if not isinstance(value, bool):
            raise InputError(f"{where} must be true or false, got {value!r}")
        return value
    if option.kind == "text":
        if not isinstance(value, str) or (option.choices and value not in option.choices):
            allowed = f"one of {', '.join(option.choices)}" if option.choices else "text"
            raise InputError(f"{where} must be {allowed}, got {value!r}")
        return value
    number = _check_number(where, option, value)
    for limit, holds, words in (
        (option.above, operator.gt, "above"),
        (option.at_least, operator.ge, "at least"),
        (option.at_most, operator.le, "at most"),
    ):
        if limit is not None and not holds(number, limit):
            raise InputError(f"{where} must be {words} {limit:g}, got {value!r}")
    return number


def _check_number(where: str, option: MethodOption, value: Any) -> int | float:
    """Return the value as a number of the option's kind: an integer of at most 64 bits, or a float that is not nan."""
    if option.kind == "whole":
        if isinstance(value, bool) or not isinstance(value, int | np.integer):
            raise InputError(f"{where} must be a whole number, got {value!r}")
        if abs(int(value)) > _MAX_INTEGER:
            raise InputError(f"{where} must be at most {_MAX_INTEGER} in size, got one of {_digits(value)} digits")
        return int(value)
    if isinstance(value, bool) or not isinstance(value, int | float) or value != value:  # noqa: PLR0124 - nan
        raise InputError(f"{where} must be a number, got {value!r}")
    try:
        return float(value)
    except OverflowError:
        raise InputError(f"{where} must be a number that a float64 holds, got one of {_digits(value)} digits") from None


def _digits(value: Any) -> int:
    """Count decimal digits."""
    # Python refuses to format integers of more than 4,300 digits.
    return int(math.log10(abs(int(value)))) + 1
