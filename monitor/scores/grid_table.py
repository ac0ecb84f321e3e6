"""The mergeable table: exact integers on the shared grid."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import ArrayLike

from monitor.arrays import Ints
from monitor.errors import IncompatibleTables, InputError
from monitor.scores import grid
from monitor.scores.table import ScoreTable, check

POSITIVES: Final = 0
NEGATIVES: Final = 1
UNLABELLED: Final = 2
POSITIVE_SUM: Final = 3
NEGATIVE_SUM: Final = 4
UNLABELLED_SUM: Final = 5
COLUMNS: Final = 6
"""Columns of :attr:`GridTable.values`; ``label column + 3`` is the sum that goes with a count."""

_MAGIC: Final = b"CGT"

_SMALLEST: Final = 0.25 / grid.UNITS
"""The middle of the predictions above 0 that round to 0 units."""

_MAX_SORTED_ROWS: Final = 8192
"""Number of rows up to which sorting is faster than adding on the whole grid."""


@dataclass(frozen=True, eq=False)
class GridTable:
    """Counts and sums of a set of predictions per cell: labelled positive, labelled negative, or not labelled yet.

    Merging is ``a + b``: exact, in any order, with :meth:`zero` as identity. A pane, a window, a partition and a
    replica are all values of this type.

    Attributes
    ----------
    cell
        int64, shape (m,), strictly ascending: the occupied cells of the grid.
    values
        int64, shape (m, 6): number of positives, negatives and unlabelled predictions, then the sums of the
        predictions over each, in units of 2**-40 above the cell's anchor.
    version
        The grid's version. Tables of different versions do not add.
    """

    cell: Ints
    values: Ints
    version: int = grid.GRID_VERSION

    @classmethod
    def zero(cls) -> "GridTable":
        """The empty table: the identity of ``+``."""
        return cls(np.zeros(0, np.int64), np.zeros((0, COLUMNS), np.int64))

    @classmethod
    def from_events(cls, prediction: ArrayLike, outcome: ArrayLike) -> "GridTable":
        """The table of a set of events.

        Parameters
        ----------
        prediction
            shape (n,), every value in [0, 1].
        outcome
            shape (n,), 1, 0, or -1 for a prediction without an outcome.

        Raises
        ------
        InputError
            A value is out of its range, or the lengths differ. The message names the first such value.
        """
        p = np.asarray(prediction, np.float64)
        y = np.asarray(outcome, np.float64)
        if p.shape != y.shape or p.ndim != 1:
            raise InputError(f"prediction and outcome must be equally long, got shapes {p.shape} and {y.shape}")
        check(p, (p >= 0.0) & (p <= 1.0), "prediction must be in [0, 1]")
        check(y, (y == 1.0) | (y == 0.0) | (y == -1.0), "outcome must be 1, 0 or -1")
        cell = grid.locate(p)
        above = grid.to_units(p) - grid.anchors()[cell]
        column = np.where(y == 1, POSITIVES, np.where(y == 0, NEGATIVES, UNLABELLED))
        dense = np.zeros((grid.cell_count(), COLUMNS), np.int64)
        np.add.at(dense, (cell, column), 1)
        np.add.at(dense, (cell, column + 3), above)
        return cls.from_dense(dense)

    @classmethod
    def from_dense(cls, dense: Ints) -> "GridTable":
        """The table whose cells are the rows of ``dense``, int64, shape (cells, 6)."""
        cell = np.flatnonzero(dense[:, :POSITIVE_SUM].any(axis=1))
        return cls(cell, dense[cell])

    @classmethod
    def sum(cls, tables: Iterable["GridTable"]) -> "GridTable":
        """The merge of any number of tables.

        Raises
        ------
        IncompatibleTables
            One is of another version of the grid.
        OverflowError
            A sum of predictions does not fit.
        """
        parts = list(tables)
        for table in parts:
            _same_version(grid.GRID_VERSION, table.version)
        if sum(table.cell.size for table in parts) <= _MAX_SORTED_ROWS:
            merged = cls._sum_of_few(parts)
        else:
            dense = np.zeros((grid.cell_count(), COLUMNS), np.int64)
            for table in parts:
                dense[table.cell] += table.values
            merged = cls.from_dense(dense)
        if merged.values.min(initial=0) < 0:
            raise OverflowError("a cell holds more than 2**33 predictions; use shorter windows")
        return merged

    @classmethod
    def _sum_of_few(cls, tables: Sequence["GridTable"]) -> "GridTable":
        """The merge in a time that depends on the number of rows, not on the size of the grid."""
        cell = np.concatenate([np.zeros(0, np.int64), *(table.cell for table in tables)])
        order = np.argsort(cell, kind="stable")
        cell = cell[order]
        first = np.flatnonzero(np.diff(cell, prepend=-1))
        if first.size == 0:
            return cls.zero()
        values = np.add.reduceat(np.concatenate([table.values for table in tables])[order], first, axis=0)
        held = values[:, :POSITIVE_SUM].any(axis=1)
        return cls(cell[first][held], values[held])

    def __add__(self, other: "GridTable") -> "GridTable":
        _same_version(self.version, other.version)
        return GridTable.sum((self, other))

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, GridTable)
            and self.version == other.version
            and np.array_equal(self.cell, other.cell)
            and np.array_equal(self.values, other.values)
        )

    __hash__ = None  # type: ignore[assignment]  # arrays inside

    @property
    def predictions(self) -> int:
        """Number of predictions, labelled or not."""
        return int(self.values[:, :POSITIVE_SUM].sum())

    @property
    def labelled(self) -> int:
        """Number of predictions with an outcome."""
        return int(self.values[:, :UNLABELLED].sum())

    def with_implied_negatives(self) -> "GridTable":
        """The same predictions, each without an outcome counted as a negative: a model's declared policy."""
        return GridTable(self.cell, imply_negatives(self.values), self.version)

    def to_scores(self) -> ScoreTable:
        """The score table of the labelled predictions, one row an occupied cell at its mean prediction."""
        kept = self.values[:, :UNLABELLED].any(axis=1)
        cell = self.cell[kept]
        values = self.values[kept].astype(np.float64)
        anchor = grid.anchors()[cell] / grid.UNITS
        positives, negatives = values[:, POSITIVES], values[:, NEGATIVES]
        counts = positives + negatives
        above = values[:, POSITIVE_SUM] + values[:, NEGATIVE_SUM]
        lower, upper = grid.edges()[cell], grid.upper_edges()[cell]
        # A sum of rounded predictions may pass the cell's edge by half a unit; the mean is clipped to the cell, below
        # the upper edge, which belongs to the next cell. Predictions that round to 0 or 1 without being 0 or 1 lie
        # within half a unit of it: not at the next float, where log losses are nearly infinite.
        wide = lower < upper
        score = np.clip(
            anchor + above / (counts * grid.UNITS),
            np.where(wide, np.maximum(lower, _SMALLEST), lower),
            np.where(wide, np.minimum(np.nextafter(upper, lower), 1.0 - _SMALLEST), upper),
        )
        return ScoreTable(
            score=score,
            positives=positives,
            negatives=negatives,
            positive_sum=positives * anchor + values[:, POSITIVE_SUM] / grid.UNITS,
            negative_sum=negatives * anchor + values[:, NEGATIVE_SUM] / grid.UNITS,
            lower=lower,
            upper=upper,
        )

    def to_bytes(self) -> bytes:
        """A compact, sparse form: each column in the narrowest integer type that holds it.

        Little-endian: 3 bytes of magic, the grid's version, the number of rows as uint32, then seven columns, each
        one byte of item size followed by its items.
        """
        parts = [_MAGIC, bytes([self.version]), len(self.cell).to_bytes(4, "little")]
        for column in (self.cell, *self.values.T):
            narrow = column.astype(_narrowest(int(column.max(initial=0))))
            parts += [bytes([narrow.itemsize]), narrow.tobytes()]
        return b"".join(parts)

    @classmethod
    def from_bytes(cls, data: bytes) -> "GridTable":
        """The table that :meth:`to_bytes` wrote.

        Raises
        ------
        IncompatibleTables
            The bytes are no table, are cut short or damaged, or are of another version of the grid.
        """
        if len(data) < 8 or data[:3] != _MAGIC:
            raise IncompatibleTables(f"these {len(data)} bytes are no grid table")
        _same_version(grid.GRID_VERSION, data[3])
        rows = int.from_bytes(data[4:8], "little")
        at = 8
        columns = []
        for _ in range(1 + COLUMNS):
            size = data[at] if at < len(data) else 0
            end = at + 1 + size * rows
            if size not in (1, 2, 4, 8) or end > len(data):
                raise IncompatibleTables(f"a grid table of {rows} rows is cut short at {len(data)} bytes")
            columns.append(np.frombuffer(data, f"<u{size}", rows, at + 1).astype(np.int64))
            at = end
        cell = columns[0]
        if (np.diff(cell) <= 0).any():
            raise IncompatibleTables(f"the cells of a grid table must ascend, got {rows} that do not")
        if rows and not 0 <= cell[-1] < grid.cell_count():
            raise IncompatibleTables(f"a grid table is damaged: {cell[-1]} is not one of the {grid.cell_count()} cells")
        return cls(cell, np.stack(columns[1:], axis=1))


def imply_negatives(values: Ints) -> Ints:
    """Values in which each prediction without an outcome counts as a negative; int64, shape (n, 6)."""
    implied = values.copy()
    implied[:, NEGATIVES] += values[:, UNLABELLED]
    implied[:, NEGATIVE_SUM] += values[:, UNLABELLED_SUM]
    implied[:, UNLABELLED] = 0
    implied[:, UNLABELLED_SUM] = 0
    return implied


def _narrowest(largest: int) -> str:
    for size in (1, 2, 4):
        if largest < 1 << (8 * size):
            return f"<u{size}"
    return "<u8"


def _same_version(ours: int, theirs: int) -> None:
    if ours != theirs:
        raise IncompatibleTables(f"only tables of one grid add, got grid versions {ours} and {theirs}")
