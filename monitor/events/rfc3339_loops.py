"""RFC 3339 timestamps in bulk: the bytes of many texts in, milliseconds since the epoch out."""

from typing import Final

import numpy as np
from numpy.typing import NDArray

from monitor.compiled import njit

GOOD: Final = 0
MALFORMED: Final = 1
NO_OFFSET: Final = 2
NO_SUCH_DATE: Final = 3
NO_SUCH_TIME: Final = 4
NO_SUCH_OFFSET: Final = 5
NO_LEAP_SECOND: Final = 6

_DAY_MS: Final = 86_400_000


@njit()
def _number(text: NDArray[np.uint8], start: int, digits: int) -> int:
    """Value of a run of decimal digits, or -1 where there is another character."""
    value = 0
    for at in range(start, start + digits):
        digit = int(text[at]) - 48
        if digit < 0 or digit > 9:
            return -1
        value = 10 * value + digit
    return value


@njit()
def _days_of_month(year: int, month: int) -> int:
    if month == 2:
        return 29 if year % 4 == 0 and (year % 100 != 0 or year % 400 == 0) else 28
    return 30 if month in (4, 6, 9, 11) else 31


@njit()
def _days_since_epoch(year: int, month: int, day: int) -> int:
    """Days from 1970-01-01 in the proleptic Gregorian calendar.

    Source: Howard Hinnant, "chrono-Compatible Low-Level Date Algorithms", ``days_from_civil``. Years begin in March
    there, so that the leap day is a year's last.
    """
    if month <= 2:
        year -= 1
    era = year // 400
    year_of_era = year - 400 * era
    day_of_year = (153 * (month + (-3 if month > 2 else 9)) + 2) // 5 + day - 1
    day_of_era = 365 * year_of_era + year_of_era // 4 - year_of_era // 100 + day_of_year
    return 146_097 * era + day_of_era - 719_468


@njit()
def _ends_a_month(year: int, month: int, day: int, shift_days: int) -> bool:
    """Whether the day that lies ``shift_days`` (-1, 0 or 1) from a date is the last of its month."""
    last = _days_of_month(year, month)
    if shift_days == 0:
        return day == last
    if shift_days == -1:
        return day == 1
    return day == last - 1


@njit()
def _parse(text: NDArray[np.uint8], start: int, end: int) -> tuple[int, int]:
    """Parse ``text[start:end]``; returns (status, milliseconds since the epoch)."""
    # 2026-11-20T10:00:00 has 19 characters; the fraction and the offset follow.
    if end - start < 19:
        return MALFORMED, 0
    year = _number(text, start, 4)
    month = _number(text, start + 5, 2)
    day = _number(text, start + 8, 2)
    hour = _number(text, start + 11, 2)
    minute = _number(text, start + 14, 2)
    second = _number(text, start + 17, 2)
    if year < 0 or month < 0 or day < 0 or hour < 0 or minute < 0 or second < 0:
        return MALFORMED, 0
    if text[start + 4] != ord("-") or text[start + 7] != ord("-"):
        return MALFORMED, 0
    # A space in place of the T is what section 5.6 of RFC 3339 allows for readability, and what Python's str() writes.
    between = text[start + 10]
    if between != ord("T") and between != ord("t") and between != ord(" "):
        return MALFORMED, 0
    if text[start + 13] != ord(":") or text[start + 16] != ord(":"):
        return MALFORMED, 0

    at = start + 19
    millisecond = 0
    if at < end and text[at] == ord("."):
        at += 1
        scale = 100
        first = at
        while at < end and ord("0") <= text[at] <= ord("9"):
            # Digits beyond the third are read and cut off: the time is floored to its millisecond.
            millisecond += scale * (int(text[at]) - 48)
            scale //= 10
            at += 1
        if at == first:
            return MALFORMED, 0

    if at == end:
        return NO_OFFSET, 0
    offset_minutes = 0
    if text[at] == ord("Z") or text[at] == ord("z"):
        if at + 1 != end:
            return MALFORMED, 0
    elif text[at] == ord("+") or text[at] == ord("-"):
        if at + 6 != end or text[at + 3] != ord(":"):
            return MALFORMED, 0
        offset_hour = _number(text, at + 1, 2)
        offset_minute = _number(text, at + 4, 2)
        if offset_hour < 0 or offset_minute < 0:
            return MALFORMED, 0
        if offset_hour > 23 or offset_minute > 59:
            return NO_SUCH_OFFSET, 0
        offset_minutes = 60 * offset_hour + offset_minute
        if text[at] == ord("-"):
            offset_minutes = -offset_minutes
    else:
        return MALFORMED, 0

    if month < 1 or month > 12 or day < 1 or day > _days_of_month(year, month):
        return NO_SUCH_DATE, 0
    if hour > 23 or minute > 59 or second > 60:
        return NO_SUCH_TIME, 0
    minutes = 60 * hour + minute - offset_minutes
    if second == 60:
        # Leap seconds stand at the end of a month, 23:59:60 UTC. This clock has none: the second counts as the last
        # millisecond before midnight, so that it stays in its own day and in order.
        if minutes % 1440 != 1439 or not _ends_a_month(year, month, day, minutes // 1440):
            return NO_LEAP_SECOND, 0
        second = 59
        millisecond = 999
    return GOOD, _DAY_MS * _days_since_epoch(year, month, day) + 60_000 * minutes + 1000 * second + millisecond


@njit()
def parse_rfc3339(text: NDArray[np.uint8], end: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int8]]:
    """Parse timestamps that stand back to back.

    Parameters
    ----------
    text
        uint8, shape (bytes,): ASCII.
    end
        int64, shape (n,): where each text ends, ascending; each begins where the one before it ends.

    Returns
    -------
    time_ms
        int64, shape (n,): milliseconds since the epoch, floored; 0 where the text is not good.
    status
        int8, shape (n,): ``GOOD``, or what is wrong.
    """
    count = end.shape[0]
    time_ms = np.empty(count, np.int64)
    status = np.empty(count, np.int8)
    start = 0
    for i in range(count):
        status[i], time_ms[i] = _parse(text, start, end[i])
        start = end[i]
    return time_ms, status
