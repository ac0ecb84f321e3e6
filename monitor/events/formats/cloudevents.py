"""CloudEvents 1.0 around JSON events: see :mod:`monitor.events.cloudevents`."""

from collections.abc import Collection
from typing import Final

from monitor.events.cloudevents import Mode, complete_from_headers, mode_of, unwrap
from monitor.events.examine import examine
from monitor.events.formats.base import Format, Messages
from monitor.events.formats.plain_json import decode_each, utf8_values
from monitor.events.wire import Event, decode_cloudevent, decode_event

_MARK: Final = b'"specversion"'
"""Text that every structured CloudEvent contains, whatever its headers."""


def matches(messages: Messages) -> Collection[int]:
    """The rows of messages that are CloudEvents by their headers, or may be by their text."""
    if messages.joined.count(_MARK) >= len(messages.values):
        # Nearly always one mark in each: a search of one text instead of many. `examine` decides about the others.
        return range(len(messages.values))
    rows = {row for row, record in enumerate(messages.records) if record.headers and mode_of(record.headers)}
    if len(rows) < len(messages.records) and _MARK in messages.joined:
        rows.update([row for row, value in enumerate(messages.values) if _MARK in value])
    return rows


def decode(messages: Messages) -> list[Event | None]:
    """The event of each message, completed by its envelope: in the headers, or else in the value."""
    values = utf8_values(messages.values)
    if not messages.have_headers:
        return [None if event is None else unwrap(event) for event in decode_each(decode_cloudevent, values)]
    events: list[Event | None] = [None] * len(values)
    structured = [_MARK in value for value in values]
    rows = [row for row, marked in enumerate(structured) if marked]
    for row, envelope in zip(rows, decode_each(decode_cloudevent, [values[row] for row in rows]), strict=True):
        if envelope is not None and mode_of(messages.records[row].headers) is not Mode.BINARY:
            events[row] = unwrap(envelope)
    rows = [row for row, marked in enumerate(structured) if not marked]
    for row, event in zip(rows, decode_each(decode_event, [values[row] for row in rows]), strict=True):
        if event is not None and complete_from_headers(event, messages.records[row].headers):
            events[row] = event
    return events


FORMAT = Format(decode, examine, matches)
