"""Columns that rows are put into segments by: numbers cut into ranges, and several columns crossed."""

from collections.abc import Mapping, Sequence
from typing import Final

import numpy as np
from numpy.typing import NDArray

from monitor.reports.evaluation.ranges import are_whole, number_text, quantile_ranges
from monitor.sources.columns import EMPTY, MISSING_WORDS
from monitor.sources.tables import SegmentColumn, crossed_columns

MAX_NUMBERS: Final = 20
"""A column of at most so many different numbers is taken as it stands: months and grades are no quantities."""

_LARGEST: Final = float(np.finfo(np.float64).max)


def segment_columns(
    columns: Mapping[str, SegmentColumn], wanted: Sequence[str] | None = None
) -> dict[str, SegmentColumn]:
    """The columns that segments are named by, with numbers in ranges.

    Parameters
    ----------
    columns
        As they were read.
    wanted
        A column's name, or several joined by ``*``, which are crossed. All columns, none crossed, if left out.
    """
    ranged = {name: in_ranges(name, column) for name, column in columns.items()}
    result = {}
    for name in columns if wanted is None else wanted:
        parts = crossed_columns(name, columns)
        result[name] = ranged[name] if len(parts) == 1 else crossed({part: ranged[part] for part in parts})
    return result


def in_ranges(name: str, column: SegmentColumn) -> SegmentColumn:
    """A column of more than 20 different numbers cut at quantiles, each range a segment; any other as it is."""
    numbers = _numbers(column.values)
    if numbers is None:
        return column
    return ranges_of(name, numbers[column.codes])


def ranges_of(name: str, values: NDArray[np.float64]) -> SegmentColumn:
    """Numbers as segments: themselves if they are few, or in ranges; nan is ``(empty)``.

    Parameters
    ----------
    name
        The column's.
    values
        Shape (n,).
    """
    missing = np.isnan(values)
    known = np.clip(values[~missing], -_LARGEST, _LARGEST)
    codes = np.zeros(values.size, np.int32)
    distinct, place = np.unique(known, return_inverse=True)
    if distinct.size <= MAX_NUMBERS:
        codes[~missing] = place
        texts = [number_text(value) for value in distinct]
        titles = [f"{name}={text}" for text in texts]
    else:
        ranges = quantile_ranges(known)
        codes[~missing] = np.searchsorted([each.low for each in ranges[1:]], known, side="right")
        whole = are_whole(known)
        texts = []
        for each in ranges:
            inside = distinct[each.holds(distinct)]
            # A value of which there are very many is alone in its range.
            texts.append(number_text(inside[0]) if inside.size == 1 else each.text(whole=whole))
        titles = [f"{name} {text}" for text in texts]
    if missing.any():
        codes[missing] = len(texts)
        texts.append(EMPTY)
        titles.append(f"{name}={EMPTY}")
    return SegmentColumn(codes, tuple(texts), tuple(titles))


def crossed(columns: Mapping[str, SegmentColumn]) -> SegmentColumn:
    """Each combination of the columns' values that some row has, as a segment: ``region=eu, age 18 to 34``."""
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
    """What the segment of each value is called."""
    return list(column.titles) or [f"{name}={value}" for value in column.values]


def _numbers(values: Sequence[str]) -> NDArray[np.float64] | None:
    """The numbers that texts spell, nan for those that spell none at all; None where they are no quantities."""
    numbers = np.full(len(values), np.nan)
    for at, value in enumerate(values):
        text = value.strip()
        if value == EMPTY or text.lower() in MISSING_WORDS:
            continue
        # A postcode is no quantity.
        if text[:1] == "0" and text[1:2].isdigit():
            return None
        try:
            numbers[at] = float(text)
        except ValueError:
            return None
    return numbers if np.unique(numbers[~np.isnan(numbers)]).size > MAX_NUMBERS else None
