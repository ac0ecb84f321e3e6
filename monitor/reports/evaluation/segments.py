"""Segments of a file: columns cut into groups, and the groups' reports in order of harm."""

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from math import inf
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from monitor.arrays import Bools, Floats, Ints
from monitor.events.model import OTHER
from monitor.reports.evaluation.report import Report
from monitor.sources.columns import EMPTY, MISSING_WORDS
from monitor.sources.tables import SegmentColumn, crossed_columns

QUANTILE_RANGES: Final = 5
"""Number of ranges of a column of numbers, of equally many rows as far as ties allow."""

_SLACK: Final = 0.01
"""Share of the values by which an end may differ from its quantile."""

_WHOLE: Final = 1e15
"""Number from which on float64 does not distinguish all whole numbers."""
_SEPARATED: Final = 10_000
"""Numbers from here on are written with thousands separators, so that years have none."""


class Range(NamedTuple):
    """Numbers from ``low`` to below ``high``."""

    low: float = -math.inf
    high: float = math.inf

    def holds(self, values: Floats) -> Bools:
        """Test whether each value lies in the range, shape (n,); nan does not."""
        return (values >= self.low) & (values < self.high)

    def text(self, *, whole: bool) -> str:
        """Describe the range: ``18 to 34`` for whole numbers, ``0.5 to 0.75``, ``below 18``, ``62 or more``."""
        if math.isinf(self.low):
            return f"below {number_text(self.high)}"
        if math.isinf(self.high):
            return f"{number_text(self.low)} or more"
        last = self.high - 1.0 if whole else self.high
        return number_text(self.low) if last == self.low else f"{number_text(self.low)} to {number_text(last)}"


def number_text(value: float) -> str:
    """Format a number with up to ten digits: 0.25, 62, 20,000."""
    return f"{value:,.10g}" if abs(value) >= _SEPARATED else f"{value:.10g}"


def are_whole(values: Floats) -> bool:
    """Return whether all values are whole numbers; nan counts as one."""
    numbers = values[~np.isnan(values)]
    return bool(((numbers == np.round(numbers)) & (np.abs(numbers) < _WHOLE)).all())


def shortest_between(below: float, up_to: float) -> float:
    """Find the number with the fewest digits that is above ``below`` and at most ``up_to``, which is larger."""
    largest = max(abs(below), abs(up_to))
    first, last = (math.floor(math.log10(size)) for size in (largest, up_to - below))
    for power in range(first + 1, last - 2, -1):
        candidate = round(math.floor(up_to / 10.0**power) * 10.0**power, max(-power, 0))
        if below < candidate <= up_to:
            return candidate
    return up_to


def quantile_ranges(values: Floats, ranges: int = QUANTILE_RANGES, *, counts: Ints | None = None) -> list[Range]:
    """Ranges that cover all values, with about equally many in each.

    Equal values stay together, so there may be fewer and larger ranges. An end is the shortest number that separates
    the values at the quantile, or within 1% of them from it.

    Parameters
    ----------
    values
        Shape (n,), finite.
    ranges
        Largest number of ranges.
    counts
        How many rows have each value, shape (n,); 1 each if left out.
    """
    distinct, place = np.unique(values, return_inverse=True)
    if distinct.size < 2:
        return [Range()]
    sizes = np.bincount(place, counts)
    total = sizes.sum()
    below = np.cumsum(sizes)[:-1] / total
    ends = set()
    for target in np.arange(1, ranges) / ranges:
        at = int(np.argmin(np.abs(below - target)))
        first, last = at, at + 1
        # A nearby end may be a shorter number; beside a value that many rows share, it stays.
        if sizes[at : at + 2].max() <= _SLACK * total:
            first = int(np.searchsorted(below, below[at] - _SLACK))
            last = int(np.searchsorted(below, below[at] + _SLACK, side="right"))
        ends.add(shortest_between(distinct[first], distinct[last]))
    inner = sorted(ends)
    return [Range(low, high) for low, high in zip([-math.inf, *inner], [*inner, math.inf], strict=True)]


MAX_NUMBERS: Final = 20
"""A column of at most so many different numbers is not cut into ranges: months and grades are categories."""

_LARGEST: Final = float(np.finfo(np.float64).max)


def segment_columns(
    columns: Mapping[str, SegmentColumn], wanted: Sequence[str] | None = None, *, counts: Ints | None = None
) -> dict[str, SegmentColumn]:
    """Put the numbers of segment columns into ranges, and cross columns.

    Parameters
    ----------
    columns
        As in the file.
    wanted
        A column's name, or several joined by ``*``, which are crossed. All columns, none crossed, if left out.
    counts
        How many rows each row stands for, shape (n,); 1 each if left out.
    """
    ranged = {name: in_ranges(name, column, counts) for name, column in columns.items()}
    result = {}
    for name in columns if wanted is None else wanted:
        parts = crossed_columns(name, columns)
        result[name] = ranged[name] if len(parts) == 1 else crossed({part: ranged[part] for part in parts})
    return result


