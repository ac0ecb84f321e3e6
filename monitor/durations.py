"""Durations as text: ``90s``, ``1h30m``, ``7d``."""

import re
from datetime import timedelta
from typing import Final

_UNITS: Final = {"ms": 1, "s": 1000, "m": 60_000, "h": 3_600_000, "d": 86_400_000, "w": 604_800_000}
_PART: Final = re.compile(r"(\d+(?:\.\d+)?)\s*(ms|s|m|h|d|w)")
_WHOLE: Final = re.compile(rf"(?:\s*{_PART.pattern})+\s*")
_NUMBER: Final = re.compile(r"\s*\d+(?:\.\d+)?\s*")
_LONGEST_MS: Final = 100 * 365 * _UNITS["d"]

DURATION_FORM: Final = "a duration such as 90s, 15m, 24h or 7d, or a number of seconds"


def parse_duration(value: object) -> timedelta:
    """Parse a duration: text (``90s``, ``1h30m``) or a number of seconds.

    Raises
    ------
    ValueError
        It is neither, or longer than a hundred years. The message says what is allowed.
    """
    if isinstance(value, timedelta):
        return value
    number = isinstance(value, int | float) and not isinstance(value, bool)
    if number or (isinstance(value, str) and _NUMBER.fullmatch(value)):
        milliseconds = float(str(value)) * 1000
    elif isinstance(value, str) and _WHOLE.fullmatch(value):
        milliseconds = sum(float(count) * _UNITS[unit] for count, unit in _PART.findall(value))
    else:
        raise ValueError(f"must be {DURATION_FORM}")
    # NaN fails the comparison, too.
    if not 0 <= milliseconds <= _LONGEST_MS:
        raise ValueError("must be between 0 and 100 years")
    return timedelta(milliseconds=round(milliseconds))


def format_duration(duration: timedelta) -> str:
    """Return the shortest text that `parse_duration` reads as this duration: ``90s``, ``1h30m``, ``7d``."""
    return format_ms(to_ms(duration))


def format_ms(milliseconds: int) -> str:
    """Return the text of :func:`format_duration` for a number of milliseconds."""
    left = milliseconds
    for unit in ("d", "h", "m", "s"):
        # A single unit where possible: 90s rather than 1m30s, and 24h rather than 1d.
        if left and left % _UNITS[unit] == 0 and (left // _UNITS[unit] > 1 or unit != "d"):
            return f"{left // _UNITS[unit]}{unit}"
    parts = []
    for unit in ("d", "h", "m", "s", "ms"):
        count, left = divmod(left, _UNITS[unit])
        if count:
            parts.append(f"{count}{unit}")
    return "".join(parts) or "0s"


def rough_duration(milliseconds: int) -> str:
    """Say how long something is in the unit that a person would choose: ``40 min``, ``25 h``, ``9 d``."""
    for unit, size in (("d", _UNITS["d"]), ("h", _UNITS["h"]), ("min", _UNITS["m"])):
        if milliseconds >= 2 * size:
            return f"{milliseconds / size:.0f} {unit}"
    return f"{milliseconds / 1000:.0f} s"


def to_ms(duration: timedelta) -> int:
    """Whole milliseconds of a duration."""
    return round(duration / timedelta(milliseconds=1))
