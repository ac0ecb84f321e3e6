"""Messages to events, fast: most of them in C, one call a message.

One call for a whole batch, joined to an array, is no faster, and a message such as ``{},{}`` would shift the others.
"""

from collections.abc import Callable, Sequence
from typing import Final, cast

import msgspec

from monitor.events.cloudevents import Mode, complete_from_headers, mode_of, unwrap
from monitor.events.model import Record
from monitor.events.wire import CloudEvent, Event, decode_cloudevent, decode_event

_Decode = Callable[[bytes], Event | CloudEvent]

_UNTAKEN: Final = (msgspec.MsgspecError, UnicodeDecodeError, RecursionError)


def read_events(records: Sequence[Record], max_bytes: int) -> tuple[list[Event | None], list[int]]:
    """Decode each message.

    Returns
    -------
    events
        One a record; None where a closer look is needed.
    untaken
        The rows that hold None, ascending.
    """
    # An empty value is never taken, so it stands for whatever needs the closer look.
    values = [record.value or b"" for record in records]
    joined = b"".join(values)
    if len(joined) > max_bytes:
        values = [value if len(value) <= max_bytes else b"" for value in values]
    if not joined.isascii():
        # msgspec passes over the bytes of unknown keys without a look at their encoding.
        values = [value if _is_utf8(value) else b"" for value in values]
    events, untaken, enveloped = _decode_each(values)
    for row in [row for row, record in enumerate(records) if record.headers]:
        event = events[row]
        mode = mode_of(records[row].headers)
        if event is None or mode is None:
            continue
        if mode is Mode.STRUCTURED:
            agrees = row in enveloped
        else:
            agrees = row not in enveloped and complete_from_headers(event, records[row].headers)
        if not agrees:
            events[row] = None
            untaken.append(row)
    return events, sorted(untaken)


def _decode_each(values: Sequence[bytes]) -> tuple[list[Event | None], list[int], set[int]]:
    """Decode each value as an event or as an envelope with one in it; the rows of neither, and those of envelopes.

    Messages of one form come in runs, so the form that fitted last is tried first.
    """
    taken: list[Event | CloudEvent | None] = []
    untaken: list[int] = []
    any_enveloped = False
    decode: _Decode = decode_event
    other: _Decode = decode_cloudevent
    rest = iter(values)
    while True:
        try:
            # Keeps what was decoded before a message that raises.
            taken.extend(map(decode, rest))
            break
        except _UNTAKEN:
            row = len(taken)
        try:
            taken.append(other(values[row]))
        except _UNTAKEN:
            taken.append(None)
            untaken.append(row)
        else:
            any_enveloped = True
            decode, other = other, decode
    if not any_enveloped:
        return cast("list[Event | None]", taken), untaken, set()
    enveloped = {row for row, event in enumerate(taken) if isinstance(event, CloudEvent)}
    return [unwrap(event) if isinstance(event, CloudEvent) else event for event in taken], untaken, enveloped


def _is_utf8(value: bytes) -> bool:
    try:
        value.decode()
    except UnicodeDecodeError:
        return False
    return True
