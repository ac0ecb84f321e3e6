"""CloudEvents 1.0 around an event, in the two modes of the Kafka protocol binding.

Structured: the message is a JSON envelope (it has ``specversion``, or the header ``content-type`` says so) and the
event is its ``data`` or ``data_base64``. Binary: the envelope's attributes are ``ce_`` headers and the message is the
event. The event's own fields always win; the envelope's ``time`` replaces a missing ``ts``, and the last word of its
``type`` (``com.example.prediction``, ``com.example.prediction.v1``) a missing ``type``.

The envelope's ``id`` never replaces a missing ``id``: it identifies one delivery, so an outcome would have another id
than its prediction, and they would never join.

Source: https://github.com/cloudevents/spec, "CloudEvents 1.0.2" and "Kafka Protocol Binding 1.0.2".
"""

import base64
import binascii
import re
from collections.abc import Mapping
from enum import Enum
from functools import lru_cache
from typing import Final, NamedTuple

import msgspec

from monitor.events.fields import NULL, TYPES, WORDS, Rejected, shown, text_of, value_of
from monitor.events.model import Headers, Kind, Reason
from monitor.events.wire import CloudEvent, Event, Fields, decode_fields

PREFIX: Final = "ce_"
STRUCTURED: Final = b"application/cloudevents"
_REQUIRED: Final = ("id", "source", "specversion", "type")
_MAJOR: Final = re.compile(r"1\.[0-9]+")
_VERSION_WORD: Final = re.compile(r"v[0-9]+")


class Envelope(NamedTuple):
    """The attributes of an envelope that may complete its event."""

    kind: Kind | None = None
    """Kind of event that the last word of ``type`` names; None if it names none."""
    time: bytes = b""
    """``time`` as JSON; b"" if there is none."""


PLAIN: Final = Envelope()
"""The envelope of an event that is not a CloudEvent."""


class Mode(Enum):
    """Where the envelope of a CloudEvent is: in the headers, or in the value."""

    BINARY = "binary"
    STRUCTURED = "structured"


def mode_of(headers: Headers) -> Mode | None:
    """The mode that a message's headers declare, if any."""
    mode = None
    for name, value in headers:
        lower = name.lower()
        if lower == "content-type" and _is_structured(value):
            return Mode.STRUCTURED
        if lower == "ce_specversion":
            mode = Mode.BINARY
    return mode


def complete_from_headers(event: Event, headers: Headers) -> bool:
    """Complete an event in binary mode; False if the envelope needs a closer check."""
    attributes = {}
    for name, value in headers:
        lower = name.lower()
        if lower == "content-type" and _is_structured(value):
            return False
        attributes[lower] = value
    sort = attributes.get("ce_type")
    if attributes.get("ce_specversion") != b"1.0" or not (
        sort and attributes.get("ce_id") and attributes.get("ce_source")
    ):
        return False
    time = attributes.get("ce_time")
    _complete(event, sort.decode("utf-8", "replace"), time.decode("utf-8", "replace") if time else None)
    return True


def unwrap(cloudevent: CloudEvent) -> Event:
    """The event in an envelope, completed."""
    _complete(cloudevent.data, cloudevent.type, cloudevent.time)
    return cloudevent.data


def binary_envelope(headers: Headers) -> Envelope | None:
    """The envelope in the headers, or None.

    Raises
    ------
    Rejected
        ``INVALID_CLOUDEVENT``.
    """
    attributes: dict[str, bytes] = {}
    for name, value in headers:
        lower = name.lower()
        if lower == "content-type" and _is_structured(value):
            return None
        if lower.startswith(PREFIX):
            # Headers hold texts, a structured envelope JSON: convert to JSON.
            text = (value or b"").decode("utf-8", "replace")
            attributes[lower.removeprefix(PREFIX)] = msgspec.json.encode(text)
    if "specversion" not in attributes:
        return None
    return _envelope(attributes, PREFIX)


def structured_event(fields: Fields, headers: Headers) -> tuple[Envelope, bytes] | None:
    """The envelope that a message is, and the event in it; None if it is not an envelope.

    Raises
    ------
    Rejected
        ``INVALID_CLOUDEVENT``.
    """
    declared = any(name.lower() == "content-type" and _is_structured(value) for name, value in headers)
    if not declared and fields.written("specversion") in (b"", NULL):
        return None
    attributes = {key: fields.written(key) for key in (*_REQUIRED, "time")}
    envelope = _envelope({key: raw for key, raw in attributes.items() if raw not in (b"", NULL)}, "")
    return envelope, _data(fields)


def event_fields(value: bytes, headers: Headers = ()) -> tuple[Envelope, Fields]:
    """The fields of the event in a message, and its envelope; ``PLAIN`` if the message is the event itself.

    Raises
    ------
    Rejected, msgspec.MsgspecError, ValueError, RecursionError
        It cannot be read.
    """
    fields = decode_fields(value)
    structured = structured_event(fields, headers)
    return (PLAIN, fields) if structured is None else (structured[0], decode_fields(structured[1]))


def _is_structured(content_type: bytes | None) -> bool:
    return content_type is not None and content_type.strip()[: len(STRUCTURED)].lower() == STRUCTURED


def _envelope(attributes: Mapping[str, bytes], prefix: str) -> Envelope:
    for key in _REQUIRED:
        value = value_of(attributes[key]) if key in attributes else ""
        if not isinstance(value, str) or not value:
            got = text_of(attributes[key]) if key in attributes else "nothing"
            raise Rejected(
                Reason.INVALID_CLOUDEVENT, f"{prefix}{key} of a CloudEvent must be a non-empty string, got {got}"
            )
    version = value_of(attributes["specversion"])
    if not _MAJOR.fullmatch(version):
        raise Rejected(
            Reason.INVALID_CLOUDEVENT, f"{prefix}specversion of a CloudEvent must be 1.0, got {shown(version)}"
        )
    return Envelope(_kind(value_of(attributes["type"])), attributes.get("time", b""))


@lru_cache(maxsize=256)
def _kind(sort: str) -> Kind | None:
    """The type of event by the last word of a CloudEvent's ``type``; None if that is not one."""
    words = sort.lower().split(".")
    if len(words) > 1 and _VERSION_WORD.fullmatch(words[-1]):
        words.pop()
    return TYPES.get(words[-1])


def _complete(event: Event, sort: str, time: str | None) -> None:
    if event.ts is None:
        event.ts = time
    if event.type is None:
        kind = _kind(sort)
        event.type = None if kind is None else WORDS[kind]


def _data(fields: Fields) -> bytes:
    data, packed = (b"" if raw == NULL else raw for raw in (fields.written("data"), fields.written("data_base64")))
    if data and packed:
        raise Rejected(Reason.INVALID_CLOUDEVENT, "a CloudEvent must have data or data_base64, got both")
    if packed:
        text = value_of(packed)
        if not isinstance(text, str):
            raise Rejected(
                Reason.INVALID_CLOUDEVENT, f"data_base64 of a CloudEvent must be a string, got {text_of(packed)}"
            )
        try:
            return base64.b64decode(text, validate=True)
        except (binascii.Error, ValueError) as error:
            raise Rejected(
                Reason.INVALID_CLOUDEVENT,
                f"data_base64 of a CloudEvent must be base64 ({error}), got {text_of(packed)}",
            ) from None
    if not data.startswith(b"{"):
        got = text_of(data) if data else "nothing"
        raise Rejected(Reason.INVALID_CLOUDEVENT, f"data of a CloudEvent must be an object, the event; got {got}")
    return data
