"""Labels of an axis of time, each of which can be read by itself."""

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

from matplotlib.dates import num2date
from matplotlib.ticker import Formatter


class Dates(Formatter):
    """Years, months with their year, days with their month, or times of a day; below, the years or days they are of.

    A label that left out what changes along the axis, as a day its month, would be read with what stands at its end.
    """

    def __init__(self) -> None:
        self._offset = ""

    def __call__(self, x: float, pos: Any = None) -> str:  # noqa: ARG002 - matplotlib's signature
        """One label, as it would be alone."""
        return self.format_ticks([x])[0]

    def format_ticks(self, values: Sequence[float]) -> list[str]:
        """The labels of all ticks."""
        times = [_time(each) for each in values]
        if not times:
            self._offset = ""
            return []
        first, last = times[0], times[-1]
        if not all(_midnight(each) for each in times):
            self._offset = f"{_span(f'{first.day} {first:%b %Y}', f'{last.day} {last:%b %Y}')} UTC"
            long = any(each.second for each in times)
            return [
                _day(each) if _midnight(each) else f"{each:%H:%M:%S}" if long else f"{each:%H:%M}" for each in times
            ]
        if any(each.day != 1 for each in times):
            self._offset = _span(f"{first:%Y}", f"{last:%Y}")
            return [_day(each) for each in times]
        self._offset = ""
        return [f"{each:%Y}" if all(other.month == 1 for other in times) else f"{each:%b %Y}" for each in times]

    def get_offset(self) -> str:
        """What the labels leave out."""
        return self._offset


def _time(days: float) -> datetime:
    found = num2date(days, tz=UTC)  # type: ignore[no-untyped-call]  # matplotlib's dates are untyped
    if not isinstance(found, datetime):
        raise TypeError(f"one time was expected, got {found!r}")
    return found


def _midnight(time: datetime) -> bool:
    return (time.hour, time.minute, time.second, time.microsecond) == (0, 0, 0, 0)


def _day(time: datetime) -> str:
    return f"{time.day} {time:%b}"


def _span(first: str, last: str) -> str:
    return first if first == last else f"{first} to {last}"
