"""Event times: RFC 3339 or integer milliseconds since the epoch."""

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from monitor.events import rfc3339_loops as rfc3339
from monitor.events.fields import Rejected, shown
from monitor.events.model import Reason

EARLIEST_MS: Final = 946_684_800_000
"""2000-01-01T00:00:00Z: earlier times are mistakes, most often of the unit."""

DAY_MS: Final = 86_400_000

_WRONG: Final = {
    rfc3339.MALFORMED: "must read like 2026-11-20T10:00:00Z",
    rfc3339.NO_OFFSET: "has no offset; append Z for UTC, or one like +01:00",
    rfc3339.NO_SUCH_DATE: "names a day that no calendar has",
    rfc3339.NO_SUCH_TIME: "names a time that no clock shows; hours end at 23, minutes and seconds at 59",
    rfc3339.NO_SUCH_OFFSET: "has an offset beyond 23:59",
    rfc3339.NO_LEAP_SECOND: "has second 60, which stands only at 23:59:60 UTC on the last day of a month",
}

_NANOSECONDS_OF: Final = {"seconds": 10**9, "microseconds": 1000, "nanoseconds": 1}


def parse_times(texts: Sequence[str]) -> tuple[NDArray[np.int64], NDArray[np.int8]]:
    """Milliseconds since the epoch of RFC 3339 texts.

    Returns
    -------
    time_ms
        int64, shape (n,), floored to the millisecond.
    status
        int8, shape (n,): ``rfc3339.GOOD`` or what is wrong.

    Raises
    ------
    TypeError
        One of them is not a text.
    """
    # What is not ASCII becomes one question mark a character, so lengths in characters are lengths in bytes.
    joined = "".join(texts).encode("ascii", "replace")
    end = np.cumsum(np.fromiter(map(len, texts), np.int64, len(texts)))
    time_ms, status = rfc3339.parse_rfc3339(np.frombuffer(joined, np.uint8), end)
    return time_ms, status


def read_time(value: Any, text: str, key: str = "ts") -> int:
    """Milliseconds since the epoch of one JSON value.

    A number with a fraction of zero (``1.7e12``) is an integer, as it is in JSON Schema.

    Parameters
    ----------
    value
        The value, decoded.
    text
        The value as written, for the message.
    key
        Its key, for the message.

    Raises
    ------
    Rejected
        ``INVALID_TIME``.
    """
    if isinstance(value, str):
        time_ms, status = parse_times([value])
        if status[0] == rfc3339.GOOD:
            return int(time_ms[0])
        wrong = _WRONG[int(status[0])]
        if value.strip().lstrip("-").isdecimal():
            wrong = "is a number in quotes; send epoch milliseconds as a number"
        raise Rejected(Reason.INVALID_TIME, f"{key} {wrong}, got {shown(text)}")
    if isinstance(value, int) and not isinstance(value, bool):
        return value
    if isinstance(value, float):
        if value.is_integer():
            return int(value)
        raise Rejected(Reason.INVALID_TIME, f"{key} must be a whole number of milliseconds, got {shown(text)}")
    raise Rejected(
        Reason.INVALID_TIME, f"{key} must be an RFC 3339 text or integer epoch milliseconds, got {shown(text)}"
    )


def check_range(time_ms: int, text: str, earliest_ms: int, latest_ms: int, key: str = "ts") -> None:
    """Check that a time is in [earliest_ms, latest_ms].

    Raises
    ------
    Rejected
        ``TIME_OUT_OF_RANGE``, with the unit that was perhaps meant.
    """
    if earliest_ms <= time_ms <= latest_ms:
        return
    hint = ""
    if not text.startswith('"'):
        meant = [unit for unit, ns in _NANOSECONDS_OF.items() if earliest_ms <= time_ms * ns // 10**6 <= latest_ms]
        hint = f"; it looks like {meant[0]}, send milliseconds" if meant else ""
    raise Rejected(
        Reason.TIME_OUT_OF_RANGE,
        f"{key} must lie between {format_time(earliest_ms)} and {format_time(latest_ms)}, got {shown(text)}{hint}",
    )


def format_time(time_ms: int) -> str:
    """RFC 3339 in UTC with milliseconds; the bare number where no calendar reaches."""
    try:
        moment = datetime.fromtimestamp(time_ms // 1000, UTC).replace(tzinfo=None)
    except (OverflowError, ValueError, OSError):
        return str(time_ms)
    return f"{moment.isoformat()}.{time_ms % 1000:03d}Z"
