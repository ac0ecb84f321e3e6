"""The contract of an event, spelled out: one message in, the event or the reason why it is none out.

Slow and thorough. The decoder asks only about messages that its fast path does not take.
"""

import json
from collections.abc import Mapping
from typing import Any, Final

import msgspec
import numpy as np
from numpy.typing import NDArray

from monitor.clock import Clock
from monitor.events import fields as read
from monitor.events.cloudevents import PLAIN, Envelope, binary_envelope, structured_event
from monitor.events.features import read_features
from monitor.events.model import Kind, Reason, Record
from monitor.events.rejection import Rejected, shown
from monitor.events.times import check_range, read_time
from monitor.events.wire import ABSENT, Event, Fields, Word, decode_fields

_BYTE_ORDER_MARK: Final = b"\xef\xbb\xbf"
_WORDS: Final[dict[Kind, Word]] = {
    Kind.PREDICTION: "prediction",
    Kind.OUTCOME: "outcome",
    Kind.LABELLED: "labelled",
}


class Examiner:
    """Decides about single messages.

    Parameters
    ----------
    max_bytes
        Longest value that is read.
    max_ahead_ms
        How far an event's time may lie ahead of when its message was written.
    earliest_ms
        Earliest event time, milliseconds since the epoch.
    clock
        Tells the time where the log does not.
    told_by_keys
        Whether an event that names no type, where no topic names it either, is told by its keys.
    classes
        Model -> how many classes it is declared to have. Others have one probability.
    """

    def __init__(
        self,
        *,
        max_bytes: int,
        max_ahead_ms: int,
        earliest_ms: int,
        clock: Clock,
        told_by_keys: bool = False,
        classes: Mapping[str, int] | None = None,
    ) -> None:
        self._max_bytes = max_bytes
        self._max_ahead_ms = max_ahead_ms
        self._earliest_ms = earliest_ms
        self._clock = clock
        self._told_by_keys = told_by_keys
        self._classes = classes or {}

    def examine(self, record: Record, default_kind: Kind | None) -> tuple[Event, NDArray[np.float32] | None]:
        """The event of a message, in its plainest form, and its features.

        Raises
        ------
        Rejected
            The message is no valid event.
        """
        value = record.value
        if value is None:
            raise Rejected(Reason.EMPTY, "the message has no value (a tombstone)")
        if len(value) > self._max_bytes:
            raise Rejected(Reason.OVERSIZED, f"the message must have at most {self._max_bytes} bytes, got {len(value)}")
        try:
            envelope = binary_envelope(record.headers)
            fields = _fields(value)
            if envelope is None:
                around = structured_event(fields, record.headers)
                if around is not None:
                    envelope, data = around
                    fields = _fields(data)
            return self._event(fields, envelope or PLAIN, record.timestamp, default_kind)
        except RecursionError:
            raise Rejected(Reason.NOT_JSON, "the message is nested too deeply to be read") from None

    def latest_ms(self, record_timestamp_ms: int) -> int:
        """Latest event time that a message may hold, by when it was written: so a replay decides alike."""
        return (record_timestamp_ms if record_timestamp_ms >= 0 else self._clock.now_ms()) + self._max_ahead_ms

    def _event(
        self, fields: Fields, envelope: Envelope, record_timestamp_ms: int, default_kind: Kind | None
    ) -> tuple[Event, NDArray[np.float32] | None]:
        if default_kind is None and self._told_by_keys:
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
                f"{_WORDS[kind]} must have {', '.join(read.REQUIRED[kind])}; it has no {', '.join(missing)}",
            )
        model = read.read_model(fields.model)
        identifier = read.read_id(fields.id)
        text = read.text_of(fields.ts)
        time_ms = read_time(read.value_of(fields.ts), text, time_key)
        check_range(time_ms, text, self._earliest_ms, self.latest_ms(record_timestamp_ms), time_key)
        event = Event(model, identifier, time_ms, _WORDS[kind])
        features = None
        classes = self._classes.get(model, 0)
        if kind != Kind.OUTCOME:
            event.p = read.read_prediction(fields.p, classes)
        if kind != Kind.PREDICTION:
            event.y = read.read_outcome(fields.y, classes)
        if kind != Kind.OUTCOME:
            event.version = read.read_version(fields.version)
            segments = read.read_segments(fields.segments)
            event.segments = msgspec.Raw(msgspec.json.encode(segments)) if segments else ABSENT
            if fields.written("features"):
                features = read_features(fields.features)
        return event, features


def kind_by_keys(*, has_prediction: bool, has_outcome: bool) -> Kind | None:
    """The type of an event that names none, by what it holds; None if it holds neither prediction nor outcome."""
    if has_prediction:
        return Kind.LABELLED if has_outcome else Kind.PREDICTION
    return Kind.OUTCOME if has_outcome else None


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
        # What begins as no object was not read to its end.
        msgspec.json.decode(value, type=msgspec.Raw)
    except msgspec.DecodeError as error:
        raise _not_json(text, str(error)) from None
    raise Rejected(Reason.NOT_AN_OBJECT, f"the message must be a JSON object, got {shown(value)}")


def _not_json(text: str, wrong: str) -> Rejected:
    """Why a message is no JSON; by its key where a bare NaN or Infinity is the cause, as careless encoders write it."""
    unsaid = Rejected(Reason.NOT_JSON, f"{wrong}, in {shown(text)}")
    if "NaN" not in text and "Infinity" not in text:
        return unsaid
    constants: list[_NonFinite] = []

    def noted(name: str) -> _NonFinite:
        constants.append(_NonFinite(name))
        return constants[-1]

    try:
        value = json.loads(text, parse_constant=noted)
    except ValueError:
        constants.clear()
    if not constants:
        return unsaid
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
    """NaN, Infinity or -Infinity, as it stood in a message."""

    __slots__ = ()


def _non_finite(value: Any) -> _NonFinite | None:
    if isinstance(value, list):
        return next((item for item in value if isinstance(item, _NonFinite)), None)
    return value if isinstance(value, _NonFinite) else None
