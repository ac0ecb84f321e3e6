"""Kinds of value that YAML has no word for: durations, lists in one line of text, addresses with a password."""

import re
from datetime import timedelta
from typing import Annotated, Any, Final

from pydantic import AfterValidator, BeforeValidator, PlainSerializer

from monitor.errors import InputError
from monitor.events.fields import MAX_CLASSES, wrong_name
from monitor.measures import choose_measures

_UNITS: Final = {"ms": 1, "s": 1000, "m": 60_000, "h": 3_600_000, "d": 86_400_000, "w": 604_800_000}
_PART: Final = re.compile(r"(\d+(?:\.\d+)?)\s*(ms|s|m|h|d|w)")
_WHOLE: Final = re.compile(rf"(?:\s*{_PART.pattern})+\s*")
_NUMBER: Final = re.compile(r"\s*\d+(?:\.\d+)?\s*")
_PASSWORD: Final = re.compile(r"(?<=://)([^:/@]*):(.*)@")
_PASSWORD_OPTION: Final = re.compile(r"([?&](?:ssl)?password=)[^&]*")
_LONGEST_MS: Final = 100 * 365 * _UNITS["d"]

DURATION_FORM: Final = "a duration such as 90s, 15m, 24h or 7d, or a number of seconds"


def parse_duration(value: object) -> timedelta:
    """A duration from text (``90s``, ``1h30m``) or from a number of seconds.

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
    # Not a number fails the comparison too.
    if not 0 <= milliseconds <= _LONGEST_MS:
        raise ValueError("must be between 0 and 100 years")
    return timedelta(milliseconds=round(milliseconds))


def format_duration(duration: timedelta) -> str:
    """The shortest text that `parse_duration` reads as this duration: ``90s``, ``1h30m``, ``7d``."""
    left = to_ms(duration)
    for unit in ("d", "h", "m", "s"):
        # One unit says it best while the number is small: 24h rather than 1d, 90s rather than 1m30s.
        if left and left % _UNITS[unit] == 0 and (left // _UNITS[unit] > 1 or unit != "d"):
            return f"{left // _UNITS[unit]}{unit}"
    parts = []
    for unit in ("d", "h", "m", "s", "ms"):
        count, left = divmod(left, _UNITS[unit])
        if count:
            parts.append(f"{count}{unit}")
    return "".join(parts) or "0s"


def to_ms(duration: timedelta) -> int:
    """Whole milliseconds of a duration."""
    return round(duration / timedelta(milliseconds=1))


def hide_password(address: str) -> str:
    """An address without its password: ``postgresql://monitor:***@db/calibration``."""
    return _PASSWORD_OPTION.sub(r"\1***", _PASSWORD.sub(r"\1:***@", address))


def _split(value: Any) -> Any:
    return [part.strip() for part in value.split(",") if part.strip()] if isinstance(value, str) else value


def _check_measures(names: tuple[str, ...]) -> tuple[str, ...]:
    try:
        return tuple(choose_measures(names))
    except InputError as error:
        raise ValueError(f"must name measures ({error})") from None


Duration = Annotated[timedelta, BeforeValidator(parse_duration), PlainSerializer(format_duration)]
"""A length of time, at a resolution of milliseconds."""


def _name_classes(value: Any) -> Any:
    if isinstance(value, int) and not isinstance(value, bool):
        # Not more names than are refused anyway.
        value = range(min(value, MAX_CLASSES + 1))
    return list(map(str, _split(value))) if isinstance(value, range | str | list | tuple) else value


def _check_classes(names: tuple[str, ...]) -> tuple[str, ...]:
    if not 2 <= len(names) <= MAX_CLASSES:
        raise ValueError(f"must be 2 to {MAX_CLASSES} classes, as their names or their number")
    for name in names:
        wrong = wrong_name(name) if name else "must not be empty"
        if wrong:
            raise ValueError(f"the name of a class {wrong}: {name!r}")
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise ValueError(f"must be different classes, got {twice[0]!r} twice")
    return names


Names = Annotated[tuple[str, ...], BeforeValidator(_split)]
"""A list of names, or one line of text with commas between them."""

Classes = Annotated[tuple[str, ...], BeforeValidator(_name_classes), AfterValidator(_check_classes)]
"""Names of classes, by class, or how many there are: then their names are 0, 1, 2 and so on."""

MeasureNames = Annotated[tuple[str, ...], BeforeValidator(_split), AfterValidator(_check_measures)]
"""Names of measures, as `Names`; in the order of a report, whatever the order they are given in."""

Address = Annotated[str, PlainSerializer(hide_password)]
"""A URL that may hold a password, which is hidden wherever it is shown."""