def in_ranges(name: str, column: SegmentColumn, counts: Ints | None = None) -> SegmentColumn:
    """Cut a column of more than 20 different numbers at quantiles; return any other as it is."""
    numbers = _numbers(column.values)
    if numbers is None:
        return column
    return ranges_of(name, numbers[column.codes], counts)


def ranges_of(name: str, values: Floats, counts: Ints | None = None) -> SegmentColumn:
    """Numbers as segments: each number if there are few, or ranges; nan is ``(empty)``.

    Parameters
    ----------
    name
        Name of the column.
    values
        Shape (n,).
    counts
        How many rows each stands for, shape (n,); 1 each if left out.
    """
    missing = np.isnan(values)
    numbers = np.clip(values[~missing], -_LARGEST, _LARGEST)
    codes = np.zeros(values.size, np.int32)
    distinct, place = np.unique(numbers, return_inverse=True)
    if distinct.size <= MAX_NUMBERS:
        codes[~missing] = place
        texts = [number_text(value) for value in distinct]
        titles = [f"{name}={text}" for text in texts]
    else:
        ranges = quantile_ranges(numbers, counts=None if counts is None else counts[~missing])
        codes[~missing] = np.searchsorted([part.low for part in ranges[1:]], numbers, side="right")
        whole = are_whole(numbers)
        texts = []
        for part in ranges:
            inside = distinct[part.holds(distinct)]
            # A value that very many rows share is alone in its range.
            texts.append(number_text(inside[0]) if inside.size == 1 else part.text(whole=whole))
        titles = [f"{name} {text}" for text in texts]
    if missing.any():
        codes[missing] = len(texts)
        texts.append(EMPTY)
        titles.append(f"{name}={EMPTY}")
    return SegmentColumn(codes, tuple(texts), tuple(titles))


def crossed(columns: Mapping[str, SegmentColumn]) -> SegmentColumn:
    """Cross columns: each combination of values that occurs is a segment, ``region=eu, age 18 to 34``."""
    codes = np.zeros(0, np.int64)
    titles: list[str] = []
    for name, column in columns.items():
        named = titles_of(name, column)
        if not titles:
            codes, titles = column.codes.astype(np.int64), named
            continue
        present, codes = np.unique(codes * len(named) + column.codes, return_inverse=True)
        titles = [f"{titles[code // len(named)]}, {named[code % len(named)]}" for code in present]
    return SegmentColumn(codes.astype(np.int32), tuple(titles), tuple(titles))


def titles_of(name: str, column: SegmentColumn) -> list[str]:
    """Name the segment of each value."""
    return list(column.titles) or [f"{name}={value}" for value in column.values]


def _numbers(values: Sequence[str]) -> Floats | None:
    """Parse numbers, with nan for empty texts; None where the values are not quantities."""
    numbers = np.full(len(values), np.nan)
    for at, value in enumerate(values):
        text = value.strip()
        if value == EMPTY or text.lower() in MISSING_WORDS:
            continue
        # A leading zero, as in a postcode: not a quantity.
        if text[:1] == "0" and text[1:2].isdigit():
            return None
        try:
            numbers[at] = float(text)
        except ValueError:
            return None
    return numbers if np.unique(numbers[~np.isnan(numbers)]).size > MAX_NUMBERS else None


MAX_SEGMENT_VALUES: Final = 50
"""The most frequent values of a segment column have reports of their own; the rest is ``other``."""

FALSE_DISCOVERY_RATE: Final = 0.05
"""Expected share of false alarms among the segments that are called miscalibrated, at most."""


@dataclass(frozen=True, slots=True)
class SegmentReport:
    """The report of one group, with its p-value corrected for the number of groups.

    Attributes
    ----------
    report
        Report of the group's rows.
    p_value
        p-value of the hypothesis that the group is calibrated; None where there is too little data.
    q_value
        Smallest false-discovery rate at which the group is called miscalibrated.
    """

    report: Report
    p_value: float | None = None
    q_value: float | None = None

    @property
    def significant(self) -> bool:
        """Whether it is significantly miscalibrated, given the number of groups."""
        return self.q_value is not None and self.q_value <= FALSE_DISCOVERY_RATE

    def to_dict(self) -> dict[str, Any]:
        """As JSON shows it."""
        return {**self.report.to_dict(), "p_value": self.p_value, "q_value": self.q_value}


