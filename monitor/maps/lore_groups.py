"""LoRe with the kernel 1[same group]: the share of hits among events of the same group and like confidence."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Annotated, Any, ClassVar, Final

import numpy as np

from monitor.arrays import Floats
from monitor.errors import CorruptMap, InputError
from monitor.local.calibration import default_bins
from monitor.maps.base import FieldMap, Groups, Method, MethodOption
from monitor.maps.lore import (
    BIN_OPTIONS,
    MAX_EVENTS,
    Bins,
    bin_indices,
    confidence_of,
    hits_of,
    replace_confidence,
    require_hits,
    shrink,
)
from monitor.maps.parts import matrix, number, setting, whole, words
from monitor.scores.labelled import NO_SEGMENT, LabelledEvents, group_indices
from monitor.scores.table import effective_number


@dataclass(frozen=True, eq=False)
class GroupedLore(FieldMap):
    """Shares of hits of each group in each bin of confidence, shrunk towards those of the bin.

    Attributes
    ----------
    segment
        Segment key whose values are the groups.
    groups
        The values, ascending.
    bins
        Bins of the confidence, and the shares of hits of all groups together.
    group_mean, group_n_eff
        float64, shape (groups, B): weighted share of hits, and effective number of events.
    shrinkage
        How many events of the whole bin are added to those of the group.
    prior
        How many events that agree with the bin's mean confidence are added to it.
    classes
        Number of classes of the predictions.
    """

    segment: Annotated[str, setting]
    groups: Annotated[tuple[str, ...], words]
    bins: Annotated[Bins, Bins.from_parts, Bins.parts]
    group_mean: Annotated[Floats, partial(matrix, shape=(None, None), low=0.0, high=1.0)]
    group_n_eff: Annotated[Floats, partial(matrix, shape=(None, None), low=0.0, high=MAX_EVENTS)]
    shrinkage: Annotated[float, partial(number, low=0.0, high=1e6)]
    prior: Annotated[float, partial(number, low=0.0, high=1e6)]
    classes: Annotated[int, partial(whole, least=2)]
    method: ClassVar[str] = "lore_groups"
    feature_count: ClassVar[int | None] = None

    @property
    def segment_key(self) -> str | None:
        """The segment key whose values are the groups."""
        return self.segment

    def apply(self, prediction: Floats, features: Floats | None = None, group: Groups | None = None) -> Floats:  # noqa: ARG002
        """Recalibrate predictions. An unknown group gets its bin's mean; in an empty bin predictions stay unchanged."""
        if group is None:
            raise InputError(f"the map needs the segment {self.segment!r} of each event")
        confidence = confidence_of(prediction)
        place, row = bin_indices(self.bins.count, confidence), group_indices(self.groups, group)
        n_eff = np.where(row < 0, 0.0, self.group_n_eff[row, place])
        sums = np.stack([n_eff, n_eff * self.group_mean[row, place], n_eff], axis=1)
        local = shrink(sums, self.bins.mean[place], self.shrinkage)
        filled = self.bins.events[place] > 0.0
        result = np.array(confidence)
        result[filled] = self.bins.add_prior(local[filled], place[filled], self.prior)
        return replace_confidence(prediction, result)

    def check(self) -> None:
        """Raise CorruptMap if the groups are not ascending, or shapes do not fit."""
        if not isinstance(self.segment, str) or list(self.groups) != sorted(self.groups) or not self.groups:
            raise CorruptMap("segment must be text, and groups ascending and not empty")
        shape = (len(self.groups), self.bins.count)
        for name, array in (("group_mean", self.group_mean), ("group_n_eff", self.group_n_eff)):
            if array.shape != shape:
                raise CorruptMap(f"{name} must have the shape {shape}, got {array.shape}")

    def describe(self) -> str:
        """Describe the map."""
        return (
            f"share of hits in each of {len(self.groups)} groups by {self.segment}, within {self.bins.count} bins of "
            f"confidence, shrunk towards the bin by {self.shrinkage:g} events"
        )


def _fit(events: LabelledEvents, options: Mapping[str, Any]) -> GroupedLore:
    key = events.choose_segment(GroupedLore.method, options["segment"])
    hit = hits_of(events)
    require_hits(events, hit)
    groups = tuple(str(name) for name in np.unique(events.segments[key]) if name != NO_SEGMENT)
    if not groups:
        raise InputError(f"lore_groups needs the segment {key!r}, and no event has it")
    confidence, weight = confidence_of(events.prediction), events.weight
    count = options["bins"] or default_bins(len(events))
    place = bin_indices(count, confidence)
    row = group_indices(groups, events.segments[key])
    has_group = row >= 0
    cell = (row * count + place)[has_group]
    shape = (len(groups), count)

    def summed(values: Floats) -> Floats:
        return np.bincount(cell, values[has_group], len(groups) * count).astype(np.float64).reshape(shape)

    total, hits, squares = summed(weight), summed(weight * hit), summed(weight**2)
    return GroupedLore(
        segment=key,
        groups=groups,
        bins=Bins.of(count, confidence, hit, weight),
        group_mean=np.divide(hits, total, out=np.zeros(shape), where=total > 0.0).clip(0.0, 1.0),
        group_n_eff=effective_number(total, squares),
        shrinkage=options["shrinkage"],
        prior=options["prior"],
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
        "segment": MethodOption(
            "text", None, "Segment key whose values are the groups; null: the only one that there is."
        ),
        **BIN_OPTIONS,
    },
    many_classes=True,
    needs_segments=True,
)
