"""LoRe with the kernel 1[same group]: the share of hits among events of the same group and like confidence."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar, Final

import numpy as np
from numpy.typing import NDArray

from monitor.errors import CorruptMap, InputError
from monitor.maps.base import Method, Option, OptionValue
from monitor.maps.labelled import NO_SEGMENT, LabelledEvents, group_indices
from monitor.maps.lore_bins import (
    BINS,
    PRIOR,
    SHRINKAGE,
    Bins,
    bin_indices,
    confidence_of,
    hits_of,
    number_of_bins,
    replace_confidence,
    require_hits,
    shrink,
)
from monitor.maps.parts import MapParts, matrix, number, setting, whole, words

Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class GroupedLore:
    """Shares of hits of each group in each bin of confidence, shrunk towards those of the bin.

    Attributes
    ----------
    key
        Segment key whose values are the groups.
    groups
        The values, ascending.
    bins
        Bins of the confidence, and the shares of hits of all groups together.
    mean, n_eff
        float64, shape (groups, B): weighted share of hits, and effective number of events.
    shrinkage
        How many events of the whole bin are added to those of the group.
    prior
        How many events that agree with the bin's mean confidence are added to it.
    classes
        Number of classes of the predictions.
    """

    key: str
    groups: tuple[str, ...]
    bins: Bins
    mean: Floats
    n_eff: Floats
    shrinkage: float
    prior: float
    classes: int
    method: ClassVar[str] = "lore_groups"
    feature_count: ClassVar[int | None] = None

    @property
    def segment_key(self) -> str | None:
        """The segment key whose values are the groups."""
        return self.key

    def apply(
        self,
        prediction: Floats,
        features: Floats | None = None,  # noqa: ARG002
        group: NDArray[np.str_] | None = None,
    ) -> Floats:
        """Recalibrate predictions. An unknown group gets its bin's mean; in an empty bin predictions stay unchanged."""
        if group is None:
            raise InputError(f"the map needs the segment {self.key!r} of each event")
        confidence = confidence_of(prediction)
        place, row = self.bins.indices(confidence), group_indices(self.groups, group)
        n_eff = np.where(row < 0, 0.0, self.n_eff[row, place])
        sums = np.stack([n_eff, n_eff * self.mean[row, place], n_eff], axis=1)
        local = shrink(sums, self.bins.mean[place], self.shrinkage)
        filled = self.bins.events[place] > 0.0
        result = np.array(confidence)
        result[filled] = self.bins.add_prior(local[filled], place[filled], self.prior)
        return replace_confidence(prediction, result)

    def parts(self) -> MapParts:
        """Return the parts."""
        settings = {
            "classes": self.classes,
            "segment": self.key,
            "groups": list(self.groups),
            "bins": self.bins.count,
            "shrinkage": self.shrinkage,
            "prior": self.prior,
        }
        return MapParts(settings, {"group_mean": self.mean, "group_n_eff": self.n_eff, **self.bins.arrays()})

    @classmethod
    def from_parts(cls, parts: MapParts) -> "GroupedLore":
        """Build the map. Raises CorruptMap."""
        key, groups, bins = setting(parts, "segment"), words(parts, "groups"), Bins.from_parts(parts)
        if not isinstance(key, str) or list(groups) != sorted(groups) or not groups:
            raise CorruptMap("segment must be text, and groups ascending and not empty")
        shape = (len(groups), bins.count)
        return cls(
            key=key,
            groups=groups,
            bins=bins,
            mean=matrix(parts, "group_mean", shape=shape, low=0.0, high=1.0),
            n_eff=matrix(parts, "group_n_eff", shape=shape, low=0.0),
            shrinkage=number(parts, "shrinkage", 0.0, 1e6),
            prior=number(parts, "prior", 0.0, 1e6),
            classes=whole(parts, "classes", 2),
        )

    def describe(self) -> str:
        """Describe the map."""
        return (
            f"share of hits in each of {len(self.groups)} groups by {self.key}, within {self.bins.count} bins of "
            f"confidence, shrunk towards the bin by {self.shrinkage:g} events"
        )


def _fit(events: LabelledEvents, options: Mapping[str, OptionValue]) -> GroupedLore:
    key = events.choose_segment(GroupedLore.method, options["segment"])
    hit = hits_of(events)
    require_hits(events, hit)
    groups = tuple(str(name) for name in np.unique(events.segments[key]) if name != NO_SEGMENT)
    if not groups:
        raise InputError(f"lore_groups needs the segment {key!r}, and no event has it")
    confidence, weight = confidence_of(events.prediction), events.weight
    count = number_of_bins(options["bins"], len(events))
    place = bin_indices(count, confidence)
    row = group_indices(groups, events.segments[key])
    has_group = row >= 0
    cell = (row * count + place)[has_group]
    shape = (len(groups), count)

    def summed(values: Floats) -> Floats:
        return np.bincount(cell, values[has_group], len(groups) * count).astype(np.float64).reshape(shape)

    total, hits, squares = summed(weight), summed(weight * hit), summed(weight**2)
    return GroupedLore(
        key=key,
        groups=groups,
        bins=Bins.of(count, confidence, hit, weight),
        mean=np.divide(hits, total, out=np.zeros(shape), where=total > 0.0).clip(0.0, 1.0),
        n_eff=np.divide(total**2, squares, out=np.zeros(shape), where=squares > 0.0),
        shrinkage=float(options["shrinkage"] or 0.0),
        prior=float(options["prior"] or 0.0),
        classes=events.classes,
    )


METHOD: Final = Method(
    name="lore_groups",
    title="LoRe within groups",
    meaning="The share of hits among past events of like confidence in the same group: LoRe where the groups are "
    "declared. Needs a segment, and no features.",
    rank=91,
    fit=_fit,
    load=GroupedLore.from_parts,
    options={
        "segment": Option(
            kind="text",
            default=None,
            meaning="Segment key whose values are the groups; null: the only one that there is.",
        ),
        "bins": BINS,
        "shrinkage": SHRINKAGE,
        "prior": PRIOR,
    },
    many_classes=True,
    needs_segments=True,
)
