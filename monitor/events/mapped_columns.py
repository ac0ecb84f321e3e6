"""Where the keys of an event are found in decoded columns: a mapping, for all messages of a batch at once.

The same as :meth:`FieldMapping.read_events` for each message. Messages with an unusual value are left to it.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from monitor.arrays import Bools
from monitor.events.arrow_events import KEYS
from monitor.events.mapping import UNITS, FieldMapping, Source
from monitor.events.model import Record

_LARGEST: Final = 2.0**53
"""Integers up to here are exact as numbers with a fraction, and ticks of any unit do not overflow."""


class _Unfit(Exception):  # noqa: N818 - no error: the messages are mapped one by one
    """A column has a type that is not mapped here."""


def map_columns(
    mapping: FieldMapping, columns: Mapping[str, Any], records: Sequence[Record]
) -> tuple[Bools, dict[str, Any]] | None:
    """Find the keys of events.

    Parameters
    ----------
    mapping
        Where they are; of messages that are one event each.
    columns
        Field of the messages -> Arrow array of shape (n,).
    records
        The messages, as many.

    Returns
    -------
    good
        bool, shape (n,): the messages that were mapped. The others have to be mapped one by one.
    mapped
        Key of an event -> Arrow array of as many rows as there are good messages.

    None if all messages have to be mapped one by one.
    """
    good = np.ones(len(records), np.bool_)
    mapped = {key: columns[key] for key in KEYS if key in columns}
    try:
        values = {text: _read(source, columns, records) for text, source in mapping.sources.items()}
        mapped.update((key, values[text]) for key, text in mapping.keys.items())
        for key, texts in (("p", mapping.p), ("features", mapping.features)):
            if len(texts) > 1:
                mapped[key] = _listed([values[text] for text in texts], good)
            elif texts:
                mapped[key] = values[texts[0]]
        if "p" in mapped:
            mapped["p"] = _unwrapped(mapped["p"])
        if mapping.segments:
            children = [values[text] for text in mapping.segments.values()]
            mapped["segments"] = pa.StructArray.from_arrays(children, [*mapping.segments])
        if "ts" in mapped and mapping.keys.get("ts") != "$timestamp" and mapping.ts_unit != "milliseconds":
            mapped["ts"] = _times(mapped["ts"], *UNITS[mapping.ts_unit], good)
        if "y" in mapped and (mapping.positive or mapping.negative):
            mapped["y"] = _outcomes(mapping, mapped["y"], good)
    except _Unfit:
        return None
    if not good.all():
        mapped = {key: column.filter(pa.array(good)) for key, column in mapped.items()}
    return good, mapped


def _read(source: Source, columns: Mapping[str, Any], records: Sequence[Record]) -> Any:
    if source.steps is None:
        return pa.array([source.read({}, record) for record in records])
    first, *steps = source.steps
    column = columns.get(str(first))
    for step in steps:
        column = None if column is None else _follow(column, step)
    return pa.nulls(len(records)) if column is None else column


def _follow(column: Any, step: str | int) -> Any:
    """The part of each value; None if they have none."""
    kind = column.type
    if pa.types.is_struct(kind):
        at = kind.get_field_index(str(step))
        return None if at < 0 else column.flatten()[at]
    if pa.types.is_map(kind):
        if not pa.types.is_string(kind.key_type):
            raise _Unfit
        return pc.map_lookup(column, pa.scalar(str(step)), "last")
    if pa.types.is_list(kind):
        if isinstance(step, str):
            return None
        offsets = column.offsets.to_numpy()
        is_there = (np.diff(offsets) > step) & column.is_valid().to_numpy(zero_copy_only=False)
        return column.values.take(pa.array(offsets[:-1] + step, mask=~is_there))
    if pa.types.is_nested(kind):
        raise _Unfit
    return None


def _listed(columns: Sequence[Any], good: Bools) -> Any:
    """Lists of one number from each column. Rows that lack one are not good."""
    for column in columns:
        if not (pa.types.is_floating(column.type) or pa.types.is_signed_integer(column.type)):
            raise _Unfit
        good &= column.is_valid().to_numpy(zero_copy_only=False)
    numbers = np.column_stack([np.asarray(column.to_numpy(zero_copy_only=False), np.float64) for column in columns])
    offsets = np.arange(len(good) + 1, dtype=np.int32) * len(columns)
    return pa.ListArray.from_arrays(pa.array(offsets), pa.array(numbers.ravel()))


def _unwrapped(column: Any) -> Any:
    """The numbers themselves where all lists are of one: rows of a tensor of one column."""
    if pa.types.is_list(column.type) and not column.null_count and (np.diff(column.offsets.to_numpy()) == 1).all():
        return column.flatten()
    return column


def _times(column: Any, times: int, divisor: int, good: Bools) -> Any:
    """Milliseconds of ticks. Those that are too large are not good."""
    kind = column.type
    if pa.types.is_string(kind) or pa.types.is_null(kind):
        return column
    if not (pa.types.is_signed_integer(kind) or pa.types.is_float64(kind)):
        raise _Unfit
    missing = column.is_null().to_numpy(zero_copy_only=False)
    ticks = np.where(missing, 0, column.fill_null(0).to_numpy())
    if pa.types.is_float64(kind):
        good &= np.abs(ticks) < _LARGEST / 1000
        milliseconds = np.rint(np.where(good, ticks, 0) * times / divisor).astype(np.int64)
    else:
        good &= np.abs(ticks.astype(np.float64)) < (_LARGEST if times > 1 else np.inf)
        milliseconds = ticks.astype(np.int64) * times // divisor
    return pa.array(milliseconds, mask=missing)


def _outcomes(mapping: FieldMapping, column: Any, good: Bools) -> Any:
    """1 and 0 of words. Rows with other words are not good."""
    kind = column.type
    if pa.types.is_null(kind):
        return column
    if not (
        pa.types.is_string(kind)
        or pa.types.is_signed_integer(kind)
        or pa.types.is_boolean(kind)
        or pa.types.is_floating(kind)
    ):
        raise _Unfit
    encoded = column.dictionary_encode()
    words = encoded.dictionary.to_pylist()
    outcomes = [mapping.read_outcome(word) for word in words]
    numbers = np.array([-1, *(outcome if type(outcome) is int and outcome in {0, 1} else -1 for outcome in outcomes)])
    outcome = numbers[np.asarray(encoded.indices.fill_null(-1).to_numpy(zero_copy_only=False)) + 1]
    missing = column.is_null().to_numpy(zero_copy_only=False)
    good &= (outcome >= 0) | missing
    return pa.array(outcome, mask=missing)
