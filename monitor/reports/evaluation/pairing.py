"""Whether two tables are of the same events, and the rows that they have in common."""

from dataclasses import replace
from typing import Literal, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from monitor.errors import InputError
from monitor.sources.tables import EventTable

Pairing = Literal["ids", "rows", "none"]


class Aligned(NamedTuple):
    """Two tables, row i of one beside row i of the other where they are paired."""

    first: EventTable
    second: EventTable
    pairing: Pairing
    note: str
    """How that was told, for people."""


def align(first: EventTable, second: EventTable) -> Aligned:
    """Tell whether two tables are of the same events.

    They are if both have ids, of which some are the same, and only those rows count then; or else if they have as many
    rows with the same outcomes in the same order. (Should two unrelated tables ever look so, nothing is lost: to pair
    rows that have nothing to do with each other is as good as not to pair them.)

    Raises
    ------
    InputError
        Only one table has ids, or both know the outcome of an id and say different ones.
    """
    if first.ids is not None and second.ids is not None:
        return _by_ids(first, first.ids, second, second.ids)
    if first.ids is not None or second.ids is not None:
        raise InputError("one of the two files has ids and the other has none; name the column of ids for both")
    if len(first) and np.array_equal(first.outcome, second.outcome) and _same(first.weight, second.weight):
        note = f"both have the same {len(first):,} outcomes row by row, so they are compared event by event"
        return Aligned(first, second, "rows", note)
    return Aligned(first, second, "none", "the rows differ, so these are compared as different events")


def _by_ids(first: EventTable, ids: pa.ChunkedArray, second: EventTable, others: pa.ChunkedArray) -> Aligned:
    found = pc.index_in(ids, value_set=others)
    here = np.flatnonzero(found.is_valid().to_numpy())
    if not here.size:
        return Aligned(first, second, "none", "no id stands in both files, so these are compared as different events")
    there = pc.drop_null(found).to_numpy()
    y, other = first.outcome[here], second.outcome[there]
    different = (y >= 0) & (other >= 0) & (y != other)
    if different.any():
        at = int(np.argmax(different))
        raise InputError(
            f"the outcome of id {ids[int(here[at])].as_py()!r} is {y[at]} in the first file and {other[at]} in the "
            f"second ({np.count_nonzero(different):,} such ids); an event has one outcome: correct one of the files"
        )
    # What one of the files does not know yet the other does.
    outcome = np.where(y >= 0, y, other)
    one, two = _rows(first, here, outcome), _rows(second, there, outcome)
    left = len(first) + len(second) - 2 * here.size
    out = f"; {left:,} rows whose id stands in one file only are left out" if left else ""
    if not _same(one.weight, two.weight):
        return Aligned(one, two, "none", f"the weights of the same ids differ, so nothing is paired{out}")
    return Aligned(one, two, "ids", f"{here.size:,} ids stand in both files, and are compared event by event{out}")


def _rows(table: EventTable, rows: NDArray[np.intp], outcome: NDArray[np.int8]) -> EventTable:
    return replace(
        table,
        prediction=table.prediction[rows],
        outcome=outcome,
        time_ms=None if table.time_ms is None else table.time_ms[rows],
        weight=None if table.weight is None else table.weight[rows],
        ids=None,
        features=None,
        segments={},
    )


def _same(weight: NDArray[np.float64] | None, other: NDArray[np.float64] | None) -> bool:
    if weight is None or other is None:
        return weight is other
    return np.array_equal(weight, other)
