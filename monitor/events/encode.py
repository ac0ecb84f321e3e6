"""Events to bytes: for the simulator, ``replay``, the REST interface, and tests."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any, Final

import msgspec
import numpy as np
from numpy.typing import ArrayLike

from monitor.errors import InputError
from monitor.events import fields as read
from monitor.events.cloudevents import structured_event
from monitor.events.features import encode_features, read_features
from monitor.events.fields import MAX_CLASSES, Rejected
from monitor.events.times import read_time
from monitor.events.wire import Fields, decode_fields

Time = int | str | datetime
"""Milliseconds since the epoch, RFC 3339, or a datetime with an offset."""

_encode: Final = msgspec.json.Encoder().encode


def encode_prediction(
    model: str,
    identifier: str | int,
    ts: Time,
    p: float | ArrayLike,
    *,
    version: str | int | None = None,
    segments: Mapping[str, str] | None = None,
    features: ArrayLike | None = None,
) -> bytes:
    """A prediction, as JSON.

    Parameters
    ----------
    model, identifier, ts
        The model's name, the prediction's id, and when it was made.
    p
        P(y = 1), or the probabilities of all classes, shape (K,).
    version, segments
        Version of the model, and segments of the prediction.
    features
        Numbers, shape (k,); written as base64 of little-endian float32.

    Raises
    ------
    InputError
        The decoder would refuse the event. The range of its time and its number of classes are not checked: they depend
        on when the message is written and on how the model is declared.
    """
    event = {"type": "prediction", **_head(model, identifier, ts), "p": _plain(p)}
    return _checked(event | _declared(version, segments, features))


def encode_outcome(model: str, identifier: str | int, ts: Time, y: bool | int) -> bytes:
    """An outcome, as JSON: whether the prediction of this id came true, or which class did.

    Raises
    ------
    InputError
        The decoder would refuse the event.
    """
    return _checked({"type": "outcome", **_head(model, identifier, ts), "y": _label(y)})


def encode_labelled(
    model: str,
    identifier: str | int,
    ts: Time,
    p: float | ArrayLike,
    y: bool | int,
    *,
    version: str | int | None = None,
    segments: Mapping[str, str] | None = None,
    features: ArrayLike | None = None,
) -> bytes:
    """A prediction together with its outcome, as JSON; parameters as for the two.

    Raises
    ------
    InputError
        The decoder would refuse the event.
    """
    event = {"type": "labelled", **_head(model, identifier, ts), "p": _plain(p), "y": _label(y)}
    return _checked(event | _declared(version, segments, features))


def partition_key(value: bytes) -> bytes | None:
    """The key of a message: its prediction's id, in UTF-8; so an outcome gets the same partition number.

    None if no id can be read: the message will become a dead letter.
    """
    try:
        fields = decode_fields(value)
        around = structured_event(fields, ())
        if around is not None:
            fields = decode_fields(around[1])
        return read.read_id(fields.id).encode()
    except (msgspec.MsgspecError, ValueError, RecursionError, Rejected):
        return None


def _head(model: str, identifier: str | int, ts: Time) -> dict[str, Any]:
    if isinstance(ts, datetime):
        if ts.utcoffset() is None:
            raise InputError(f"ts must know its offset, got {ts.isoformat()}; give the datetime a tzinfo")
        ts = ts.isoformat()
    return {"model": model, "id": _plain(identifier), "ts": _plain(ts)}


def _plain(value: Any) -> Any:
    """A numpy value as a Python number, or a list of them; other values unchanged."""
    return value.tolist() if isinstance(value, np.generic | np.ndarray) else value


def _label(y: Any) -> Any:
    """An outcome, as 0 or 1 if it is a boolean."""
    plain = _plain(y)
    return int(plain) if isinstance(plain, bool) else plain


def _declared(
    version: str | int | None, segments: Mapping[str, str] | None, features: ArrayLike | None
) -> dict[str, Any]:
    declared: dict[str, Any] = {}
    if version is not None:
        declared["version"] = _plain(version)
    if segments:
        declared["segments"] = dict(segments)
    if features is not None:
        declared["features"] = encode_features(features)
    return declared


def _checked(event: dict[str, Any]) -> bytes:
    """The event's bytes, after reading every key back."""
    value = _encode(event)
    fields: Fields = decode_fields(value)
    try:
        for key, check in _CHECKS.items():
            if fields.written(key):
                check(getattr(fields, key))
        _check_prediction(fields)
        read_time(read.value_of(fields.ts), read.text_of(fields.ts))
    except Rejected as why:
        raise InputError(why.detail) from None
    return value


def _check_prediction(fields: Fields) -> None:
    """Check ``p`` and ``y``. The number of classes is only known if there is a prediction."""
    classes = MAX_CLASSES
    if fields.written("p"):
        p = read.value_of(fields.p)
        if isinstance(p, list):
            classes = len(read.read_probabilities(fields.p))
        else:
            classes = 0
            read.read_prediction(fields.p)
    if fields.written("y"):
        read.read_outcome(fields.y, classes)


_CHECKS: Final = {
    "model": read.read_model,
    "id": read.read_id,
    "version": read.read_version,
    "segments": read.read_segments,
    "features": read_features,
}
