"""Closed samples: labelled events of one version and one span of time, whose outcomes are final."""

import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from monitor.errors import DamagedStore
from monitor.maps.labelled import NO_SEGMENT, Floats, LabelledEvents
from monitor.store import sample_columns as arrow
from monitor.store.bottom_samples import Ints, keep_fewest
from monitor.store.recalibrations import Sample

KIND: Final = "events"

OTHER_CLASSES: Final = "not as many classes as most"
BEYOND_CLASSES: Final = "an outcome that is none of its classes"
NO_FEATURES: Final = "features missing"
OTHER_FEATURES: Final = "features of another length than most"


SCHEMA: Final = pa.schema(
    [
        pa.field("id_high", pa.uint64(), nullable=False),
        pa.field("id_low", pa.uint64(), nullable=False),
        pa.field("time_ms", pa.int64(), nullable=False),
        pa.field("confidence", pa.int32(), nullable=False),
        pa.field("prediction", pa.list_(pa.float64()), nullable=False),
        pa.field("outcome", pa.int16(), nullable=False),
        pa.field("segments", pa.string(), nullable=False),
        pa.field("features", pa.list_(pa.float32())),
    ]
)
"""``prediction`` is [P(y = 1)], or the probabilities of all classes; ``segments`` is JSON: [[key, value], ...]."""


@dataclass(frozen=True, eq=False, slots=True)
class ClosedSample:
    """An immutable sample; the sum of samples does not depend on their order.

    Attributes
    ----------
    capacity
        Maximum number of events; at least 1.
    labelled
        Stratum of confidence -> number of its labelled events, sampled or not.
    table
        The sampled events: a pyarrow.Table of SCHEMA, in order of the ids' hashes.
    """

    capacity: int
    labelled: Mapping[int, int]
    table: Any

    @classmethod
    def of(cls, capacity: int, labelled: Mapping[int, int], table: Any) -> "ClosedSample":
        """Sample the events of a table (SCHEMA, in any order)."""
        keys = [arrow.numbers(table, name) for name in ("id_high", "id_low", "time_ms")]
        kept = keep_fewest(arrow.numbers(table, "confidence"), capacity, *keys)
        return cls(capacity, dict(sorted(labelled.items())), table.take(pa.array(kept, pa.int64())).combine_chunks())

    @classmethod
    def sum(cls, parts: Sequence["ClosedSample"]) -> "ClosedSample":
        """Return the sample of the events of all parts (at least one), with the smallest of their capacities.

        A larger capacity would need events that the smaller sample has dropped.
        """
        labelled: Counter[int] = Counter()
        for part in parts:
            labelled.update(part.labelled)
        return cls.of(min(part.capacity for part in parts), labelled, pa.concat_tables([part.table for part in parts]))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ClosedSample) and self.to_bytes() == other.to_bytes()

    def __hash__(self) -> int:
        return hash(self.to_bytes())

    def __len__(self) -> int:
        return int(self.table.num_rows)

    def raw_weights(self) -> np.ndarray[Any, np.dtype[np.float64]]:
        """Return how many labelled events of its stratum each sampled event represents, shape (n,)."""
        strata = arrow.numbers(self.table, "confidence")
        held = Counter(strata.tolist())
        share = {stratum: self.labelled.get(stratum, 0) / count for stratum, count in held.items()}
        return np.array([share[stratum] for stratum in strata.tolist()], np.float64)

    def to_bytes(self) -> bytes:
        """Encode as an Arrow file."""
        header = {"capacity": self.capacity, "labelled": sorted(self.labelled.items())}
        return arrow.encode(self.table, KIND, header)

    @classmethod
    def from_bytes(cls, data: bytes) -> "ClosedSample":
        """Decode what :meth:`to_bytes` wrote. Raises DamagedStore if it is damaged or of a newer format."""
        table, header = arrow.decode(data, KIND, SCHEMA)
        try:
            labelled = {int(stratum): int(count) for stratum, count in header["labelled"]}
            return cls(int(header["capacity"]), labelled, table)
        except (KeyError, TypeError, ValueError) as error:
            raise DamagedStore(f"the header of a stored sample is damaged: {error!r}; restore a backup") from error


