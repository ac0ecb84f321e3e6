"""Features of any kind as coordinates in which events are compared, and places among them in words."""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from monitor.arrays import Bools, Floats, Ints
from monitor.errors import InputError
from monitor.local.features import PrincipalComponents, Standardised
from monitor.reports.evaluation.segments import Range, are_whole, quantile_ranges
from monitor.scores.labelled import MAX_FEATURE
from monitor.scores.table import check
from monitor.sources.columns import EMPTY, is_missing, text_of
from monitor.sources.tables import SegmentColumn

MAX_CATEGORIES: Final = 10
"""The most frequent categories of a column have a coordinate of their own."""

_CELLS: Final = 10
"""Finest ranges of a column of numbers, which a place combines."""
_ERRORS: Final = 3.0
"""Standard errors subtracted from the error of a place, so that a few events do not make one."""
_GAIN: Final = 1.1
"""Factor by which a further condition must raise that difference."""


class Condition(NamedTuple):
    """A condition on one feature that the events of a place meet.

    Attributes
    ----------
    text
        ``age 62 to 70``, ``region=eu``.
    inside
        Which events meet it, shape (n,).
    """

    text: str
    inside: Bools


class _Cells(NamedTuple):
    """A feature in a few cells: ranges of its numbers in their order, or its categories.

    Attributes
    ----------
    codes
        The cell of each event, shape (n,).
    size
        Number of cells.
    ordered
        Number of cells that are ranges, which come first: neighbours of these may be combined.
    text
        (first cell, last cell) -> these and the cells between in words.
    """

    codes: Ints
    size: int
    ordered: int
    text: Callable[[int, int], str]


@dataclass(frozen=True, eq=False, slots=True)
class FeatureColumns:
    """Features by name.

    Attributes
    ----------
    columns
        By name: numbers, float64, shape (n,), nan where one is missing; or categories.
    """

    columns: Mapping[str, Floats | SegmentColumn]

    @classmethod
    def of(cls, features: Mapping[str, ArrayLike | SegmentColumn]) -> "FeatureColumns":
        """Convert columns to numbers, or else to categories.

        Raises
        ------
        InputError
            There is none, they are not equally long, or a number is infinite or larger than 1e150.
        """
        if not features:
            raise InputError("features must name at least one, got none")
        columns = {name: _column(name, values) for name, values in features.items()}
        shapes = {name: _array(column).shape for name, column in columns.items()}
        if len(set(shapes.values())) > 1:
            raise InputError(f"features must be equally long, got shapes {shapes}")
        return cls(columns)

    @property
    def size(self) -> int:
        """Number n of events."""
        return int(_array(next(iter(self.columns.values()))).shape[0])

    def select(self, rows: NDArray[np.intp]) -> "FeatureColumns":
        """Select some of the events."""

        def selected(column: Floats | SegmentColumn) -> Floats | SegmentColumn:
            if isinstance(column, SegmentColumn):
                return SegmentColumn(column.codes[rows], column.values)
            return column[rows]

        return FeatureColumns({name: selected(column) for name, column in self.columns.items()})

    def value(self, name: str, row: int) -> float | str | None:
        """Look up the value of one event; None where a number is missing."""
        column = self.columns[name]
        if isinstance(column, SegmentColumn):
            return str(column.values[column.codes[row]])
        return None if np.isnan(column[row]) else float(column[row])

    def coordinates(self, dimensions: int) -> tuple[Floats, float, bool]:
        """Coordinates in which events are compared.

        Numbers are standardised; a missing one becomes the mean, and a further coordinate marks it. A category has a
        coordinate that is 1 for it and 0 for the others: two events of different categories are 2 apart, as far as the
        halves of a column that is 0 and 1 equally often, standardised.

        Returns
        -------
        coordinates
            Shape (n, d).
        columns_per_coordinate
            Factor for the bandwidth where d is not the number of columns, so that a column of many categories does not
            count as many columns.
        reduced
            Whether they are principal components, because there would be more than ``dimensions``.
        """
        numbers = [column for column in self.columns.values() if not isinstance(column, SegmentColumn)]
        parts: list[Floats] = []
        if numbers:
            filled = np.column_stack([_filled(column) for column in numbers])
            parts.append(Standardised.fit(filled).apply(filled))
        parts += [np.isnan(column)[:, None].astype(np.float64) for column in numbers if np.isnan(column).any()]
        parts += [_one_hot(column) for column in self.columns.values() if isinstance(column, SegmentColumn)]
        x = np.ascontiguousarray(np.hstack(parts))
        if x.shape[1] <= dimensions:
            return x, len(self.columns) / x.shape[1], False
        return PrincipalComponents.of_scaled(x, dimensions).apply(x), 1.0, True

    def place(self, prediction: Floats, error: Floats, row: int, *, higher: bool, min_events: float) -> list[Condition]:
        """Describe the surroundings of an event with an error of the same sign, as ranges and categories.

        Conditions are added one by one: each time the one that raises the error less three standard errors most.

        Parameters
        ----------
        prediction
            Of each event, shape (n,); a range of predictions may be a condition too.
        error
            Prediction less outcome of each event, shape (n,).
        row
            The event, which meets all conditions.
        higher
            Whether predictions are too high there.
        min_events
            Smallest number of events of a place.

        Returns
        -------
        conditions
            Empty where no error is significant.
        """
        cells = {name: _cells_of(name, column) for name, column in self.columns.items()}
        features = [*cells.values(), _cells_of("prediction", prediction)]
        above, variance = error if higher else -error, prediction * (1.0 - prediction)
        terms = np.column_stack([np.ones_like(above), above, variance])
        inside = np.ones(error.size, np.bool_)
        reached = max(_least_error(terms.sum(axis=0), min_events), 0.0)
        conditions: list[Condition] = []
        while features:
            best = max(
                (
                    _best_window(feature, feature.codes[inside], terms[inside], int(feature.codes[row]), min_events),
                    number,
                )
                for number, feature in enumerate(features)
            )
            (error_left, first, last), number = best
            if error_left <= reached * _GAIN or error_left <= 0.0:
                break
            chosen = features.pop(number)
            condition = (chosen.codes >= first) & (chosen.codes <= last)
            conditions.append(Condition(chosen.text(first, last), condition))
            inside, reached = inside & condition, error_left
        return conditions


