"""Maps that are made of other maps: how their parts are put together, and taken apart again."""

from collections.abc import Callable, Sequence
from typing import Any

from numpy.typing import NDArray

from monitor.errors import CorruptMap
from monitor.maps import reading
from monitor.maps.base import MapParts, RecalibrationMap


def join_parts(settings: dict[str, Any], inner: Sequence[RecalibrationMap | None]) -> MapParts:
    """Parts of several maps in one.

    Their settings become the list ``maps``, null for None; the array ``value`` of the third is called ``2.value``.
    """
    each = [None if one is None else one.parts() for one in inner]
    return MapParts(
        settings={**settings, "maps": [None if parts is None else dict(parts.settings) for parts in each]},
        arrays={
            f"{place}.{name}": array
            for place, parts in enumerate(each)
            if parts is not None
            for name, array in parts.arrays.items()
        },
    )


def part_maps(parts: MapParts, load: Callable[[MapParts], RecalibrationMap]) -> list[RecalibrationMap | None]:
    """The maps of :func:`join_parts`. Raises CorruptMap, and says of which map."""
    listed = reading.setting(parts, "maps")
    if not isinstance(listed, list | tuple):
        raise CorruptMap(f"maps must be a list, got {listed!r}")
    # Sorted out in one go: of thousands of maps, each looking through all arrays would take seconds.
    arrays_of: dict[str, dict[str, NDArray[Any]]] = {}
    for name, array in parts.arrays.items():
        place, _, own = name.partition(".")
        arrays_of.setdefault(place, {})[own] = array
    found: list[RecalibrationMap | None] = []
    for number, settings in enumerate(listed):
        if settings is None:
            found.append(None)
            continue
        if not isinstance(settings, dict):
            raise CorruptMap(f"maps must hold settings, got {settings!r} at {number}")
        try:
            found.append(load(MapParts(settings, arrays_of.get(str(number), {}))))
        except CorruptMap as error:
            raise CorruptMap(f"map {number} of {len(listed)}: {error}") from error
    return found
