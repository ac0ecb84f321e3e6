"""The shared grid as column expressions: the cell of a prediction, and its place in the cell.

A prediction's logit gives its bucket, one of 8,192 of equal width; a table gives the first cell of each bucket. No more
than four edges lie in a bucket, so comparing the prediction with the next four finds its cell exactly: the logit is
rounded, the comparisons are not.
"""

from functools import cache
from typing import Final, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from pyspark.sql import Column, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - Spark's own convention

from monitor.scores import grid

_BUCKETS: Final = 8192
_BOUND: Final = grid.LOGIT_BOUND
_ROUNDING: Final = 1e-7
"""More than the error of any platform's logit: a bucket also counts edges so close to its ends."""


def cell(prediction: Column) -> Column:
    """Cell of a prediction, as :func:`monitor.scores.grid.locate` has it; an int.

    Parameters
    ----------
    prediction
        A double in [0, 1]; null gives null.
    """
    first, edges, _ = _columns()
    # Spark's logarithm of 0 is null, and so is the quotient at 1: both go beyond the buckets. The expression has no
    # branches, so that Spark computes once what occurs several times.
    logit = F.coalesce(F.log(F.try_divide(prediction, 1.0 - prediction)), (prediction - 0.5) * 1000.0)
    bucket = F.floor((logit + _BOUND) * (_BUCKETS / (2.0 * _BOUND)))
    place = F.least(F.greatest(bucket, F.lit(0)), F.lit(_BUCKETS - 1)).cast("int")
    base = F.get(first, place)
    return sum(((prediction >= F.get(edges, base + step)).cast("int") for step in range(1, _arrays().most + 1)), base)


def units_above_anchor(prediction: Column, cell_of_prediction: Column) -> Column:
    """Units of 2**-40 by which a prediction is above the lower edge of its cell; a bigint."""
    units = F.rint(prediction * grid.UNITS).cast("bigint")
    return units - F.get(_columns().anchors, cell_of_prediction)


class _Arrays(NamedTuple):
    """What the grid is looked up by."""

    first: NDArray[np.int32]
    """Cell of the lowest prediction of each bucket."""
    most: int
    """Most edges that a bucket holds."""
    edges: NDArray[np.float64]
    """Lower edges of the cells, and beyond them so many that no prediction reaches."""


@cache
def _arrays() -> _Arrays:
    inner = grid.edges()[1:-1]
    logit = np.log(inner / (1.0 - inner))
    ends = np.linspace(-_BOUND, _BOUND, _BUCKETS + 1)
    # The first bucket holds all lower predictions, the last all higher ones.
    first = np.searchsorted(logit, ends[:-1] - _ROUNDING, side="right")
    last = np.searchsorted(logit, ends[1:] + _ROUNDING, side="right")
    first[0], last[-1] = 0, grid.cell_count() - 1
    most = int((last - first).max())
    return _Arrays(first.astype(np.int32), most, np.append(grid.edges(), np.full(most, np.inf)))


class _Columns(NamedTuple):
    """Arrays as columns of one value each."""

    first: Column
    edges: Column
    anchors: Column


def _columns() -> _Columns:
    """Send the arrays to Spark as scalar subqueries: as literals each number of them is in the text of every plan."""
    arrays = {"first": _arrays().first, "edges": _arrays().edges, "anchors": grid.anchors()}
    row = pa.table({name: pa.array([array]) for name, array in arrays.items()})
    sent = SparkSession.builder.getOrCreate().createDataFrame(row)
    return _Columns(*(sent.select(name).scalar() for name in arrays))
