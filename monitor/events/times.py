"""Event times: RFC 3339 or integer milliseconds since the epoch."""

import re
from calendar import monthrange
from datetime import UTC, date, datetime
from typing import Any, Final

from monitor.events.fields import Rejected, shown
from monitor.events.model import Reason

EARLIEST_MS: Final = 946_684_800_000
"""2000-01-01T00:00:00Z: earlier times are mistakes, most often of the unit."""

DAY_MS: Final = 86_400_000

_FORM: Final = re.compile(
    r"([0-9]{4})-([0-9]{2})-([0-9]{2})[Tt ]([0-9]{2}):([0-9]{2}):([0-9]{2})(?:\.([0-9]+))?"
    r"(?:[Zz]|([+-])([0-9]{2}):([0-9]{2}))?"
)
"""A space in place of the T is what section 5.6 of RFC 3339 allows for readability, and what Python's str() writes."""
_EPOCH: Final = date(1970, 1, 1).toordinal()

_NANOSECONDS_OF: Final = {"seconds": 10**9, "microseconds": 1000, "nanoseconds": 1}


def parse_time(text: str) -> int:
    """Milliseconds since the epoch of an RFC 3339 text, floored. Raises ValueError, which says what is wrong."""
    match = _FORM.fullmatch(text)
    if match is None:
        raise ValueError("must read like 2026-11-20T10:00:00Z")
    year, month, day, hour, minute, second = map(int, match.groups()[:6])
    fraction, sign, offset_hour, offset_minute = match.groups()[6:]
    offset = 0
    if sign is not None:
        if int(offset_hour) > 23 or int(offset_minute) > 59:
            raise ValueError("has an offset beyond 23:59")
        offset = int(f"{sign}1") * (60 * int(offset_hour) + int(offset_minute))
    elif text[-1] not in "Zz":
        raise ValueError("has no offset; append Z for UTC, or one like +01:00")
    minutes = 60 * hour + minute - offset
    try:
        days = date(year, month, day).toordinal()
        utc = date.fromordinal(days + minutes // 1440)
    except (ValueError, OverflowError):
        raise ValueError("names a day that no calendar has") from None
    if hour > 23 or minute > 59 or second > 60:
        raise ValueError("names a time that no clock shows; hours end at 23, minutes and seconds at 59")
    millisecond = int(f"{fraction or ''}000"[:3])
    if second == 60:
        if minutes % 1440 != 1439 or utc.day != monthrange(utc.year, utc.month)[1]:
            raise ValueError("has second 60, which stands only at 23:59:60 UTC on the last day of a month")
        # This clock has no leap seconds: it counts as the last millisecond before midnight, in its own day.
        second, millisecond = 59, 999
    return DAY_MS * (days - _EPOCH) + 60_000 * minutes + 1000 * second + millisecond


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
        try:
            return parse_time(value)
        except ValueError as error:
            in_quotes = value.strip().lstrip("-").isdecimal()
            wrong = "is a number in quotes; send epoch milliseconds as a number" if in_quotes else str(error)
            raise Rejected(Reason.INVALID_TIME, f"{key} {wrong}, got {shown(text)}") from None
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


def format_known(time_ms: int | None) -> str | None:
    """The time as :func:`format_time` writes it; None where there is none."""
    return None if time_ms is None else format_time(time_ms)
