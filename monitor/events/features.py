"""Features of a prediction: a list of numbers, or base64 of little-endian float32."""

import base64
import binascii
from typing import Any, Final

import msgspec
import numpy as np
from numpy.typing import ArrayLike, NDArray

from monitor.events.model import Reason
from monitor.events.rejection import Rejected, shown

MAX_FEATURES: Final = 4096

_numbers: Final = msgspec.json.Decoder(list[float])


def read_features(raw: Any) -> NDArray[np.float32] | None:
    """Features as they stand in an event.

    Parameters
    ----------
    raw
        Bytes of one JSON value, in any object with a buffer.

    Returns
    -------
    float32, shape (k,), 1 <= k <= MAX_FEATURES; None if the value is null or holds no features.

    Raises
    ------
    Rejected
        ``INVALID_FEATURES``: neither form, too many, or a number that is not finite as a float32.
    """
    text = memoryview(raw)
    first = bytes(text[:1])
    if first == b"n":
        return None
    if first == b"[":
        features = _from_list(text)
    elif first == b'"':
        features = _from_base64(text)
    else:
        raise _rejected("must be a list of numbers or base64 of little-endian float32", text)
    if len(features) > MAX_FEATURES:
        raise _rejected(f"must be at most {MAX_FEATURES}, got {len(features)} of them", text)
    finite = np.isfinite(features)
    if not finite.all():
        at = int(np.argmin(finite))
        raise _rejected(f"must be finite as float32, number {at} is {features[at]}", text)
    return features if len(features) else None


def encode_features(features: ArrayLike) -> str:
    """The compact form that :func:`read_features` reads: base64 of little-endian float32."""
    return base64.b64encode(np.asarray(features, "<f4").tobytes()).decode()


def _from_list(text: memoryview) -> NDArray[np.float32]:
    try:
        numbers = _numbers.decode(text)
    except msgspec.MsgspecError as error:
        raise _rejected(f"must be a list of numbers ({error})", text) from None
    # Numbers beyond float32 become infinite here, and are refused with the other infinities.
    with np.errstate(over="ignore"):
        return np.array(numbers, np.float64).astype(np.float32)


def _from_base64(text: memoryview) -> NDArray[np.float32]:
    try:
        packed = base64.b64decode(msgspec.json.decode(text, type=str), validate=True)
    except (binascii.Error, ValueError) as error:
        raise _rejected(f"must be base64 ({error})", text) from None
    if len(packed) % 4:
        raise _rejected(f"must be whole float32 numbers of 4 bytes, got {len(packed)} bytes", text)
    return np.frombuffer(packed, "<f4").astype(np.float32)


def _rejected(rule: str, text: memoryview) -> Rejected:
    return Rejected(Reason.INVALID_FEATURES, f"features {rule}, got {shown(text)}")
