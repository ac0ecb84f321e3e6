"""What each key of an event may hold. One function a key: the bytes of a JSON value in, the value or Rejected out."""

import re
from typing import Any, Final

import msgspec

from monitor.events.model import UNVERSIONED, Kind, Reason
from monitor.events.rejection import Rejected, shown

MAX_ID_CHARACTERS: Final = 512
MAX_NAME_CHARACTERS: Final = 128
"""Of a model, a version, or the value of a segment: they become label values."""
MAX_SEGMENTS: Final = 32
MAX_SEGMENT_KEY_CHARACTERS: Final = 64

TYPES: Final = {"prediction": Kind.PREDICTION, "outcome": Kind.OUTCOME, "labelled": Kind.LABELLED}
REQUIRED: Final = {
    Kind.PREDICTION: ("model", "id", "ts", "p"),
    Kind.OUTCOME: ("model", "id", "ts", "y"),
    Kind.LABELLED: ("model", "id", "ts", "p", "y"),
}

NULL: Final = b"null"
UNREADABLE: Final = object()
"""In place of a value that Python cannot hold: 1e400, or an integer of thousands of digits."""

_CONTROL: Final = re.compile(r"[\x00-\x1f\x7f-\x9f]")
_INTEGER: Final = re.compile(rb"-?[0-9]+")
_values: Final = msgspec.json.Decoder()
_objects: Final = msgspec.json.Decoder(dict[str, msgspec.Raw])


def value_of(raw: bytes | msgspec.Raw) -> Any:
    """The Python value of a JSON value, or UNREADABLE."""
    try:
        return _values.decode(raw)
    except (msgspec.MsgspecError, ValueError):
        return UNREADABLE


def text_of(raw: bytes | msgspec.Raw) -> str:
    """A JSON value as it was written, short enough for a message."""
    return shown(memoryview(raw))


def read_type(raw: bytes | msgspec.Raw) -> Kind:
    """``type``: one of three words."""
    value = value_of(raw)
    if not isinstance(value, str):
        raise Rejected(Reason.WRONG_TYPE, f"type must be a string, got {text_of(raw)}")
    kind = TYPES.get(value)
    if kind is None:
        raise Rejected(Reason.UNKNOWN_TYPE, f"type must be one of {', '.join(TYPES)}, got {text_of(raw)}")
    return kind


def read_model(raw: bytes | msgspec.Raw) -> str:
    """``model``: a string of 1 to 128 characters, none of them a control character."""
    value = value_of(raw)
    if not isinstance(value, str):
        raise Rejected(Reason.INVALID_MODEL, f"model must be a string, got {text_of(raw)}")
    wrong = wrong_name(value)
    if wrong or not value:
        raise Rejected(Reason.INVALID_MODEL, f"model {wrong or 'must not be empty'}, got {text_of(raw)}")
    return value


def read_id(raw: bytes | msgspec.Raw) -> str:
    """``id``: a string of 1 to 512 characters, or an integer, which is the same id as its decimal text.

    Numbers with a fraction or an exponent are refused: beyond 2^53 they no longer tell ids apart.
    """
    written = bytes(raw)
    if _INTEGER.fullmatch(written):
        value: Any = "0" if written == b"-0" else written.decode()
    else:
        value = value_of(raw)
    if not isinstance(value, str):
        raise Rejected(Reason.INVALID_ID, f"id must be a string or an integer, got {text_of(raw)}")
    if not 1 <= len(value) <= MAX_ID_CHARACTERS:
        raise Rejected(
            Reason.INVALID_ID,
            f"id must have 1 to {MAX_ID_CHARACTERS} characters, got {len(value)}: {text_of(raw)}",
        )
    return value


