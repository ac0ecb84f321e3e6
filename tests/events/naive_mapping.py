"""The mapping one message at a time, in obvious steps: the oracle of the mapping by columns.

Also the document of one Protobuf message, field by field.
"""

import math
from collections.abc import Mapping, Sequence
from typing import Any, Final

from monitor.events.fields import MAX_ID_CHARACTERS, Rejected
from monitor.events.mapping import UNITS, FieldMapping, FieldSource, read_text
from monitor.events.model import Reason, Record
from monitor.events.wire import KEYS

Document = Mapping[str, Any]
WRAPPED: Final = {"Double", "Float", "Int64", "UInt64", "Int32", "UInt32", "Bool", "String", "Bytes"}


def read_source(source: FieldSource, document: Document, record: Record) -> Any:
    """The value in a message, None where it has none; of a source with ``[]`` the list of the rows' items."""
    if source.of_record is not None:
        return source.of_record(record)
    value = follow(document, source.path)
    return value if source.in_row is None else items_of(value, follow(document, (*source.path[:-1], "shape")))


def follow(value: Any, steps: Sequence[str | int]) -> Any:
    for step in steps:
        if isinstance(value, str):
            value = read_text(value)
        if isinstance(value, dict):
            value = value.get(str(step))
        elif isinstance(value, list) and isinstance(step, int) and step < len(value):
            value = value[step]
        else:
            return None
    return value


def items_of(items: Any, shape: Any) -> list[Any] | None:
    if isinstance(items, str):
        read = read_text(items)
        return read if isinstance(read, list) else [read]
    if not isinstance(items, list):
        return None
    if not isinstance(shape, list) or not shape or not isinstance(shape[0], int) or not 0 < shape[0] < len(items):
        return items
    width, rest = divmod(len(items), shape[0])
    return items if rest else [items[at : at + width] for at in range(0, len(items), width)]


def read_events(mapping: FieldMapping, document: Document, record: Record) -> list[Document]:
    """The events in a message, in the order of its rows.

    An id that is the same in all rows is completed by the number of the row, from 0 on: ``7f3a-0``, ``7f3a-1``.

    Raises
    ------
    Rejected
        The message has none of the lists of a batch, or they differ in length.
    """
    values = {text: read_source(source, document, record) for text, source in mapping.sources.items()}
    if any(_as_text(values[source]) != text for source, text in mapping.where.items()):
        return []
    in_row = {text: steps for text, source in mapping.sources.items() if (steps := source.in_row) is not None}
    if not in_row:
        return [_event(mapping, document, values)]
    lengths = {text: len(values[text]) for text in in_row if values[text] is not None}
    if not lengths:
        raise Rejected(Reason.MISSING_KEY, f"the message has none of the lists {', '.join(in_row)}")
    if len({*lengths.values()}) > 1:
        listed = ", ".join(f"{text} has {length}" for text, length in lengths.items())
        raise Rejected(Reason.WRONG_TYPE, f"the lists of a batch must be of one length, got: {listed}")
    events: list[Document] = []
    for row in range(next(iter(lengths.values()))):
        of_row = {text: follow(values[text][row], in_row[text]) for text in lengths}
        event = _event(mapping, document, values | of_row)
        if mapping.keys.get("id") not in in_row and "id" in event:
            event["id"] = _numbered(event["id"], row)
        events.append(event)
    return events


def _event(mapping: FieldMapping, document: Document, values: Mapping[str, Any]) -> dict[str, Any]:
    event = {key: document[key] for key in KEYS if key in document}
    event.update((key, values[source]) for key, source in mapping.keys.items())
    for name, sources in (("p", mapping.p), ("features", mapping.features)):
        if sources:
            listed = [values[source] for source in sources]
            event[name] = listed if len(listed) > 1 else listed[0]
    if isinstance(event.get("p"), list) and len(event["p"]) == 1:
        (event["p"],) = event["p"]  # a row of a tensor of one column
    if mapping.segments:
        by_name = {name: values[source] for name, source in mapping.segments.items()}
        event["segments"] = {name: value for name, value in by_name.items() if value is not None}
    event["ts"] = _time(mapping, event.get("ts"), mapping.keys.get("ts"))
    if mapping.positive or mapping.negative:
        event["y"] = _read_outcome(mapping, event.get("y"))
    return {key: value for key, value in event.items() if value is not None}


def _time(mapping: FieldMapping, value: Any, source: str | None) -> Any:
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    if not is_number or source == "$timestamp" or mapping.ts_unit == "milliseconds":
        return value
    times, divisor = UNITS[mapping.ts_unit]
    ticks = value * times
    if isinstance(ticks, int):
        return ticks // divisor
    # Rounded: 1700000000.123 seconds is a little less than that. What no calendar has is refused later.
    return round(ticks / divisor) if math.isfinite(ticks) else value


def _read_outcome(mapping: FieldMapping, value: Any) -> Any:
    """What a value of ``y`` means: 1, 0, or itself where it is neither."""
    if not isinstance(value, str | int | float):
        return value
    text = _as_text(value)
    if text in mapping.positive:
        return 1
    return 0 if text in mapping.negative or not mapping.negative else value


def _as_text(value: Any) -> str:
    """A value as JSON writes it, a text without its quotes."""
    return str(value).lower() if isinstance(value, bool) else str(value)


def _numbered(identifier: Any, row: int) -> Any:
    if isinstance(identifier, bool) or not isinstance(identifier, str | int):
        return identifier  # no id: refused later
    text = str(identifier)
    # A text that is too long is refused later, and not copied for each row until then.
    return f"{text}-{row}" if len(text) <= MAX_ID_CHARACTERS else text


def read_message(message: Any) -> dict[str, Any]:
    """A Protobuf message as a document."""
    document: dict[str, Any] = {}
    for field in message.DESCRIPTOR.fields:
        if field.has_presence and not message.HasField(field.name):
            continue
        value = getattr(message, field.name)
        if field.is_repeated and field.message_type is not None and field.message_type.GetOptions().map_entry:
            inner = field.message_type.fields_by_name["value"]
            document[field.name] = {str(key): _read_one(value[key], inner) for key in value}
        elif field.is_repeated:
            document[field.name] = [_read_one(item, field) for item in value]
        elif value != "" or field.has_presence:
            document[field.name] = _read_one(value, field)
    return document


def _read_one(value: Any, field: Any) -> Any:
    if field.enum_type is not None:
        named = field.enum_type.values_by_number.get(value)
        return value if named is None else named.name
    if field.message_type is None:
        return value
    name = field.message_type.full_name
    if name == "google.protobuf.Timestamp":
        return 1000 * value.seconds + value.nanos // 1_000_000
    if name.removeprefix("google.protobuf.").removesuffix("Value") in WRAPPED:
        return value.value
    return read_message(value)
