"""What a scorer logged, as it waits in the buffer; and how it is checked and becomes bytes, in the background."""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import msgspec
import numpy as np

from monitor.arrays import Floats
from monitor.events.encode import encode_outcome, encode_prediction
from monitor.events.features import MAX_FEATURES
from monitor.events.fields import (
    MAX_CLASSES,
    MAX_ID_CHARACTERS,
    Rejected,
    read_outcome,
    read_prediction,
    read_probabilities,
    read_segments,
    shown,
)
from monitor.events.model import Kind, Reason
from monitor.events.times import EARLIEST_MS, check_range, read_time
from monitor.logging.destination import EncodedEvent

Entry = tuple[bool, str, Any, Any, Mapping[str, Any] | None, Floats | None]
"""Whether it is an outcome, id, time, p or y, segments, features.

A plain tuple, which is made in a tenth of the time of a class.
"""

_SLICE: Final = 64
_LATEST_MS: Final = 253_402_300_799_999
"""The end of the year 9999: later times are in microseconds or nanoseconds."""
_LARGEST: Final = float(np.finfo(np.float32).max)
_json: Final = msgspec.json.Encoder(enc_hook=lambda of_numpy: of_numpy.tolist()).encode


@dataclass(frozen=True, slots=True)
class Block:
    """Predictions that were logged by one call.

    Attributes
    ----------
    ids
        n ids.
    times
        One time for all, or n of them.
    p
        Shape (n,) or (n, K).
    segments
        Key -> n values.
    features
        Shape (n, D).
    """

    ids: Sequence[str]
    times: Any
    p: Floats
    segments: Mapping[str, Sequence[Any]]
    features: Floats | None

    def rows(self) -> Iterator[Entry]:
        """The predictions one by one. Converted in slices, so that no step holds the interpreter's lock for long."""
        for start in range(0, len(self.ids), _SLICE):
            rows = slice(start, min(start + _SLICE, len(self.ids)))
            times = self.times[rows] if isinstance(self.times, list) else [self.times] * _SLICE
            for row, (identifier, ts, p) in enumerate(zip(self.ids[rows], times, self.p[rows].tolist(), strict=False)):
                at = start + row
                segments = {key: values[at] for key, values in self.segments.items()} or None
                yield False, identifier, ts, p, segments, None if self.features is None else self.features[at]


def encode_entry(model: str, version: str | None, entry: Entry) -> EncodedEvent:
    """Check an entry and return its event.

    Raises
    ------
    Rejected
        The service would not accept it. Names key and value.
    """
    is_outcome, identifier, ts, value, segments, features = entry
    if not identifier or len(identifier) > MAX_ID_CHARACTERS:
        raise Rejected(
            Reason.INVALID_ID, f"id must have 1 to {MAX_ID_CHARACTERS} characters, got {shown(identifier) or repr('')}"
        )
    if type(ts) is not int or not EARLIEST_MS <= ts <= _LATEST_MS:
        ts = read_time(ts, repr(ts))
        check_range(ts, str(ts), EARLIEST_MS, _LATEST_MS)
    if is_outcome:
        if not isinstance(value, bool) and (type(value) is not int or not 0 <= value <= 1):
            read_outcome(_json(value), MAX_CLASSES)
        return EncodedEvent(Kind.OUTCOME, identifier.encode(), encode_outcome(model, identifier, ts, value))
    if type(value) is not float or not 0.0 <= value <= 1.0:
        _check_prediction(value)
    if segments is not None:
        read_segments(_json(segments))
    if features is not None and not (features.size <= MAX_FEATURES and (np.abs(features) <= _LARGEST).all()):
        raise Rejected(
            Reason.INVALID_FEATURES,
            f"features must be at most {MAX_FEATURES} numbers that are finite as float32, got {features.size}: "
            f"{shown(str(features))}",
        )
    encoded = encode_prediction(model, identifier, ts, value, version=version, segments=segments, features=features)
    return EncodedEvent(Kind.PREDICTION, identifier.encode(), encoded)


def _check_prediction(p: Any) -> None:
    # JSON has no NaN: it would be written as null, and the message would name that.
    for value in p if isinstance(p, list) else [p]:
        if isinstance(value, float) and not math.isfinite(value):
            raise Rejected(Reason.INVALID_PREDICTION, f"p must be a number in [0, 1], got {p}")
    if isinstance(p, list):
        read_probabilities(_json(p))
    else:
        read_prediction(_json(p))
