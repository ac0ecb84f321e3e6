"""Maps made of the maps of other methods: one for each class against the rest, or for each value of a segment key."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, ClassVar, Final, Self

import numpy as np
from numpy.typing import NDArray

from monitor.arrays import Floats
from monitor.errors import CorruptMap, NotEnoughData
from monitor.maps import beta, histogram, isotonic, offset, platt, temperature, vector_scaling
from monitor.maps.base import Groups, Method, MethodOption, PredictionMap, RecalibrationMap, apply_to_vectors
from monitor.maps.parts import MapParts, setting, words
from monitor.scores.labelled import NO_SEGMENT, LabelledEvents, group_indices, rows_by_group
from monitor.scores.probability_loops import normalise_rows


def join_parts(settings: Mapping[str, Any], maps: Sequence[RecalibrationMap | None]) -> MapParts:
    """Join the parts of several maps into one.

    Their settings become the list ``maps``, with null for None; the array ``value`` of the third is named ``2.value``.
    """
    inner = [None if one is None else one.parts() for one in maps]
    return MapParts(
        settings={**settings, "maps": [None if parts is None else dict(parts.settings) for parts in inner]},
        arrays={
            f"{place}.{name}": array
            for place, parts in enumerate(inner)
            if parts is not None
            for name, array in parts.arrays.items()
        },
    )


def load_joined(parts: MapParts, load: Callable[[MapParts], RecalibrationMap]) -> list[RecalibrationMap | None]:
    """Load the maps whose parts :func:`join_parts` joined. Raises CorruptMap with the number of the map."""
    listed = setting(parts, "maps")
    if not isinstance(listed, list | tuple):
        raise CorruptMap(f"maps must be a list, got {listed!r}")
    # One pass over the arrays: with thousands of maps, a search through all of them for each would take seconds.
    arrays_of: dict[str, dict[str, NDArray[Any]]] = {}
    for name, array in parts.arrays.items():
        place, _, inner_name = name.partition(".")
        arrays_of.setdefault(place, {})[inner_name] = array
    maps: list[RecalibrationMap | None] = []
    for index, settings in enumerate(listed):
        if settings is None:
            maps.append(None)
            continue
        if not isinstance(settings, dict):
            raise CorruptMap(f"maps must hold settings, got {settings!r} at {index}")
        try:
            maps.append(load(MapParts(settings, arrays_of.get(str(index), {}))))
        except CorruptMap as error:
            raise CorruptMap(f"map {index} of {len(listed)}: {error}") from error
    return maps


@dataclass(frozen=True, eq=False)
class Classwise(PredictionMap):
    """One map per class, then rows divided by their sums unless these are 1 within 1e-6.

    Attributes
    ----------
    inner
        The method of the classes' maps.
    maps
        K maps; None for a class that had too few events and keeps its probability.
    """

    inner: Method
    maps: tuple[RecalibrationMap | None, ...]

    @property
    def method(self) -> str:
        """Name of the method that fits it."""
        return f"{self.inner.name}_classwise"

    @property
    def classes(self) -> int:
        """Number K of classes."""
        return len(self.maps)

    def recalibrate(self, prediction: Floats) -> Floats:
        """Recalibrate predictions (n, K), or (n,) as vectors of two classes."""
        return apply_to_vectors(self._by_class, prediction)

    def _by_class(self, prediction: Floats) -> Floats:
        """Apply each class' map, then divide by the sum; a row whose classes all become 0 stays unchanged."""
        columns = zip(np.ascontiguousarray(prediction.T), self.maps, strict=True)
        result = np.column_stack([p if class_map is None else class_map.apply(p) for p, class_map in columns])
        all_zero = ~result.any(axis=1)
        result[all_zero] = prediction[all_zero]
        normalise_rows(result)
        return result

    def parts(self) -> MapParts:
        """Return the parts of the classes' maps."""
        return join_parts({}, self.maps)

    @classmethod
    def load(cls, inner: Method, parts: MapParts) -> "Classwise":
        """Build the map. Raises CorruptMap."""
        maps = load_joined(parts, inner.load)
        if len(maps) < 2:
            raise CorruptMap(f"maps must hold one for each of two classes or more, got {len(maps)}")
        return cls(inner, tuple(maps))

    def describe(self) -> str:
        """Describe the map."""
        text = f"{self.inner.title} of each of {self.classes} classes against the rest, then divided by their sum"
        unchanged = [str(label) for label, class_map in enumerate(self.maps) if class_map is None]
        if unchanged:
            text += (
                f"; without enough events to fit on, and as they are before the division: class {', '.join(unchanged)}"
            )
        return text


def _fit_classwise(inner: Method, events: LabelledEvents, options: Mapping[str, Any]) -> Classwise:
    """Fit one map per class. Raises NotEnoughData where no class has enough events."""
    maps: list[RecalibrationMap | None] = []
    reason: NotEnoughData | None = None
    for label in range(events.classes):
        one_class = replace(
            events,
            prediction=np.ascontiguousarray(events.prediction[:, label]),
            outcome=(events.outcome == label).astype(np.int64),
        )
        try:
            maps.append(inner.fit(one_class, options))
        except NotEnoughData as error:
            reason = error
            maps.append(None)
    if reason is not None and not any(maps):
        raise NotEnoughData(f"no class has enough events; of the last: {reason}") from reason
    return Classwise(inner, tuple(maps))


