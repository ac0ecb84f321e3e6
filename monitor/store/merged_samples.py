"""Closed samples of all partitions and spans, as the labelled events that a fit wants."""

import json
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any, Final, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from monitor.maps.labelled import NO_SEGMENT, Floats, LabelledEvents
from monitor.store import sample_columns as arrow
from monitor.store.bottom_samples import Ints, keep_fewest
from monitor.store.closed_samples import SCHEMA, ClosedSample

OTHER_CLASSES: Final = "not as many classes as most"
BEYOND_CLASSES: Final = "an outcome that is none of its classes"
NO_FEATURES: Final = "features missing"
OTHER_FEATURES: Final = "features of another length than most"

_BINARY: Final = 1
_ONE_HALF: Final = 0.5


class Merged(NamedTuple):
    """Labelled events, how many they stand for, and what was left out of them: reason -> events."""

    events: LabelledEvents
    population: int
    left_out: Mapping[str, int]


def merge(
    samples: Iterable[ClosedSample], *, from_ms: int = 0, to_ms: int | None = None, limit: int | None = None
) -> Merged:
    """The events of [from, to) of all samples, which share none, with their weights.

    Parameters
    ----------
    samples
        Each of a partition and span of its own.
    limit
        At most so many events, at least 1, chosen as a full sample chooses, but by the lower half of the hashes: the
        upper half has decided already who is in a sample, and more sharply where there was more.

    A weight is how many labelled events of its partition, span and stratum an event stands for; those that go because
    of the limit are stood for by the rest of their stratum. Those that do not fit the others, and all that they stand
    for, count in no weight and not in the population.
    """
    tables, weights = [], []
    for sample in samples:
        time_ms = arrow.numbers(sample.table, "time_ms")
        within = (time_ms >= from_ms) & (to_ms is None or time_ms < to_ms)
        tables.append(sample.table.filter(pa.array(within)))
        weights.append(sample.raw_weights()[within])
    table = pa.concat_tables([SCHEMA.empty_table(), *tables]).combine_chunks()
    # In one order from here on, so that sums of weights are the same to the last bit.
    order = np.lexsort([arrow.numbers(table, name) for name in ("id_low", "id_high", "time_ms")])
    table, weight = table.take(pa.array(order)), np.concatenate([np.empty(0), *weights])[order]
    fits, has_features, left_out = _fitting(table)
    table, weight = table.take(pa.array(fits, pa.int64())), weight[fits]
    population = round(float(weight.sum()))
    if limit is not None and len(weight) > limit:
        table, weight = _limited(table, weight, limit)
    return Merged(_events(table, weight, has_features), population, left_out)


def _fitting(table: Any) -> tuple[Ints, bool, dict[str, int]]:
    """Places of the events that fit most of the others, whether those have features, and why others are left out."""
    left_out: Counter[str] = Counter()
    places = np.arange(table.num_rows)
    classes = _lengths(table["prediction"])
    places = _keep(places, classes == _most_frequent(classes), OTHER_CLASSES, left_out)
    highest = np.maximum(classes[places], 2)
    places = _keep(places, arrow.numbers(table, "outcome")[places] < highest, BEYOND_CLASSES, left_out)
    length = _lengths(table["features"])[places]
    with_features = length > 0
    # Of half with and half without, those with features say more.
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
    """Length of each list, int64, shape (rows,); 0 where there is none."""
    return np.asarray(pa.compute.fill_null(pa.compute.list_value_length(column), 0).to_numpy(), np.int64)


def _most_frequent(values: Ints) -> int:
    """Of equally frequent ones the largest; 0 of none."""
    if not values.size:
        return 0
    found, counts = np.unique(values, return_counts=True)
    return int(found[counts == counts.max()][-1])


def _limited(table: Any, weight: Floats, limit: int) -> tuple[Any, Floats]:
    stratum = arrow.numbers(table, "confidence")
    keys = [arrow.numbers(table, name) for name in ("id_low", "id_high", "time_ms")]
    kept = keep_fewest(stratum, limit, *keys)
    whole = np.bincount(stratum, weight)
    left = np.bincount(stratum[kept], weight[kept], minlength=whole.size)
    kept = np.sort(kept)  # as they were, in the order of time
    return table.take(pa.array(kept)), weight[kept] * whole[stratum[kept]] / left[stratum[kept]]


def _events(table: Any, weight: Floats, has_features: bool) -> LabelledEvents:
    n = table.num_rows
    prediction = _rows(table["prediction"], n)
    features = _rows(table["features"], n) if has_features else None
    return LabelledEvents.of(
        prediction[:, 0] if prediction.shape[1] <= _BINARY else prediction,
        arrow.numbers(table, "outcome"),
        weight=weight,
        time_ms=arrow.numbers(table, "time_ms"),
        features=features,
        segments=_segments(table["segments"]),
    )


def _rows(column: Any, n: int) -> Floats:
    """Lists that are equally long, float64, shape (n, length)."""
    values = np.asarray(column.combine_chunks().flatten().to_numpy(zero_copy_only=False), np.float64)
    return values.reshape(n, -1) if n else np.empty((0, 1))


def _segments(column: Any) -> dict[str, list[str]]:
    encoded = column.combine_chunks().dictionary_encode()
    told = [dict(json.loads(text)) for text in encoded.dictionary.to_pylist()]
    places = encoded.indices.to_pylist()
    keys = sorted({key for pairs in told for key in pairs})
    return {key: [str(told[place].get(key, NO_SEGMENT)) for place in places] for key in keys}
