"""Columns of Arrow to events: how formats with columnar decoders get from their columns to events.

Only the usual types are read, and only rows with usual values: for the others the event is None, and the message is
examined. So this may be narrower than the contract, and must not be wider.
"""

import base64
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any, Final

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from monitor.events.fields import MAX_CLASSES, MAX_ID_CHARACTERS, TYPES
from monitor.events.wire import ABSENT, Event

KEYS: Final = ("model", "id", "ts", "type", "p", "y", "version", "segments", "features")
"""The keys of an event, in the order of :class:`Event`."""

_INNER_TYPES: Final = {str: pa.string(), int: pa.int64(), bool: pa.bool_()}
_UNITS_PER_MS: Final = {"ms": 1, "us": 1_000, "ns": 1_000_000}
_WORDS: Final = {*TYPES, None}


class _Unfit(Exception):  # noqa: N818 - no error: the messages are examined
    """A column has a type that is not read here."""


def read_events(columns: Mapping[str, Any], count: int) -> list[Event | None]:
    """The event of each row; None where the message has to be examined.

    Parameters
    ----------
    columns
        Key of an event -> Arrow array of ``count`` rows. Keys that are not there are absent in all of them.
    """
    good = np.ones(count, np.bool_)
    try:
        fields = (
            _names(columns.get("model"), count),
            _ids(columns.get("id"), good),
            _times(columns.get("ts"), count),
            _words(columns.get("type"), good),
            _predictions(columns.get("p"), good),
            _labels(columns.get("y"), count),
            _names(columns.get("version"), count),
            _segments(columns.get("segments"), count),
            _features(columns.get("features"), count),
        )
    except _Unfit:
        return [None] * count
    model = columns.get("model")
    if model is None or not pa.types.is_string(model.type):
        good[:] = False
    elif model.null_count:
        good &= model.is_valid().to_numpy(zero_copy_only=False)
    events: list[Event | None] = list(map(Event, *fields))
    for row in np.flatnonzero(~good).tolist():
        events[row] = None
    return events


def columns_of(documents: Sequence[Mapping[str, Any]]) -> dict[str, Any] | None:
    """Arrow columns of the keys of events in documents; None if the values of a key differ in type."""
    try:
        return {key: _column([document.get(key) for document in documents]) for key in KEYS}
    except (pa.ArrowException, AttributeError, LookupError, OverflowError, RecursionError, TypeError, ValueError):
        return None


def _column(values: list[Any]) -> Any:
    if any(isinstance(value, dict) for value in values):
        # Arrow would make a struct of all keys that occur: of keys that are all different, rows times rows of them.
        inner = next((type(item) for value in values if value for item in value.values()), str)
        pairs = [None if value is None else list(value.items()) for value in values]
        return pa.array(pairs, pa.map_(pa.string(), _INNER_TYPES[inner]))
    return pa.array(values)


def _names(column: Any, count: int) -> list[Any]:
    """Texts or integers, equal ones as one object; what they say is checked where they are interned."""
    if column is None:
        return [None] * count
    names, codes = _codes(column)
    if pa.types.is_boolean(column.type):
        raise _Unfit
    return np.array([*names, None], object)[codes].tolist()  # type: ignore[no-any-return] # -1 is the last


def _ids(column: Any, good: NDArray[np.bool_]) -> list[Any]:
    if column is None or pa.types.is_null(column.type):
        good[:] = False
        return [None] * good.size
    if pa.types.is_string(column.type):
        length = pc.utf8_length(column).fill_null(0).to_numpy()
        good &= (length >= 1) & (length <= MAX_ID_CHARACTERS)
    elif not pa.types.is_integer(column.type):
        raise _Unfit
    elif column.null_count:
        good &= column.is_valid().to_numpy(zero_copy_only=False)
    return column.to_pylist()  # type: ignore[no-any-return]


def _times(column: Any, count: int) -> list[Any]:
    """Milliseconds since the epoch, floored, or texts."""
    if column is None or pa.types.is_null(column.type):
        return [None] * count
    if pa.types.is_timestamp(column.type) and column.type.tz is not None:
        units = _UNITS_PER_MS.get(column.type.unit)
        if units is None:
            raise _Unfit
        ticks = column.cast(pa.int64())
        return (ticks if units == 1 else pa.array(_floored(ticks, units), pa.int64())).to_pylist()  # type: ignore[no-any-return]
    if pa.types.is_signed_integer(column.type) or pa.types.is_string(column.type):
        return column.to_pylist()  # type: ignore[no-any-return]
    raise _Unfit


def _floored(ticks: Any, units: int) -> Any:
    whole = ticks.fill_null(0).to_numpy() // units
    return np.ma.masked_array(whole, mask=ticks.is_null().to_numpy(zero_copy_only=False)) if ticks.null_count else whole


def _words(column: Any, good: NDArray[np.bool_]) -> list[Any]:
    values = _names(column, good.size)
    if not _WORDS.issuperset(values):
        good &= [value in _WORDS for value in values]
    return values