_CLASSWISE: Final = tuple(
    Method(
        name=f"{inner.name}_classwise",
        title=f"{inner.title}, class by class",
        meaning=(
            f"{inner.title} of each class against the rest; the results are divided by their sum. A class without "
            "enough events keeps its probability. The most probable class can change."
        ),
        rank=inner.rank + 30,
        fit=partial(_fit_classwise, inner),
        load=partial(Classwise.load, inner),
        options=inner.options,
        binary=False,
        many_classes=True,
    )
    for inner in (platt.METHOD, beta.METHOD, isotonic.METHOD, histogram.METHOD)
)
"""Source: Zadrozny, Elkan, "Transforming classifier scores into accurate multiclass probability estimates", 2002."""


_SHOWN: Final = 5


@dataclass(frozen=True, eq=False)
class GroupWise:
    """One map for all events, and one for each group that had enough events.

    Attributes
    ----------
    inner
        The method of the groups' maps.
    segment_key
        The groups are its values.
    groups
        Values that have a map of their own, ascending.
    overall
        The map of all events: for every other value, and for events without one.
    maps
        The groups' maps, in their order.
    """

    inner: Method
    segment_key: str
    groups: tuple[str, ...]
    overall: RecalibrationMap
    maps: tuple[RecalibrationMap, ...]
    feature_count: ClassVar[int | None] = None

    @property
    def method(self) -> str:
        """Name of the method that fits it."""
        return f"group_wise_{self.inner.name}"

    @property
    def classes(self) -> int:
        """Number K of classes; 2 for P(y = 1) alone."""
        return self.overall.classes

    def apply(self, prediction: Floats, features: Floats | None = None, group: Groups | None = None) -> Floats:  # noqa: ARG002
        """Apply each group's map; the map of all events where a group has none, or without groups."""
        result = self.overall.apply(prediction)
        if group is None:
            return result
        result = result.copy()
        rows_of = rows_by_group(group_indices(self.groups, group), len(self.groups))
        for rows, group_map in zip(rows_of, self.maps, strict=True):
            if rows.size:
                result[rows] = group_map.apply(prediction[rows])
        return result

    def parts(self) -> MapParts:
        """Return the parts of the map of all events, then of the groups' maps."""
        settings = {"segment_key": self.segment_key, "groups": list(self.groups)}
        return join_parts(settings, (self.overall, *self.maps))

    @classmethod
    def load(cls, inner: Method, parts: MapParts) -> Self:
        """Build the map. Raises CorruptMap."""
        key, groups = setting(parts, "segment_key"), words(parts, "groups")
        if not isinstance(key, str) or not key:
            raise CorruptMap(f"segment_key must be a text, got {key!r}")
        loaded = load_joined(parts, inner.load)
        maps = [group_map for group_map in loaded if group_map is not None]
        if len(maps) != len(loaded) or len(maps) != len(groups) + 1:
            raise CorruptMap(f"maps must hold one for all and one a group, got {len(maps)} for {len(groups)} groups")
        if list(groups) != sorted(groups):
            raise CorruptMap(f"groups must be ascending, got {', '.join(groups[:_SHOWN])}, ...")
        if len({group_map.classes for group_map in maps}) > 1:
            raise CorruptMap(f"maps must be of equally many classes, got {[group_map.classes for group_map in maps]}")
        return cls(inner, key, groups, maps[0], tuple(maps[1:]))

    def describe(self) -> str:
        """Describe the map."""
        count = len(self.groups)
        text = f"by {self.segment_key}, " + (
            "1 group with a map of its own" if count == 1 else f"{count} groups with maps of their own"
        )
        for name, group_map in list(zip(self.groups, self.maps, strict=True))[:_SHOWN]:
            text += f"; {name}: {group_map.describe()}"
        if len(self.groups) > _SHOWN:
            text += f"; and {len(self.groups) - _SHOWN} more"
        return f"{text}; all others: {self.overall.describe()}"


def _fit_group_wise(inner: Method, events: LabelledEvents, options: Mapping[str, Any]) -> GroupWise:
    """Fit one map to all events, and one to each group with enough events."""
    inner_options = {name: value for name, value in options.items() if name in inner.options}
    key = events.choose_segment(f"group_wise_{inner.name}", options["segment"])
    least = options["least"]
    values, index = np.unique(events.segments[key], return_inverse=True)
    # No inner method reads these, and they would be copied for every group.
    events = replace(events, features=None, segments={})
    overall = inner.fit(events, inner_options)
    maps: dict[str, RecalibrationMap] = {}
    for name, rows in zip(values.tolist(), rows_by_group(index, values.size), strict=True):
        if name == NO_SEGMENT or rows.size < least:
            continue
        try:
            maps[name] = inner.fit(events.select(rows), inner_options)
        except NotEnoughData:
            continue  # for example, all outcomes are equal: the map of all events is used
    return GroupWise(inner, key, tuple(maps), overall, tuple(maps.values()))


_GROUP_WISE: Final = tuple(
    Method(
        name=f"group_wise_{inner.name}",
        title=f"{inner.title} by group",
        meaning=(
            f"{inner.title} for each value of a segment key that has enough events, and for all others together: where "
            "groups that are known beforehand are off in different ways."
        ),
        rank=inner.rank + 100,
        fit=partial(_fit_group_wise, inner),
        load=partial(GroupWise.load, inner),
        options={
            "segment": MethodOption("text", None, "The segment key; null: the only one that there is."),
            "least": MethodOption(
                "whole", 200, "A group of fewer labelled events is served by the map of all.", at_least=1
            ),
            **inner.options,
        },
        binary=inner.binary,
        many_classes=inner.many_classes,
        needs_segments=True,
    )
    for inner in (
        offset.METHOD,
        temperature.METHOD,
        platt.METHOD,
        beta.METHOD,
        isotonic.METHOD,
        histogram.METHOD,
        vector_scaling.METHOD,
    )
)

METHODS: Final = (*_CLASSWISE, *_GROUP_WISE)