def false_discovery_control(p_values: ArrayLike) -> Floats:
    """Least shares of false discoveries at which each hypothesis is rejected, as scipy has them.

    ``scipy.stats``, where that is, takes longer to import than a small report takes.

    Parameters
    ----------
    p_values
        float64, shape (m,), in [0, 1], in any order.

    Returns
    -------
    float64, shape (m,)

    Notes
    -----
    Source: Benjamini, Hochberg, "Controlling the false discovery rate", 1995.
    """
    values = np.asarray(p_values, np.float64)
    order = np.argsort(values)
    # The k-th smallest, for each k, and never more than that of a larger one.
    ranked = values[order] * (values.size / np.arange(1, values.size + 1))
    corrected = np.empty(values.size)
    corrected[order] = np.minimum.accumulate(ranked[::-1])[::-1]
    return np.asarray(np.clip(corrected, 0.0, 1.0))


def rank_segments(reports: Iterable[Report]) -> tuple[SegmentReport, ...]:
    """Correct the p-values of groups for their number, and sort the groups, worst first.

    Of fifty calibrated groups, two or three have p < .05. The correction is that of Benjamini and Hochberg
    ("Controlling the False Discovery Rate", 1995) over all groups of all columns that have a p-value. It holds
    for groups that share no rows, and for those of several columns that overlap, whose p-values depend on each other
    positively (Benjamini and Yekutieli, "The control of the false discovery rate in multiple testing under dependency",
    2001, theorem 1.2).

    First come the groups that are called miscalibrated, by their least error (the lower end of smCE's interval); then
    the others, by :func:`severity`; last those with too little data.
    """
    segments = [SegmentReport(report, p_value(report)) for report in reports]
    tested = [segment.p_value for segment in segments if segment.p_value is not None]
    corrected = iter(false_discovery_control(tested).tolist() if tested else ())
    return by_harm(
        segment if segment.p_value is None else replace(segment, q_value=next(corrected)) for segment in segments
    )


def by_harm(segments: Iterable[SegmentReport]) -> tuple[SegmentReport, ...]:
    """Sort as :func:`rank_segments` does, worst first."""

    def harm(segment: SegmentReport) -> tuple[bool, float, float, str]:
        result = segment.report.measures.get("smce")
        least_error = (result.lower or 0.0) if segment.significant and result is not None else 0.0
        # Names decide between equals, so that the order does not depend on that of the rows.
        return not segment.significant, -least_error, -severity(segment.report), segment.report.segment

    return tuple(sorted(segments, key=harm))


def p_value(report: Report) -> float | None:
    """Return the p-value of a report: that of the combined tests, or of smCE where there are none."""
    if report.diagnosis is not None and report.diagnosis.p_value is not None:
        return report.diagnosis.p_value
    result = report.measures.get("smce")
    return None if result is None else result.p_value


def severity(report: Report) -> float:
    """Rate a report for sorting: smCE over its 95% point under perfect calibration on the same predictions.

    So a small segment is not the worst because of its noise; above 1 is significant. The value itself where levels were
    left out; -1 where there is no value. Without smCE, the first measure of the report counts.
    """
    result = report.measures.get("smce") or next(iter(report.measures.values()), None)
    if result is None:
        return -1.0
    if result.null_q95 is None:
        return result.value
    return result.value / result.null_q95 if result.null_q95 > 0.0 else inf if result.value > 0.0 else 0.0


def segments_of(
    columns: Mapping[str, SegmentColumn], *, counts: Ints | None = None
) -> Sequence[tuple[str, NDArray[np.intp]]]:
    """List the name of each segment, such as ``column=value``, and its rows, ascending.

    ``counts`` is how many rows each row stands for: 1 if left out.
    """
    return [
        (name, rows)
        for key, column in columns.items()
        for name, rows in _by_name(f"{key}={OTHER}", titles_of(key, column), column, counts)
    ]


def _by_name(
    other: str, names: Sequence[str], column: SegmentColumn, counts: Ints | None
) -> Iterator[tuple[str, NDArray[np.intp]]]:
    """Group rows by value, under the segment's name; the rarer values together as ``other``."""
    order = np.argsort(column.codes, kind="stable")
    bounds = np.searchsorted(column.codes[order], np.arange(len(column.values) + 1))
    rows = {value: order[bounds[code] : bounds[code + 1]] for code, value in enumerate(names)}
    sizes = {value: at.size if counts is None else int(counts[at].sum()) for value, at in rows.items()}
    by_size = sorted(rows, key=lambda value: (-sizes[value], value))
    if len(by_size) <= MAX_SEGMENT_VALUES:
        yield from rows.items()
        return
    kept = [value for value in by_size if value != other][:MAX_SEGMENT_VALUES]
    for value in kept:
        yield value, rows.pop(value)
    yield other, np.sort(np.concatenate(list(rows.values())))
