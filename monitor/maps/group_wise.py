"""Maps for each value of a segment key, such as a region: other methods, fitted group by group."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import ClassVar, Final, Self

import numpy as np

from monitor.arrays import Floats
from monitor.errors import CorruptMap, NotEnoughData
from monitor.maps import beta, histogram, isotonic, offset, platt, temperature, vector_scaling
from monitor.maps.base import Groups, Method, Option, OptionValue, RecalibrationMap
from monitor.maps.labelled import NO_SEGMENT, LabelledEvents, group_indices, rows_by_group
from monitor.maps.parts import MapParts, join_parts, load_joined, setting, words

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
        for rows, own in zip(rows_of, self.maps, strict=True):
            if rows.size:
                result[rows] = own.apply(prediction[rows])
        return result

    def parts(self) -> MapParts:
        """Return the parts of the map of all events, then of the groups' maps."""
        settings = {"segment_key": self.segment_key, "groups": list(self.groups)}
        return join_parts(settings, [own.parts() for own in (self.overall, *self.maps)])

    @classmethod
    def load(cls, inner: Method, parts: MapParts) -> Self:
        """Build the map. Raises CorruptMap."""
        key, groups = setting(parts, "segment_key"), words(parts, "groups")
        if not isinstance(key, str) or not key:
            raise CorruptMap(f"segment_key must be a text, got {key!r}")
        loaded = load_joined(parts, inner.load)
        maps = [own for own in loaded if own is not None]
        if len(maps) != len(loaded) or len(maps) != len(groups) + 1:
            raise CorruptMap(f"maps must hold one for all and one a group, got {len(maps)} for {len(groups)} groups")
        if list(groups) != sorted(groups):
            raise CorruptMap(f"groups must be ascending, got {', '.join(groups[:_SHOWN])}, ...")
        if len({own.classes for own in maps}) > 1:
            raise CorruptMap(f"maps must be of equally many classes, got {[own.classes for own in maps]}")
        return cls(inner, key, groups, maps[0], tuple(maps[1:]))

    def describe(self) -> str:
        """Describe the map."""
        count = len(self.groups)
        text = f"by {self.segment_key}, " + (
            "1 group with a map of its own" if count == 1 else f"{count} groups with maps of their own"
        )
        for name, own in list(zip(self.groups, self.maps, strict=True))[:_SHOWN]:
            text += f"; {name}: {own.describe()}"
        if len(self.groups) > _SHOWN:
            text += f"; and {len(self.groups) - _SHOWN} more"
        return f"{text}; all others: {self.overall.describe()}"


def _fit(inner: Method, events: LabelledEvents, options: Mapping[str, OptionValue]) -> GroupWise:
    """Fit one map to all events, and one to each group with enough events."""
    inner_options = {name: value for name, value in options.items() if name in inner.options}
    key = events.choose_segment(f"group_wise_{inner.name}", options["segment"])
    least = int(options["least"] or 1)
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


METHODS: Final = tuple(
    Method(
        name=f"group_wise_{inner.name}",
        title=f"{inner.title} by group",
        meaning=(
            f"{inner.title} for each value of a segment key that has enough events, and for all others together: where "
            "groups that are known beforehand are off in different ways."
        ),
        rank=inner.rank + 100,
        fit=partial(_fit, inner),
        load=partial(GroupWise.load, inner),
        options={
            "segment": Option("text", None, "The segment key; null: the only one that there is."),
            "least": Option("whole", 200, "A group of fewer labelled events is served by the map of all.", at_least=1),
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
