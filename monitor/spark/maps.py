"""Recalibration maps as column expressions."""

from collections.abc import Callable, Sequence
from functools import lru_cache
from pathlib import Path

import numpy as np
import pyarrow as pa
from pyspark.sql import Column
from pyspark.sql import functions as F  # noqa: N812 - Spark's own convention
from pyspark.sql.pandas.functions import arrow_udf

from monitor.arrays import Floats
from monitor.errors import InputError
from monitor.functions import artifact_of
from monitor.maps import RecalibrationMap
from monitor.maps import apply_map as apply_to_arrays
from monitor.maps.artifact import Artifact, from_bytes, to_bytes
from monitor.results import Recalibration


def apply_map(
    recalibration: Recalibration | Artifact | RecalibrationMap | str | Path,
    prediction: str | Column = "prediction",
    *,
    features: Sequence[str | Column] = (),
    segment: str | Column | None = None,
) -> Column:
    """Recalibrate a column of predictions by a map, in batches of Arrow arrays.

    Parameters
    ----------
    recalibration
        What :func:`monitor.recalibrate` returned, a map, or the file of one. Its bytes go to the executors.
    prediction
        P(y = 1).
    features
        Numbers, in the order in which the map was fitted; of a map that needs them.
    segment
        Text; of a map by group.

    Returns
    -------
    Column
        A double; null where the prediction is not in [0, 1], or a feature is missing.

    Raises
    ------
    InputError
        The map is of several classes, or needs features or a segment that are not named.
    CorruptMap
        The file holds no map, or a damaged one.
    NotEnoughData
        No method was better than no map.

    Examples
    --------
    ``df.withColumn("recalibrated", apply_map("churn.map", "score"))``
    """
    artifact = artifact_of(recalibration)
    chosen = artifact.map
    if chosen.classes != 2:
        raise InputError(f"a map of {chosen.classes} classes is for vectors; apply_map is for predictions P(y = 1)")
    if (chosen.feature_count or 0) != len(features):
        raise InputError(f"the map needs {chosen.feature_count or 'no'} features, got {len(features)} columns")
    if (chosen.segment_key is None) != (segment is None):
        needs = "no segment" if chosen.segment_key is None else f"the segment {chosen.segment_key!r}"
        raise InputError(f"the map needs {needs}; pass segment= accordingly")
    data, key, count = to_bytes(chosen, {}), chosen.segment_key, len(features)

    def recalibrated(p: pa.Array, *others: pa.Array) -> pa.Array:
        return _apply(_loaded(data), p, others[:count], key, others[count:])

    numbers = [F.col(name) if isinstance(name, str) else name for name in (prediction, *features)]
    columns = [number.cast("double") for number in numbers]
    if segment is not None:
        text = F.col(segment) if isinstance(segment, str) else segment
        columns.append(F.coalesce(text.cast("string"), F.lit("")))
    # Its stubs know functions of one, two or three columns.
    make: Callable[..., Callable[..., Column]] = arrow_udf
    return make(recalibrated, "double")(*columns)


@lru_cache(maxsize=4)
def _loaded(data: bytes) -> RecalibrationMap:
    """The map, which an executor's process reads once."""
    return from_bytes(data).map


def _apply(
    chosen: RecalibrationMap, p: pa.Array, features: Sequence[pa.Array], key: str | None, segments: Sequence[pa.Array]
) -> pa.Array:
    prediction = _doubles(p)
    x = np.column_stack([_doubles(column) for column in features]) if features else None
    valid = (prediction >= 0.0) & (prediction <= 1.0)
    if x is not None:
        valid &= np.isfinite(x).all(axis=1)
    rows = np.flatnonzero(valid)
    result = np.full(prediction.size, np.nan)
    result[rows] = apply_to_arrays(
        chosen,
        prediction[rows],
        features=None if x is None else x[rows],
        segments=None if key is None else {key: np.asarray(segments[0].to_pylist(), np.str_)[rows]},
    )
    return pa.array(result, mask=~valid)


def _doubles(column: pa.Array) -> Floats:
    return np.asarray(column.to_numpy(zero_copy_only=False), np.float64)
