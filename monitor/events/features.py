"""Features of a prediction: a list of numbers, or base64 of little-endian float32."""

import base64
from collections.abc import Sequence
from itertools import accumulate, chain
from typing import Any, Final, cast

import msgspec
import numpy as np
from numpy.typing import ArrayLike, NDArray

from monitor.events.fields import Rejected, shown
from monitor.events.model import Reason

MAX_FEATURES: Final = 4096

# msgspec reads the base64 of a text into bytes.
_forms: Final = msgspec.json.Decoder(list[float] | bytes | None)


def read_features(raw: Any) -> NDArray[np.float32] | None:
    """The features of one event.

    Parameters
    ----------
    raw
        Bytes of one JSON value, in any object with a buffer; or a list of numbers.

    Returns
    -------
    float32, shape (k,), 1 <= k <= MAX_FEATURES; None if the value is null or holds no features.

    Raises
    ------
    Rejected
        ``INVALID_FEATURES``: neither form, too many, or a number that is not finite as a float32.
    """
    try:
        value = raw if isinstance(raw, list) else _forms.decode(raw)
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise _rejected(f"must be a list of numbers or base64 of little-endian float32 ({error})", raw) from None
    if not value:
        return None
    if isinstance(value, bytes):
        if len(value) % 4:
            raise _rejected(f"must be float32 numbers of 4 bytes, got {len(value)} bytes", raw)
        features = _from_bytes(value)
    else:
        features = _from_numbers(value, len(value))
    if len(features) > MAX_FEATURES:
        raise _rejected(f"must be at most {MAX_FEATURES} numbers, got {len(features)}", raw)
    finite = np.isfinite(features)
    if not finite.all():
        at = int(np.argmin(finite))
        raise _rejected(f"must be finite as float32, but number {at} is {features[at]}", raw)
    return features


def read_feature_column(raws: Sequence[Any]) -> list[NDArray[np.float32] | None] | None:
    """Features of many events at once; None if any of them needs a closer look.

    The arrays are slices of one: copy those that are kept longer than the batch.
    """
    try:
        values = [raw if isinstance(raw, list) else _forms.decode(raw) or [] for raw in raws]
    except (msgspec.MsgspecError, UnicodeDecodeError):
        return None
    forms = set(map(type, values))
    if forms == {bytes}:
        sizes = list(map(len, values))
        if any(size % 4 for size in sizes):
            return None
        lengths = [size // 4 for size in sizes]
        flat = _from_bytes(b"".join(cast("list[bytes]", values)))
    elif forms == {list}:
        lengths = list(map(len, values))
        flat = _from_numbers(chain.from_iterable(values), sum(lengths))
    else:
        return None
    if max(lengths) > MAX_FEATURES or not np.isfinite(flat).all():
        return None
    ends = accumulate(lengths)
    return [flat[end - length : end] if length else None for length, end in zip(lengths, ends, strict=True)]


def encode_features(features: ArrayLike) -> str:
    """The compact form that :func:`read_features` reads: base64 of little-endian float32."""
    with np.errstate(over="ignore"):
        return base64.b64encode(np.asarray(features, np.float64).astype("<f4").tobytes()).decode()


def _from_bytes(packed: bytes) -> NDArray[np.float32]:
    return np.frombuffer(packed, "<f4").astype(np.float32)


def _from_numbers(numbers: Any, count: int) -> NDArray[np.float32]:
    # Numbers beyond float32 become infinite here, and are refused with the other infinities.
    with np.errstate(over="ignore"):
        return np.fromiter(numbers, np.float64, count).astype(np.float32)


def _rejected(rule: str, raw: Any) -> Rejected:
    return Rejected(
        Reason.INVALID_FEATURES, f"features {rule}, got {shown(str(raw) if isinstance(raw, list) else memoryview(raw))}"
    )
