"""RFC 3339 timestamps in bulk."""

from collections.abc import Sequence
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from monitor.arrays import Bools, Ints
from monitor.events.times import parse_time

_USUAL: Final = (
    r"^[0-9]{4}-[0-9]{2}-[0-9]{2}[T ][0-9]{2}:[0-9]{2}:[0-9]{2}(\.[0-9]{1,9})?(Z|[+-]([01][0-9]|2[0-3]):[0-5][0-9])$"
)
"""Texts that Arrow reads as this service does, as long as there is such a day and time; others are read one by one."""
_FILLER: Final = "2000-01-01T00:00:00Z"


def parse_times(texts: Sequence[str]) -> tuple[Ints, Bools]:
    """Milliseconds since the epoch, (n,), floored, 0 where a text is no time; and which texts are times, (n,).

    Raises
    ------
    TypeError
        One of them is not a text.
    """
    column = pa.array(texts, pa.string())
    usual = pc.match_substring_regex(column, _USUAL)
    good = usual.to_numpy(zero_copy_only=False)
    try:
        # Nanoseconds hold the digits beyond the third, which are then cut off.
        moments = pc.if_else(usual, column, _FILLER).cast(pa.timestamp("ns", "UTC")).cast(pa.int64())
        time_ms = np.where(good, moments.to_numpy() // 1_000_000, 0)
    except pa.ArrowInvalid:
        # One of them names a day or time that does not exist, or one that nanoseconds do not reach.
        good, time_ms = np.zeros(len(texts), np.bool_), np.zeros(len(texts), np.int64)
    for row in np.flatnonzero(~good).tolist():
        try:
            time_ms[row] = parse_time(texts[row])
        except ValueError:
            continue
        good[row] = True
    return time_ms, good
