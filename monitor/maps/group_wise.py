"""Maps for each value of a segment key, such as a region: other methods, group by group."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import ClassVar, Final, Self

import numpy as np
from numpy.typing import NDArray

from monitor.errors import CorruptMap, NotEnoughData
from monitor.maps import beta, histogram, isotonic, offset, platt, reading, temperature, vector_scaling
from monitor.maps.base import MapParts, Method, Option, OptionValue, RecalibrationMap
from monitor.maps.groups import chosen_key, places_among, rows_by_group
from monitor.maps.labelled import NO_SEGMENT, LabelledEvents
from monitor.maps.nested import join_parts, part_maps

Floats = NDArray[np.float64]

_SHOWN: Final = 5


@dataclass(frozen=True, eq=False)
class GroupWise:
    """One map for all, and one for each group that had enough events.

    Attributes
    ----------
    segment_key
        Whose values the groups are.
    groups
        Values that have a map of their own, ascending.
    overall
        The map of all events: for every other value, and for events without one.
    maps
        The groups' maps, in their order.
    """

    segment_key: str
    groups: tuple[str, ...]
    overall: RecalibrationMap
    maps: tuple[RecalibrationMap, ...]
    method: ClassVar[str]
    inner: ClassVar[Method]
    feature_count: ClassVar[int | None] = None

    @property
    def classes(self) -> int:
        """Number K of classes; 2 for P(y = 1) alone."""
        return self.overall.classes

    def apply(
        self,
        prediction: Floats,
        features: Floats | None = None,  # noqa: ARG002
        group: NDArray[np.str_] | None = None,
    ) -> Floats:
        """Each event by its group's map; by that of all where its group has none, or without groups."""
        result = self.overall.apply(prediction)
        if group is None:
            return result
        result = result.copy()
        rows_of = rows_by_group(places_among(self.groups, group), len(self.groups))
        for rows, one in zip(rows_of, self.maps, strict=True):
            if rows.size:
                result[rows] = one.apply(prediction[rows])
        return result

    def parts(self) -> MapParts:
        """Those of the map of all, then of the groups'."""
        return join_parts({"segment_key": self.segment_key, "groups": list(self.groups)}, (self.overall, *self.maps))

    @classmethod
    def from_parts(cls, parts: MapParts) -> Self:
        """The map of these parts. Raises CorruptMap."""
        key, groups = reading.setting(parts, "segment_key"), reading.words(parts, "groups")
        if not isinstance(key, str) or not key:
            raise CorruptMap(f"segment_key must be a text, got {key!r}")
        found = part_maps(parts, cls.inner.load)
        maps = [one for one in found if one is not None]
        if len(maps) != len(found) or len(maps) != len(groups) + 1:
            raise CorruptMap(f"maps must hold one for all and one a group, got {len(maps)} for {len(groups)} groups")
        if list(groups) != sorted(groups):
            raise CorruptMap(f"groups must be ascending, got {', '.join(groups[:_SHOWN])}, ...")
        if len({one.classes for one in maps}) > 1:
            raise CorruptMap(f"maps must be of equally many classes, got {[one.classes for one in maps]}")
        return cls(key, groups, maps[0], tuple(maps[1:]))

    def describe(self) -> str:
        """What it does."""
        count = len(self.groups)
        said = f"by {self.segment_key}, " + (
            "1 group with a map of its own" if count == 1 else f"{count} groups with maps of their own"
        )
        for name, one in list(zip(self.groups, self.maps, strict=True))[:_SHOWN]:
            said += f"; {name}: {one.describe()}"
        if len(self.groups) > _SHOWN:
            said += f"; and {len(self.groups) - _SHOWN} more"
        return f"{said}; all others: {self.overall.describe()}"

    @classmethod
    def fit(cls, events: LabelledEvents, options: Mapping[str, OptionValue]) -> Self:
        """Fit one map to all, and one to each group with enough events."""
        inner = {name: value for name, value in options.items() if name in cls.inner.options}
        key, least = chosen_key(cls.method, events, options["segment"]), int(options["least"] or 1)
        values, place = np.unique(events.segments[key], return_inverse=True)
        # No inner method looks at these, and they would be copied for every group.
        events = replace(events, features=None, segments={})
        overall = cls.inner.fit(events, inner)
        groups, maps = [], []
        for name, rows in zip(values.tolist(), rows_by_group(place, values.size), strict=True):
            if name == NO_SEGMENT or rows.size < least:
                continue
            try:
                one = cls.inner.fit(events.select(rows), inner)
            except NotEnoughData:
                continue  # of one outcome alone, for example: the map of all serves it
            groups.append(name)
            maps.append(one)
        return cls(key, tuple(groups), overall, tuple(maps))


class GroupWiseOffset(GroupWise):
    """Prior correction, group by group."""

    method: ClassVar[str] = "group_wise_offset"
    inner: ClassVar[Method] = offset.METHOD


class GroupWiseTemperature(GroupWise):
    """Temperature scaling, group by group."""

    method: ClassVar[str] = "group_wise_temperature"
    inner: ClassVar[Method] = temperature.METHOD


class GroupWisePlatt(GroupWise):
    """Platt scaling, group by group."""

    method: ClassVar[str] = "group_wise_platt"
    inner: ClassVar[Method] = platt.METHOD


class GroupWiseBeta(GroupWise):
    """Beta calibration, group by group."""

    method: ClassVar[str] = "group_wise_beta"
    inner: ClassVar[Method] = beta.METHOD


class GroupWiseIsotonic(GroupWise):
    """Isotonic regression, group by group."""

    method: ClassVar[str] = "group_wise_isotonic"
    inner: ClassVar[Method] = isotonic.METHOD


class GroupWiseHistogram(GroupWise):
    """Histogram binning, group by group."""

    method: ClassVar[str] = "group_wise_histogram"
    inner: ClassVar[Method] = histogram.METHOD


class GroupWiseVectorScaling(GroupWise):
    """Vector scaling, group by group."""

    method: ClassVar[str] = "group_wise_vector_scaling"
    inner: ClassVar[Method] = vector_scaling.METHOD


def _method(kind: type[GroupWise]) -> Method:
    inner = kind.inner
    return Method(
        name=kind.method,
        title=f"{inner.title} by group",
        meaning=(
            f"{inner.title} for each value of a segment key that has enough events, and for all others together: where "
            "groups that are known beforehand are off in different ways."
        ),
        rank=inner.rank + 100,
        fit=kind.fit,
        load=kind.from_parts,
        options={
            "segment": Option("text", None, "The segment key; null: the only one that there is."),
            "least": Option("whole", 200, "A group of fewer labelled events is served by the map of all.", at_least=1),
            **inner.options,
        },
        binary=inner.binary,
        many_classes=inner.many_classes,
        needs_segments=True,
    )


METHODS: Final = tuple(
    _method(kind)
    for kind in (
        GroupWiseOffset,
        GroupWiseTemperature,
        GroupWisePlatt,
        GroupWiseBeta,
        GroupWiseIsotonic,
        GroupWiseHistogram,
        GroupWiseVectorScaling,
    )
)
