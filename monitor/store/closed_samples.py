"""Closed samples: labelled events of one version and span of time, whose outcomes can no longer change.

Samples are stored as Arrow files that any language reads; the schema's metadata holds a JSON header. :func:`merge`
makes the events that a fit reads of the samples of all partitions and spans.
"""

import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from monitor.arrays import Floats
from monitor.errors import DamagedStore
from monitor.scores.labelled import NO_SEGMENT, LabelledEvents
from monitor.store.bottom_sample_loops import Ints, keep_fewest
from monitor.store.recalibrations import Sample

KIND: Final = "events"

HEADER_KEY: Final = b"calibration-sample"
"""Key in the schema's metadata. Its value is a JSON object with ``format``, ``kind`` and further fields."""

FORMAT: Final = 1

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


OTHER_CLASSES: Final = "not as many classes as most"
BEYOND_CLASSES: Final = "an outcome that is none of its classes"
NO_FEATURES: Final = "features missing"
OTHER_FEATURES: Final = "features of another length than most"

_BINARY: Final = 1
_ONE_HALF: Final = 0.5


@dataclass(frozen=True, eq=False, slots=True)
class ClosedSample:
    """A sample of labelled events. Samples add up to the same in any order.

    Attributes
    ----------
    capacity
        Largest number of events; at least 1.
    labelled
        Stratum of confidence -> number of its labelled events, sampled or not.
    table
        A pyarrow.Table of SCHEMA, in the order of the ids' hashes: the sampled ones.
    """

    capacity: int
    labelled: Mapping[int, int]
    table: Any

    @classmethod
    def of(cls, capacity: int, labelled: Mapping[int, int], table: Any) -> "ClosedSample":
        """Sample the events of a table (SCHEMA, in any order)."""
        keys = [numbers(table, name) for name in ("id_high", "id_low", "time_ms")]
        kept = keep_fewest(numbers(table, "confidence"), capacity, *keys)
        return cls(capacity, dict(sorted(labelled.items())), table.take(pa.array(kept, pa.int64())).combine_chunks())

    @classmethod
    def sum(cls, parts: Sequence["ClosedSample"]) -> "ClosedSample":
        """The sample of all events of the parts (at least one), with the smallest of their capacities.

        A larger one would need events that the smaller sample has rejected.
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
        """Labelled events of its stratum per sampled one, shape (n,)."""
        strata = numbers(self.table, "confidence")
        sampled = Counter(strata.tolist())
        share = {stratum: self.labelled.get(stratum, 0) / count for stratum, count in sampled.items()}
        return np.array([share[stratum] for stratum in strata.tolist()], np.float64)

    def to_bytes(self) -> bytes:
        """One Arrow file."""
        header = {"capacity": self.capacity, "labelled": sorted(self.labelled.items())}
        return encode(self.table, KIND, header)

    @classmethod
    def from_bytes(cls, data: bytes) -> "ClosedSample":
        """Read what :meth:`to_bytes` wrote. Raises DamagedStore if it is damaged or of a newer format."""
        table, header = decode(data, KIND, SCHEMA)
        try:
            labelled = {int(stratum): int(count) for stratum, count in header["labelled"]}
            return cls(int(header["capacity"]), labelled, table)
        except (KeyError, TypeError, ValueError) as error:
            raise DamagedStore(f"the header of a stored sample is damaged: {error!r}; restore a backup") from error


def merge(
    samples: Iterable[ClosedSample], *, from_ms: int = 0, to_ms: int | None = None, limit: int | None = None
) -> Sample:
    """Merge disjoint samples; returns their events of [from, to) with weights.

    Parameters
    ----------
    samples
        Each of another partition or span.
    limit
        Largest number of events, at least 1. They are chosen as for a full sample, but by the lower half of the hashes:
        the upper half has already decided which events are in a sample.

    The weight of an event is the number of labelled events of its partition, span and stratum that it represents; the
    events that are kept also represent those removed by the limit. Events that do not fit the others are left out of
    the weights and the population.
    """
    tables, weights = [], []
    for sample in samples:
        time_ms = numbers(sample.table, "time_ms")
        within = (time_ms >= from_ms) & (to_ms is None or time_ms < to_ms)
        tables.append(sample.table.filter(pa.array(within)))
        weights.append(sample.raw_weights()[within])
    table = pa.concat_tables([SCHEMA.empty_table(), *tables]).combine_chunks()
    # In one order, so that sums of weights are the same to the last bit.
    order = np.lexsort([numbers(table, name) for name in ("id_low", "id_high", "time_ms")])
    table, weight = table.take(pa.array(order)), np.concatenate([np.empty(0), *weights])[order]
    fits, has_features, left_out = _find_fitting(table)
    table, weight = table.take(pa.array(fits, pa.int64())), weight[fits]
    population = round(float(weight.sum()))
    if limit is not None and len(weight) > limit:
        table, weight = _limited(table, weight, limit)
    return Sample(_events(table, weight, has_features), population, left_out)


def _find_fitting(table: Any) -> tuple[Ints, bool, dict[str, int]]:
    """Places of the events that fit most others, whether they have features, and the events left out by reason."""
    left_out: Counter[str] = Counter()
    places = np.arange(table.num_rows)
    classes = _lengths(table["prediction"])
    places = _keep(places, classes == _most_frequent(classes), OTHER_CLASSES, left_out)
    highest = np.maximum(classes[places], 2)
    places = _keep(places, numbers(table, "outcome")[places] < highest, BEYOND_CLASSES, left_out)
    length = _lengths(table["features"])[places]
    with_features = length > 0
    # If half of them have features, keep those with features.
    has_features = bool(places.size) and float(with_features.mean()) >= _ONE_HALF
    if has_features:
        usual = _most_frequent(length[with_features])
        left_out[NO_FEATURES] += int(np.count_nonzero(~with_features))
        left_out[OTHER_FEATURES] += int(np.count_nonzero(with_features & (length != usual)))
        places = places[length == usual]
    return places, has_features, dict(+left_out)


def _keep(places: Ints, fit: NDArray[np.bool_], reason: str, left_out: Counter[str]) -> Ints:
    left_out[reason] += int(np.count_nonzero(~fit))
    return places[fit]


def _lengths(column: Any) -> Ints:
    """Length of each list, int64, shape (rows,); 0 for null."""
    return np.asarray(pc.fill_null(pc.list_value_length(column), 0).to_numpy(), np.int64)


def _most_frequent(values: Ints) -> int:
    """The most frequent value, of equally frequent ones the largest; 0 if there are none."""
    if not values.size:
        return 0
    distinct, counts = np.unique(values, return_counts=True)
    return int(distinct[counts == counts.max()][-1])


def _limited(table: Any, weight: Floats, limit: int) -> tuple[Any, Floats]:
    stratum = numbers(table, "confidence")
    keys = [numbers(table, name) for name in ("id_low", "id_high", "time_ms")]
    kept = keep_fewest(stratum, limit, *keys)
    whole = np.bincount(stratum, weight)
    left = np.bincount(stratum[kept], weight[kept], minlength=whole.size)
    kept = np.sort(kept)  # in the order of time, as before
    return table.take(pa.array(kept)), weight[kept] * whole[stratum[kept]] / left[stratum[kept]]


def _events(table: Any, weight: Floats, has_features: bool) -> LabelledEvents:
    n = table.num_rows
    prediction = _rows(table["prediction"], n)
    features = _rows(table["features"], n) if has_features else None
    return LabelledEvents.of(
        prediction[:, 0] if prediction.shape[1] <= _BINARY else prediction,
        numbers(table, "outcome"),
        weight=weight,
        time_ms=numbers(table, "time_ms"),
        features=features,
        segments=_segments(table["segments"]),
    )


def _rows(column: Any, n: int) -> Floats:
    """Lists of equal length, float64, shape (n, length)."""
    values = np.asarray(column.combine_chunks().flatten().to_numpy(zero_copy_only=False), np.float64)
    return values.reshape(n, -1) if n else np.empty((0, 1))


def _segments(column: Any) -> dict[str, list[str]]:
    encoded = column.combine_chunks().dictionary_encode()
    distinct = [dict(json.loads(text)) for text in encoded.dictionary.to_pylist()]
    places = encoded.indices.to_pylist()
    keys = sorted({key for pairs in distinct for key in pairs})
    return {key: [str(distinct[place].get(key, NO_SEGMENT)) for place in places] for key in keys}


def encode(table: Any, kind: str, header: Mapping[str, Any]) -> bytes:
    """Write a pyarrow.Table as a file. Equal tables with equal headers have equal bytes."""
    header_json = json.dumps({"format": FORMAT, "kind": kind, **header}, separators=(",", ":"), sort_keys=True)
    # One batch with buffers of its own: slices and concatenations would be written differently.
    batch = table.replace_schema_metadata({HEADER_KEY: header_json}).combine_chunks()
    sink = pa.BufferOutputStream()
    with pa.ipc.RecordBatchFileWriter(sink, batch.schema) as writer:
        writer.write_table(batch)
    data: bytes = sink.getvalue().to_pybytes()
    return data


def decode(data: bytes, kind: str, schema: Any) -> tuple[Any, dict[str, Any]]:
    """Read the pyarrow.Table and the header of a file. Raises DamagedStore if it is damaged or of a newer format."""
    try:
        table = pa.ipc.open_file(pa.py_buffer(data)).read_all()
        header = json.loads((table.schema.metadata or {}).get(HEADER_KEY, b"null"))
        table.validate(full=True)
    except (pa.ArrowException, OSError, ValueError) as error:
        raise _damaged(kind, f"is not an Arrow file ({error})") from error
    if not isinstance(header, dict) or header.get("kind") != kind:
        raise _damaged(kind, f"has the header {header!r}")
    if header.get("format") != FORMAT:
        raise _damaged(kind, f"is of format {header.get('format')!r}, this version reads {FORMAT}")
    if not table.schema.equals(schema):
        raise _damaged(kind, f"has the columns {table.schema.remove_metadata()}")
    for name in schema.names:
        if not schema.field(name).nullable and table[name].null_count:
            raise _damaged(kind, f"lacks {name} of some events")
    return table.replace_schema_metadata(None), header


def numbers(table: Any, name: str) -> NDArray[Any]:
    """One column of numbers, shape (rows,)."""
    return np.asarray(table[name].to_numpy())


def _damaged(kind: str, what: str) -> DamagedStore:
    return DamagedStore(
        f"stored {kind} of a sample cannot be read: it {what}; restore a backup of the store, or remove it to read the "
        "log again from its beginning"
    )