def _best_window(cells: _Cells, codes: Ints, terms: Floats, at: int, min_events: float) -> tuple[float, int, int]:
    """Find the cells around a cell with the largest least error: that error, the first cell and the last.

    ``terms`` are 1, error and variance of each event, shape (n, 3).
    """
    sums = np.column_stack([np.bincount(codes, weights=term, minlength=cells.size) for term in terms.T])
    windows = [(at, at)]
    if at < cells.ordered:
        windows = [(first, last) for first in range(at + 1) for last in range(at, cells.ordered)]
    # All cells together are no condition.
    windows = [window for window in windows if window != (0, cells.size - 1)]
    candidates = (
        (_least_error(sums[first : last + 1].sum(axis=0), min_events), first, last) for first, last in windows
    )
    return max(candidates, default=(-math.inf, at, at))


def _least_error(sums: Floats, min_events: float) -> float:
    """Compute the mean error less three standard errors; -inf where events are few."""
    events, error, variance = sums.tolist()
    return (error - _ERRORS * math.sqrt(variance)) / events if events >= min_events else -math.inf


def _cells_of(name: str, column: Floats | SegmentColumn) -> _Cells:
    if isinstance(column, SegmentColumn):
        values = column.values
        return _Cells(column.codes.astype(np.int64), len(values), 0, lambda first, _: f"{name}={values[first]}")
    missing = np.isnan(column)
    numbers = column[~missing]
    ranges = quantile_ranges(numbers, _CELLS) if numbers.size else []
    codes = np.full(column.size, len(ranges))
    codes[~missing] = np.searchsorted([part.low for part in ranges[1:]], numbers, side="right")
    whole = are_whole(column)

    def text(first: int, last: int) -> str:
        if first == len(ranges):
            return f"{name}={EMPTY}"
        return f"{name} {Range(ranges[first].low, ranges[last].high).text(whole=whole)}"

    return _Cells(codes, len(ranges) + bool(missing.any()), len(ranges), text)


def _filled(column: Floats) -> Floats:
    """Numbers, with their mean in place of missing ones."""
    missing = np.isnan(column)
    return np.where(missing, column[~missing].mean() if not missing.all() else 0.0, column)


def _one_hot(column: SegmentColumn) -> Floats:
    size = np.bincount(column.codes, minlength=len(column.values))
    kept = np.argsort(-size, kind="stable")[:MAX_CATEGORIES]
    place = np.full(len(column.values), kept.size)
    place[kept] = np.arange(kept.size)
    return np.asarray(np.eye(kept.size + 1)[place[column.codes], : kept.size + (size.size > kept.size)])


def _array(column: Floats | SegmentColumn) -> Floats | NDArray[np.int32]:
    return column.codes if isinstance(column, SegmentColumn) else column


def _column(name: str, values: ArrayLike | SegmentColumn) -> Floats | SegmentColumn:
    if isinstance(values, SegmentColumn):
        return values
    array = np.asarray(values)
    if array.dtype.kind in "biuf":
        numbers = array.astype(np.float64)
        check(
            numbers,
            np.isnan(numbers) | (np.abs(numbers) <= MAX_FEATURE),
            f"feature {name} must be finite and up to {MAX_FEATURE:g} in size",
        )
        return numbers
    items: list[object] = array.tolist()
    if all(item is None or isinstance(item, int | float) for item in items):
        return _column(name, np.array([np.nan if item is None else item for item in items], np.float64))
    texts = np.array([EMPTY if is_missing(item) else text_of(item) for item in items], np.str_)
    distinct, codes = np.unique(texts, return_inverse=True)
    return SegmentColumn(codes.astype(np.int32), tuple(distinct.tolist()))