def merge(
    samples: Iterable[ClosedSample], *, from_ms: int = 0, to_ms: int | None = None, limit: int | None = None
) -> Sample:
    """Merge samples into the labelled events of [from, to) with their weights.

    The weight of an event is the number of labelled events of its partition, span and stratum that it represents; if
    ``limit`` drops events, the rest of their stratum represents them. Events that do not match the others, and all
    that they represent, are counted in ``left_out``, but in no weight and not in the population.

    Parameters
    ----------
    samples
        Each of another partition or span.
    limit
        Maximum number of events, at least 1. They are chosen as by a full sample, but by the lower half of the hashes:
        the upper half has already decided which events are in a sample.
    """
    tables, weights = [], []
    for sample in samples:
        time_ms = arrow.numbers(sample.table, "time_ms")
        within = (time_ms >= from_ms) & (to_ms is None or time_ms < to_ms)
        tables.append(sample.table.filter(pa.array(within)))
        weights.append(sample.raw_weights()[within])
    table = pa.concat_tables([SCHEMA.empty_table(), *tables]).combine_chunks()
    # A fixed order, so that sums of weights are the same to the last bit.
    order = np.lexsort([arrow.numbers(table, name) for name in ("id_low", "id_high", "time_ms")])
    table, weight = table.take(pa.array(order)), np.concatenate([np.empty(0), *weights])[order]
    fits, has_features, left_out = _fitting(table)
    table, weight = table.take(pa.array(fits, pa.int64())), weight[fits]
    population = round(float(weight.sum()))
    if limit is not None and len(weight) > limit:
        table, weight = _limited(table, weight, limit)
    return Sample(_events(table, weight, has_features), population, left_out)


def _fitting(table: Any) -> tuple[Ints, bool, dict[str, int]]:
    """Return the rows that match most of the others, whether they have features, and counts of other rows by reason."""
    left_out: Counter[str] = Counter()
    places = np.arange(table.num_rows)
    classes = _lengths(table["prediction"])
    places = _keep(places, classes == _most_frequent(classes), OTHER_CLASSES, left_out)
    highest = np.maximum(classes[places], 2)
    places = _keep(places, arrow.numbers(table, "outcome")[places] < highest, BEYOND_CLASSES, left_out)
    length = _lengths(table["features"])[places]
    with_features = length > 0
    # If half of them have features, those with features are kept.
    has_features = bool(places.size) and float(with_features.mean()) >= 0.5
    if has_features:
        common = _most_frequent(length[with_features])
        left_out[NO_FEATURES] += int(np.count_nonzero(~with_features))
        left_out[OTHER_FEATURES] += int(np.count_nonzero(with_features & (length != common)))
        places = places[length == common]
    return places, has_features, dict(+left_out)


def _keep(places: Ints, fit: NDArray[np.bool_], reason: str, left_out: Counter[str]) -> Ints:
    left_out[reason] += int(np.count_nonzero(~fit))
    return places[fit]


def _lengths(column: Any) -> Ints:
    """Return the length of each list, int64, shape (rows,); 0 for null."""
    return np.asarray(pa.compute.fill_null(pa.compute.list_value_length(column), 0).to_numpy(), np.int64)


def _most_frequent(values: Ints) -> int:
    """Return the most frequent value, the largest of several; 0 if there is none."""
    if not values.size:
        return 0
    distinct, counts = np.unique(values, return_counts=True)
    return int(distinct[counts == counts.max()][-1])


def _limited(table: Any, weight: Floats, limit: int) -> tuple[Any, Floats]:
    stratum = arrow.numbers(table, "confidence")
    keys = [arrow.numbers(table, name) for name in ("id_low", "id_high", "time_ms")]
    kept = keep_fewest(stratum, limit, *keys)
    whole = np.bincount(stratum, weight)
    left = np.bincount(stratum[kept], weight[kept], minlength=whole.size)
    kept = np.sort(kept)  # the order of time
    return table.take(pa.array(kept)), weight[kept] * whole[stratum[kept]] / left[stratum[kept]]


def _events(table: Any, weight: Floats, has_features: bool) -> LabelledEvents:
    n = table.num_rows
    prediction = _rows(table["prediction"], n)
    features = _rows(table["features"], n) if has_features else None
    return LabelledEvents.of(
        prediction[:, 0] if prediction.shape[1] <= 1 else prediction,
        arrow.numbers(table, "outcome"),
        weight=weight,
        time_ms=arrow.numbers(table, "time_ms"),
        features=features,
        segments=_segments(table["segments"]),
    )


def _rows(column: Any, n: int) -> Floats:
    """Convert lists of equal length to float64, shape (n, length)."""
    values = np.asarray(column.combine_chunks().flatten().to_numpy(zero_copy_only=False), np.float64)
    return values.reshape(n, -1) if n else np.empty((0, 1))


def _segments(column: Any) -> dict[str, list[str]]:
    encoded = column.combine_chunks().dictionary_encode()
    segments = [dict(json.loads(text)) for text in encoded.dictionary.to_pylist()]
    places = encoded.indices.to_pylist()
    keys = sorted({key for pairs in segments for key in pairs})
    return {key: [str(segments[place].get(key, NO_SEGMENT)) for place in places] for key in keys}
