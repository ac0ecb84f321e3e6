"""What maps check of the parts that they are made of again."""

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from monitor.errors import CorruptMap
from monitor.maps.base import MapParts
from monitor.scores.arguments import number_text

Floats = NDArray[np.float64]


def setting(parts: MapParts, key: str) -> Any:
    """A setting, of any kind. Raises CorruptMap where there is none."""
    if key not in parts.settings:
        raise CorruptMap(f"the map has no setting {key!r}")
    return parts.settings[key]


def number(parts: MapParts, key: str, low: float, high: float) -> float:
    """A finite number from low to high. Raises CorruptMap."""
    value = setting(parts, key)
    if isinstance(value, bool) or not isinstance(value, int | float) or not low <= value <= high:
        raise CorruptMap(f"{key} must be a number from {low:g} to {high:g}, got {value!r}")
    if not np.isfinite(value):
        raise CorruptMap(f"{key} must be finite, got {value!r}")
    return float(value)


def whole(parts: MapParts, key: str, least: int) -> int:
    """A whole number of at least ``least``. Raises CorruptMap."""
    value = setting(parts, key)
    if isinstance(value, bool) or not isinstance(value, int) or value < least:
        raise CorruptMap(f"{key} must be a whole number of at least {least}, got {value!r}")
    return value


def choice(parts: MapParts, key: str, allowed: tuple[str, ...]) -> str:
    """One of some words. Raises CorruptMap."""
    value = setting(parts, key)
    if value not in allowed:
        raise CorruptMap(f"{key} must be one of {', '.join(allowed)}, got {value!r}")
    return str(value)


def words(parts: MapParts, key: str) -> tuple[str, ...]:
    """A list of different texts. Raises CorruptMap."""
    value = setting(parts, key)
    if not isinstance(value, list | tuple) or not all(isinstance(word, str) for word in value):
        raise CorruptMap(f"{key} must be a list of texts, got {value!r}")
    if len(set(value)) != len(value):
        raise CorruptMap(f"{key} must not name the same twice, got {value!r}")
    return tuple(value)


def column(
    parts: MapParts, name: str, *, low: float = -np.inf, high: float = np.inf, rising: bool = False, least: int = 0
) -> Floats:
    """A finite array of one dimension, in [low, high]; if ``rising``, strictly ascending. Raises CorruptMap."""
    values = _array(parts.arrays, name, 1)
    if values.size < least:
        raise CorruptMap(f"{name} must hold at least {least} numbers, got {values.size}")
    _within(name, values, low, high)
    if rising and not (np.diff(values) > 0.0).all():
        raise CorruptMap(f"{name} must be strictly ascending")
    return values


def matrix(parts: MapParts, name: str, shape: tuple[int, int], *, low: float, high: float) -> Floats:
    """A finite array of this shape, in [low, high]. Raises CorruptMap."""
    values = _array(parts.arrays, name, 2)
    if values.shape != shape:
        raise CorruptMap(f"{name} must have the shape {shape}, got {values.shape}")
    _within(name, values, low, high)
    return values


def _array(arrays: Mapping[str, NDArray[Any]], name: str, dimensions: int) -> Floats:
    if name not in arrays:
        raise CorruptMap(f"the map has no array {name!r}")
    array = np.asarray(arrays[name])
    if array.ndim != dimensions or array.dtype.kind not in "fi":
        raise CorruptMap(f"{name} must be numbers in {dimensions} dimensions, got {array.dtype} of {array.shape}")
    return np.ascontiguousarray(array, dtype=np.float64)


def _within(name: str, values: Floats, low: float, high: float) -> None:
    wrong = ~(np.isfinite(values) & (values >= low) & (values <= high))
    if wrong.any():
        raise CorruptMap(f"{name} must be finite and from {low:g} to {high:g}, got {number_text(values[wrong][0])}")
