"""Features of a table as the numbers that maps take: a column of words is one number for each of its usual words."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import numpy as np
import pyarrow as pa

from monitor.arrays import Floats
from monitor.sources.columns import AnyValues
from monitor.sources.formats import TableFile, open_table
from monitor.sources.tables import Columns, EventTable, SegmentColumn, crossed_columns, read_table

MAX_WORDS: Final = 10
"""The most frequent words of a column have a number of their own; a row with another one has 0 in all of them."""


def read_with_words(
    file: Path | TableFile, columns: Columns, progress: Callable[[int], None] = lambda _: None
) -> tuple[EventTable, Columns]:
    """Read a table whose features may be words, on which a map is to be fitted.

    Returns
    -------
    table, columns
        The feature ``region`` is in both as ``region=eu`` and so on: 1 in rows that have this word, 0 in others.

    Raises
    ------
    InputError
        As of :func:`monitor.sources.tables.read_table`.
    """
    opened = _opened(file, columns)
    words = _columns_of_words(opened, columns.features)
    table = read_table(opened, _parted(columns, words), progress=progress)
    features = [
        one
        for name in columns.features
        for one in ([f"{name}={word}" for word in _usual(table.segments[name])] if name in words else [name])
    ]
    named = columns._replace(features=tuple(features))
    return _with_numbers(table, named, words), named


def read_features(file: Path | TableFile, columns: Columns, **reading: Any) -> EventTable:
    """Read a table for a map, whose features are called as :func:`read_with_words` names them.

    Raises
    ------
    InputError
        As of :func:`monitor.sources.tables.read_table`.
    """
    opened = _opened(file, columns)
    there = set(opened.names())
    words = {name.partition("=")[0] for name in columns.features if name not in there} & there
    return _with_numbers(read_table(opened, _parted(columns, words), **reading), columns, words)


def _opened(file: Path | TableFile, columns: Columns) -> TableFile:
    return file if isinstance(file, TableFile) else open_table(file, skip_bad_rows=columns.skip_bad_rows)


def _columns_of_words(table: TableFile, names: Sequence[str]) -> set[str]:
    """The columns that hold words, by their first rows."""
    there = table.names()
    present = [name for name in names if name in there]
    words = set()
    for name, array in zip(present, next(iter(table.pieces(present)), ()) if present else (), strict=False):
        values = AnyValues()
        values.add(array)
        if not pa.types.is_boolean(array.type) and isinstance(values.finish(), tuple):
            words.add(name)
    return words


def _parted(columns: Columns, words: set[str]) -> Columns:
    """The columns, with those of words among the segments."""
    numbers = tuple(name for name in columns.features if name.partition("=")[0] not in words)
    return columns._replace(features=numbers, segments=tuple(dict.fromkeys((*columns.segments, *sorted(words)))))


def _usual(column: SegmentColumn) -> list[str]:
    sizes = np.bincount(column.codes, minlength=len(column.values))
    return [column.values[code] for code in np.argsort(-sizes, kind="stable")[:MAX_WORDS]]


def _with_numbers(table: EventTable, columns: Columns, words: set[str]) -> EventTable:
    """The table with these features, in their order, and without the segments that are only words of features."""
    if not words:
        return table
    numbers = iter(() if table.features is None else table.features.T)

    def feature(name: str) -> Floats:
        column, _, word = name.partition("=")
        if column not in words:
            return next(numbers)
        of = table.segments[column]
        return np.array([value == word for value in of.values], np.float64)[of.codes]

    parts = {part for name in columns.segments for part in crossed_columns(name, table.segments)}
    segments = {name: column for name, column in table.segments.items() if name in parts}
    return replace(table, features=np.column_stack([*map(feature, columns.features)]), segments=segments)
