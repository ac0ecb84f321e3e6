"""Events to bytes, for the simulator and for tests; and the key of an event's message."""

from collections.abc import Mapping
from typing import Any, Final

import msgspec
from numpy.typing import ArrayLike

from monitor.events.cloudevents import event_fields
from monitor.events.features import encode_features
from monitor.events.fields import Rejected, read_id

Time = int | str
"""Milliseconds since the epoch, or RFC 3339."""


class _Prediction(msgspec.Struct, tag_field="type", tag="prediction", omit_defaults=True):
    model: str
    id: str | int
    ts: Time
    p: Any
    version: str | int | None = None
    segments: Mapping[str, str] | None = None
    features: str | None = None


class _Outcome(msgspec.Struct, tag_field="type", tag="outcome"):
    model: str
    id: str | int
    ts: Time
    y: Any


_encode: Final = msgspec.json.Encoder(enc_hook=lambda of_numpy: of_numpy.tolist()).encode


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
    """A prediction, as JSON. Nothing is checked: what is wrong becomes a dead letter where it is read.

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
    """
    packed = None if features is None else encode_features(features)
    return _encode(_Prediction(model, identifier, ts, p, version, segments, packed))


def encode_outcome(model: str, identifier: str | int, ts: Time, y: bool | int) -> bytes:
    """An outcome, as JSON: whether the prediction of this id came true, or which class did."""
    return _encode(_Outcome(model, identifier, ts, y))


def encode_labelled(
    model: str, identifier: str | int, ts: Time, p: float | ArrayLike, y: bool | int, **optional: Any
) -> bytes:
    """A prediction together with its outcome, as JSON; parameters as for the two."""
    prediction = msgspec.json.decode(encode_prediction(model, identifier, ts, p, **optional))
    return _encode({**prediction, "type": "labelled", "y": y})


def partition_key(value: bytes) -> bytes | None:
    """The key of a message: its prediction's id, in UTF-8; so an outcome gets the same partition number.

    None if no id can be read: the message will become a dead letter.
    """
    try:
        return read_id(event_fields(value)[1].id).encode()
    except (msgspec.MsgspecError, ValueError, RecursionError, Rejected):
        return None
