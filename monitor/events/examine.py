"""What is a valid JSON event, key by key: one message in, the event or the reason why it is not valid out.

Slow and thorough: only called for messages that the fast path of a format does not decode.
"""

import json
from typing import Any, Final

import msgspec

from monitor.events import fields as read
from monitor.events.cloudevents import PLAIN, Envelope, binary_envelope, structured_event
from monitor.events.fields import Rejected, shown
from monitor.events.formats.base import Rules, kind_by_keys
from monitor.events.model import Kind, Reason, Record
from monitor.events.times import EARLIEST_MS, check_range, read_time
from monitor.events.wire import ABSENT, Event, Fields, decode_fields

_BYTE_ORDER_MARK: Final = b"\xef\xbb\xbf"


def examine(record: Record, rules: Rules, default_kind: Kind | None) -> Event:
    """The event of a message, in its plainest form; its features are left for the decoder to check.

    Raises
    ------
    Rejected
        The message is not a valid event.
    """
    value = value_within(record, rules.max_bytes)
    try:
        envelope = binary_envelope(record.headers)
        fields = _fields(value)
        if envelope is None:
            structured = structured_event(fields, record.headers)
            if structured is not None:
                envelope, data = structured
                fields = _fields(data)
        return _event(fields, envelope or PLAIN, record.timestamp, rules, default_kind)
    except RecursionError:
        raise Rejected(Reason.NOT_JSON, "the message is nested too deeply to be read") from None


def value_within(record: Record, max_bytes: int) -> bytes:
    """The value of a message; raises Rejected if it has none, or one that is too long."""
    if record.value is None:
        raise Rejected(
            Reason.EMPTY, "the message has no value (a tombstone): source.topics decides whether these are ignored"
        )
    if len(record.value) > max_bytes:
        raise Rejected(Reason.OVERSIZED, f"the message must have at most {max_bytes} bytes, got {len(record.value)}")
    return record.value


def examine_json(value: bytes, record: Record, rules: Rules, default_kind: Kind | None) -> Event:
    """Examine a message whose value was converted to this JSON; its envelope can only be in headers."""
    try:
        envelope = binary_envelope(record.headers) or PLAIN
        return _event(_fields(value), envelope, record.timestamp, rules, default_kind)
    except RecursionError:
        raise Rejected(Reason.UNDECODABLE, "the message is nested too deeply to be read") from None


def _event(
    fields: Fields, envelope: Envelope, record_timestamp_ms: int, rules: Rules, default_kind: Kind | None
) -> Event:
    if default_kind is None and rules.kind_by_keys:
        default_kind = kind_by_keys(has_prediction=fields.has("p"), has_outcome=fields.has("y"))
    kind = _kind(fields, envelope, default_kind)
    time_key = "ts"
    if envelope.time and not fields.has("ts"):
        time_key = "time"
        fields.ts = msgspec.Raw(envelope.time)
    missing = [key for key in read.REQUIRED[kind] if not fields.written(key)]
    if missing:
        raise Rejected(
            Reason.MISSING_KEY,
            f"{read.WORDS[kind]} must have {', '.join(read.REQUIRED[kind])}; it has no {', '.join(missing)}",
        )
    model = read.read_model(fields.model)
    identifier = read.read_id(fields.id)
    text = read.text_of(fields.ts)
    time_ms = read_time(read.value_of(fields.ts), text, time_key)
    check_range(time_ms, text, EARLIEST_MS, rules.latest_ms(record_timestamp_ms), time_key)
    event = Event(model, identifier, time_ms, read.WORDS[kind])
    classes = rules.classes.get(model, 0)
    if kind != Kind.OUTCOME:
        event.p = read.read_prediction(fields.p, classes)
    if kind != Kind.PREDICTION:
        event.y = read.read_outcome(fields.y, classes)
    if kind != Kind.OUTCOME:
        event.version = read.read_version(fields.version)
        segments = read.read_segments(fields.segments)
        event.segments = msgspec.Raw(msgspec.json.encode(segments)) if segments else ABSENT
        event.features = fields.features if fields.written("features") else ABSENT
    return event


def _kind(fields: Fields, envelope: Envelope, default_kind: Kind | None) -> Kind:
    if fields.has("type"):
        return read.read_type(fields.type)
    kind = default_kind if envelope.kind is None else envelope.kind
    if kind is None:
        raise Rejected(
            Reason.MISSING_KEY,
            f"type is missing on a topic of several types; it must be one of {', '.join(read.TYPES)}",
        )
    return kind


def _fields(value: bytes) -> Fields:
    """Read the keys of a message that is a JSON object."""
    if not value.strip():
        raise Rejected(Reason.EMPTY, "the message is empty")
    try:
        text = value.decode()
    except UnicodeDecodeError as error:
        raise Rejected(
            Reason.INVALID_UTF8, f"byte {error.start} is not UTF-8 ({error.reason}), in {shown(value)}"
        ) from None
    if value.startswith(_BYTE_ORDER_MARK):
        raise Rejected(Reason.NOT_JSON, "the message begins with a byte order mark; JSON has none")
    try:
        return decode_fields(value)
    except msgspec.ValidationError:
        pass
    except msgspec.DecodeError as error:
        raise _not_json(text, str(error)) from None
    try:
        # decode_fields() stops at the first byte that does not begin an object.
        msgspec.json.decode(value, type=msgspec.Raw)
    except msgspec.DecodeError as error:
        raise _not_json(text, str(error)) from None
    raise Rejected(Reason.NOT_AN_OBJECT, f"the message must be a JSON object, got {shown(value)}")


def _not_json(text: str, wrong: str) -> Rejected:
    """Why a message is not JSON; names the key where the cause is a bare NaN or Infinity, as some encoders write."""
    syntax = Rejected(Reason.NOT_JSON, f"{wrong}, in {shown(text)}")
    if "NaN" not in text and "Infinity" not in text:
        return syntax
    constants: list[_NonFinite] = []

    def parse_constant(name: str) -> _NonFinite:
        constants.append(_NonFinite(name))
        return constants[-1]

    try:
        value = json.loads(text, parse_constant=parse_constant)
    except ValueError:
        constants.clear()
    if not constants:
        return syntax
    if isinstance(value, dict):
        for key, reason in _REASONS.items():
            bad = _non_finite(value.get(key))
            if bad is not None:
                return Rejected(reason, f"{key} must be finite, got {bad}, which JSON does not have")
    return Rejected(Reason.NOT_JSON, f"{constants[0]} is no JSON, in {shown(text)}")


_REASONS: Final = {
    "id": Reason.INVALID_ID,
    "ts": Reason.INVALID_TIME,
    "p": Reason.INVALID_PREDICTION,
    "y": Reason.INVALID_OUTCOME,
    "version": Reason.INVALID_VERSION,
    "features": Reason.INVALID_FEATURES,
}


class _NonFinite(str):
    """NaN, Infinity or -Infinity in a message."""

    __slots__ = ()


def _non_finite(value: Any) -> _NonFinite | None:
    if isinstance(value, list):
        return next((item for item in value if isinstance(item, _NonFinite)), None)
    return value if isinstance(value, _NonFinite) else None