def _predictions(column: Any, good: NDArray[np.bool_]) -> list[Any]:
    """Numbers in [0, 1], or lists of them."""
    if column is None or pa.types.is_null(column.type):
        return [None] * good.size
    kind = column.type
    if pa.types.is_list(kind) and (pa.types.is_floating(kind.value_type) or pa.types.is_null(kind.value_type)):
        flat = _floats(column.values)
        inside = np.concatenate(([0], np.cumsum((flat >= 0) & (flat <= 1))))
        offsets = column.offsets.to_numpy()
        length = np.diff(offsets)
        fits = (inside[offsets[1:]] - inside[offsets[:-1]] == length) & (length >= 2) & (length <= MAX_CLASSES)
        good &= fits | column.is_null().to_numpy(zero_copy_only=False)
        return column.to_pylist()  # type: ignore[no-any-return]
    if pa.types.is_decimal(kind):
        # Python rounds to the nearest double; Arrow may be off by one.
        column = pa.array([None if value is None else float(value) for value in column.to_pylist()], pa.float64())
    elif not (pa.types.is_floating(kind) or pa.types.is_signed_integer(kind)):
        raise _Unfit
    values = _floats(column)
    missing = column.is_null().to_numpy(zero_copy_only=False)
    good &= ((values >= 0) & (values <= 1)) | missing
    return values.tolist() if not missing.any() else column.to_pylist()  # type: ignore[no-any-return]


def _floats(column: Any) -> NDArray[np.float64]:
    """float64, nan where there is none."""
    return np.asarray(column.to_numpy(zero_copy_only=False), np.float64)


def _labels(column: Any, count: int) -> list[Any]:
    if column is None or pa.types.is_null(column.type):
        return [None] * count
    kind = column.type
    if not (pa.types.is_boolean(kind) or pa.types.is_signed_integer(kind) or pa.types.is_floating(kind)):
        raise _Unfit
    return column.to_pylist()  # type: ignore[no-any-return]


def _segments(column: Any, count: int) -> Sequence[msgspec.Raw | bytes]:
    """JSON of each row's segments. Each combination of keys and values is one object, which keeps its hash."""
    if column is None or pa.types.is_null(column.type):
        return [ABSENT] * count
    if pa.types.is_map(column.type):
        keys, key_codes = _codes(column.keys)
        values, value_codes = _codes(column.items)
        pairs = np.column_stack((key_codes, value_codes))
        ends = column.offsets.to_numpy()
    elif pa.types.is_struct(column.type):
        children = [_codes(child) for child in column.flatten()]
        keys, values = [field.name for field in column.type], []
        stacked = []
        for at, (child, codes) in enumerate(children):
            stacked.append(np.column_stack((np.full(count, at), np.where(codes < 0, -1, codes + len(values)))))
            values += child
        pairs = np.stack(stacked, axis=1).reshape(-1, 2) if stacked else np.zeros((0, 2), np.int64)
        ends = np.arange(count + 1) * len(children)
    else:
        raise _Unfit
    # Each row's pairs as bytes, so that Arrow finds the distinct ones.
    size = 2 * pairs.itemsize
    offsets, packed = (size * ends).astype(np.int32), np.ascontiguousarray(pairs, np.int64)
    spellings = pa.BinaryArray.from_buffers(pa.binary(), count, [None, pa.py_buffer(offsets), pa.py_buffer(packed)])
    encoded = spellings.dictionary_encode()
    written = np.empty(len(encoded.dictionary), object)
    for at, spelling in enumerate(encoded.dictionary.to_pylist()):
        places = np.frombuffer(spelling, np.int64).reshape(-1, 2).tolist()
        segments = {keys[key]: values[value] for key, value in places if value >= 0}
        written[at] = msgspec.json.encode(segments) if segments else ABSENT
    return written[encoded.indices.to_numpy()].tolist()  # type: ignore[no-any-return]


def _codes(column: Any) -> tuple[list[Any], NDArray[np.int64]]:
    """The distinct values of a column, and the place of each row's among them; -1 for null."""
    kind = column.type
    if not (pa.types.is_string(kind) or pa.types.is_integer(kind) or pa.types.is_boolean(kind)):
        if pa.types.is_null(kind):
            return [], np.full(len(column), -1, np.int64)
        raise _Unfit
    encoded = column.dictionary_encode()
    codes = np.asarray(encoded.indices.fill_null(-1).to_numpy(zero_copy_only=False), np.int64)
    return encoded.dictionary.to_pylist(), codes


def _features(column: Any, count: int) -> Sequence[msgspec.Raw]:
    """The compact form of each row's features: base64 of little-endian float32."""
    if column is None or pa.types.is_null(column.type):
        return [ABSENT] * count
    kind = column.type
    if pa.types.is_binary(kind):
        packed = [value or b"" for value in column.to_pylist()]
    elif pa.types.is_list(kind) and (
        pa.types.is_floating(kind.value_type) or pa.types.is_signed_integer(kind.value_type)
    ):
        if not len(column.values):
            return [ABSENT] * count
        if column.values.null_count:
            raise _Unfit
        with np.errstate(over="ignore"):  # what is infinite as float32 is refused where features are read
            flat = _floats(column.values).astype("<f4").tobytes()
        ends = (4 * column.offsets.to_numpy().astype(np.int64)).tolist()
        packed = [flat[begin:end] for begin, end in pairwise(ends)]
    else:
        raise _Unfit
    encoded = map(base64.b64encode, packed)
    return [msgspec.Raw(b'"%b"' % text) if text else ABSENT for text in encoded]