def read_version(raw: bytes | msgspec.Raw) -> str:
    """``version``: a string of at most 128 characters, or an integer; null and "" name none.

    Numbers with a fraction are refused, since 1.10 and 1.1 are one number and two versions.
    """
    written = bytes(raw)
    if written in (b"", NULL):
        return UNVERSIONED
    if _INTEGER.fullmatch(written):
        value: Any = "0" if written == b"-0" else written.decode()
    else:
        value = value_of(raw)
    if not isinstance(value, str):
        raise Rejected(
            Reason.INVALID_VERSION, f"version must be a string or an integer, got {text_of(raw)}; put it in quotes"
        )
    wrong = wrong_name(value)
    if wrong:
        raise Rejected(Reason.INVALID_VERSION, f"version {wrong}, got {text_of(raw)}")
    return value or UNVERSIONED


def read_segments(raw: bytes | msgspec.Raw) -> dict[str, str]:
    """``segments``: an object of at most 32 names to strings; numbers and booleans count as they are written.

    A value of null leaves its key out. Keys have 1 to 64 characters and no ``=``, which divides them from the value in
    the name of the series.
    """
    if bytes(raw) in (b"", NULL):
        return {}
    try:
        pairs = _objects.decode(raw)
    except (msgspec.MsgspecError, ValueError):
        raise Rejected(Reason.INVALID_SEGMENTS, f"segments must be an object, got {text_of(raw)}") from None
    if len(pairs) > MAX_SEGMENTS:
        raise Rejected(Reason.INVALID_SEGMENTS, f"segments must have at most {MAX_SEGMENTS} keys, got {len(pairs)}")
    segments = {}
    for key, raw_value in pairs.items():
        if not 1 <= len(key) <= MAX_SEGMENT_KEY_CHARACTERS or "=" in key or _CONTROL.search(key):
            raise Rejected(
                Reason.INVALID_SEGMENTS,
                f"a key of segments must have 1 to {MAX_SEGMENT_KEY_CHARACTERS} characters without = and control "
                f"characters, got {shown(key)}",
            )
        if bytes(raw_value) != NULL:
            segments[key] = _segment_value(key, raw_value)
    return segments


def read_prediction(raw: bytes | msgspec.Raw) -> float:
    """``p``: P(y = 1), a number in [0, 1]."""
    value = value_of(raw)
    if isinstance(value, list):
        raise Rejected(
            Reason.UNSUPPORTED_MULTICLASS,
            f"p is a list: many classes are not measured yet; send P(y = 1) as a number, got {text_of(raw)}",
        )
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= 1:
        raise Rejected(Reason.INVALID_PREDICTION, f"p must be a number in [0, 1], got {text_of(raw)}")
    # 0.0 for -0.0: there is one zero.
    return float(value) + 0.0


def read_outcome(raw: bytes | msgspec.Raw) -> int:
    """``y``: 0 or 1, as an integer, a boolean, or a number with a fraction of zero."""
    value = value_of(raw)
    if not isinstance(value, int | float) or value not in (0, 1):
        many = isinstance(value, int) and value > 1
        hint = "; many classes are not measured yet, send whether the one in question came true" if many else ""
        raise Rejected(Reason.INVALID_OUTCOME, f"y must be 0 or 1, or true or false, got {text_of(raw)}{hint}")
    return int(value)


def wrong_name(name: str) -> str | None:
    """What is wrong with the name of a model, a version or a segment's value; None if nothing is."""
    if len(name) > MAX_NAME_CHARACTERS:
        return f"must have at most {MAX_NAME_CHARACTERS} characters, has {len(name)}"
    if _CONTROL.search(name):
        return "must not hold control characters"
    return None


def _segment_value(key: str, raw: msgspec.Raw) -> str:
    written = bytes(raw)
    if written[:1] in b"{[":
        raise Rejected(
            Reason.INVALID_SEGMENTS,
            f"segments.{shown(key)} must be a string, a number or a boolean, got {text_of(raw)}",
        )
    value = value_of(raw) if written[:1] == b'"' else written.decode()
    wrong = wrong_name(value)
    if wrong:
        raise Rejected(Reason.INVALID_SEGMENTS, f"segments.{shown(key)} {wrong}, got {text_of(raw)}")
    return str(value)
