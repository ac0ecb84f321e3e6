"""The parts of a map as an artifact stores them, with checks for reading them."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from monitor.arrays import Floats
from monitor.errors import CorruptMap
from monitor.scores.arguments import number_text


@dataclass(frozen=True)
class MapParts:
    """A map as plain values that any language can store.

    Attributes
    ----------
    settings
        Small values: JSON scalars, and lists and objects of them. No nan, no infinities.
    arrays
        Large values by name: arrays of float64, float32, int64 or int32, with one or two dimensions.
    """

    settings: Mapping[str, Any] = field(default_factory=dict)
    arrays: Mapping[str, NDArray[Any]] = field(default_factory=dict)


def setting(parts: MapParts, key: str) -> Any:
    """Return a setting of any type. Raises CorruptMap if it is missing."""
    if key not in parts.settings:
        raise CorruptMap(f"the map has no setting {key!r}")
    return parts.settings[key]


def number(parts: MapParts, key: str, low: float, high: float) -> float:
    """Return a finite number from low to high. Raises CorruptMap."""
    value = setting(parts, key)
    if isinstance(value, bool) or not isinstance(value, int | float) or not low <= value <= high:
        raise CorruptMap(f"{key} must be a number from {low:g} to {high:g}, got {value!r}")
    return float(value)


def whole(parts: MapParts, key: str, least: int) -> int:
    """Return a whole number of at least ``least``. Raises CorruptMap."""
    value = setting(parts, key)
    if isinstance(value, bool) or not isinstance(value, int) or value < least:
        raise CorruptMap(f"{key} must be a whole number of at least {least}, got {value!r}")
    return value


def flag(parts: MapParts, key: str) -> bool:
    """Return true or false. Raises CorruptMap."""
    value = setting(parts, key)
    if not isinstance(value, bool):
        raise CorruptMap(f"{key} must be true or false, got {value!r}")
    return value


def choice(parts: MapParts, key: str, allowed: tuple[str, ...]) -> str:
    """Return one of the allowed words. Raises CorruptMap."""
    value = setting(parts, key)
    if value not in allowed:
        raise CorruptMap(f"{key} must be one of {', '.join(allowed)}, got {value!r}")
    return str(value)


def words(parts: MapParts, key: str) -> tuple[str, ...]:
    """Return a list of distinct texts. Raises CorruptMap."""
    value = setting(parts, key)
    if not isinstance(value, list | tuple) or not all(isinstance(word, str) for word in value):
        raise CorruptMap(f"{key} must be a list of texts, got {value!r}")
    if len(set(value)) != len(value):
        raise CorruptMap(f"{key} must not contain duplicates, got {value!r}")
    return tuple(value)


def column(
    parts: MapParts, name: str, *, low: float = -np.inf, high: float = np.inf, rising: bool = False, least: int = 0
) -> Floats:
    """Return a finite array of one dimension in [low, high], strictly ascending if ``rising``. Raises CorruptMap."""
    values = _array(parts, name, 1, low, high)
    if values.size < least:
        raise CorruptMap(f"{name} must hold at least {least} numbers, got {values.size}")
    if rising and not (np.diff(values) > 0.0).all():
        raise CorruptMap(f"{name} must be strictly ascending")
    return values


def matrix(
    parts: MapParts, name: str, *, shape: tuple[int | None, int | None], low: float = -np.inf, high: float = np.inf
) -> Floats:
    """Return a finite array of two dimensions in [low, high]; None in ``shape`` allows any size above 0.

    Raises CorruptMap.
    """
    values = _array(parts, name, 2, low, high)
    expected = tuple(have if want is None else want for have, want in zip(values.shape, shape, strict=True))
    if values.shape != expected:
        raise CorruptMap(f"{name} must have the shape {expected}, got {values.shape}")
    if not values.size:
        raise CorruptMap(f"{name} must be a matrix that is not empty, got the shape {values.shape}")
    return values


def _array(parts: MapParts, name: str, dimensions: int, low: float, high: float) -> Floats:
    if name not in parts.arrays:
        raise CorruptMap(f"the map has no array {name!r}")
    array = np.asarray(parts.arrays[name])
    if array.ndim != dimensions or array.dtype.kind not in "fi":
        raise CorruptMap(f"{name} must be numbers in {dimensions} dimensions, got {array.dtype} of {array.shape}")
    values = np.ascontiguousarray(array, dtype=np.float64)
    wrong = ~(np.isfinite(values) & (values >= low) & (values <= high))
    if wrong.any():
        raise CorruptMap(f"{name} must be finite and from {low:g} to {high:g}, got {number_text(values[wrong][0])}")
    return values
