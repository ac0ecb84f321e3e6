"""Points of histories by seed, and the obvious way to keep and thin them."""

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np

from monitor.events.model import SeriesKey
from monitor.store.history import FIELDS, Points

MINUTE_MS = 60_000
HOUR_MS = 60 * MINUTE_MS
DAY_MS = 24 * HOUR_MS
CHURN = SeriesKey("churn", "7", "all")

Row = tuple[Any, ...]


class Drawn(NamedTuple):
    """Rows in the order of the columns of Points, and the measures of each."""

    rows: list[Row]
    measures: list[dict[str, list[float]]]

    def points(self) -> Points:
        return Points.of_rows(self.rows, self.measures)


def row(window: str, to_ms: int, *, n: int = 900, verdict: str = "calibrated", length_ms: int = HOUR_MS) -> Row:
    """A point whose counts follow from n; of a verdict of an empty text, one whose intervals are to come."""
    severity = "none" if verdict == "calibrated" else ""
    return (window, to_ms, to_ms - length_ms, n, n // 3, n + 100, n / 3000, verdict, severity)


def measured(to_ms: int, n: int = 900, *, complete: bool = True) -> dict[str, list[float]]:
    """Numbers that follow from the window's end and n, exact in single precision."""
    value = (to_ms // MINUTE_MS % 1000 + n) / 1024
    return {"smce": [value, *(value * at / 8 if complete else np.nan for at in range(1, len(FIELDS)))]}


def drawn(keys: Iterable[tuple[str, int, int, str]]) -> Drawn:
    """Points of (window, end, n, verdict)."""
    parts = list(keys)
    return Drawn(
        [row(window, to_ms, n=n, verdict=verdict) for window, to_ms, n, verdict in parts],
        [measured(to_ms, n, complete=bool(verdict)) for _, to_ms, n, verdict in parts],
    )


def every(step_ms: int, from_ms: int, to_ms: int, window: str = "1h") -> Points:
    """A complete point for each step in (from, to]."""
    return drawn((window, at, 900 + at // step_ms % 50, "calibrated") for at in ends(step_ms, from_ms, to_ms)).points()


def ends(step_ms: int, from_ms: int, to_ms: int) -> range:
    return range(from_ms + step_ms, to_ms + 1, step_ms)


def kept_naively(parts: Sequence[Points]) -> list[tuple[Any, ...]]:
    """One row for each window and end, in order: the last, or an earlier one of the same counts that is complete."""
    kept: dict[tuple[str, int], tuple[Any, ...]] = {}
    earlier: dict[tuple[str, int], list[tuple[Any, ...]]] = {}
    for points in parts:
        for line in lines(points):
            key = line[:2]
            earlier.setdefault(key, []).append(line)
            kept[key] = line
    for key, line in kept.items():
        if not line[7]:
            same = [other for other in earlier[key] if other[7] and other[3:7] == line[3:7]]
            kept[key] = same[-1] if same else line
    return [kept[key] for key in sorted(kept)]


def thinned_naively(rows: Iterable[tuple[Any, ...]], step_ms: int) -> list[tuple[Any, ...]]:
    """Of the rows of each window that end in (k * step, (k + 1) * step], the last; of those with a verdict, if any."""
    last: dict[tuple[str, int], tuple[Any, ...]] = {}
    for line in rows:
        key = line[0], -(-line[1] // step_ms)
        if line[7] or key not in last or not last[key][7]:
            last[key] = line
    return list(last.values())


def lines(points: Points) -> list[tuple[Any, ...]]:
    """The rows, as tuples that compare equal where they are; nan is None."""
    columns = [column.tolist() for column in points[:-1]]
    names = sorted(points.measures)
    fields = [
        [None if np.isnan(value) else value for name in names for value in points.measures[name][at].tolist()]
        for at in range(points.to_ms.size)
    ]
    return [(*values, tuple(of_measures)) for *values, of_measures in zip(*columns, fields, strict=True)]
