"""The grid that panes, windows, partitions and replicas share, so that their tables add.

Cells are uniform in logit p, so that a one-in-ten-thousand model is resolved as well as a balanced one, united with
the dyadic edges k/1024 and the edges of the usual equal-width bins, so that sums over those are exact. Cells are
closed on the left and open on the right; p = 0 and p = 1 have cells of their own.

Sums of predictions are kept as integers in units of 2**-40, counted from the cell's lower edge. A cell is at most
1/1024 wide, so a sum stays below 2**30 per prediction and an int64 holds 2**33 predictions in one cell.
"""

from functools import cache
from typing import Final

import numpy as np

from monitor.arrays import Floats, Ints

GRID_VERSION: Final = 1
"""Increased when an edge moves. Only tables of equal versions merge."""

UNIT_BITS: Final = 40
UNITS: Final = float(1 << UNIT_BITS)
"""Units in 1: sums of predictions are integers in units of 1/UNITS."""

LOGIT_CELLS: Final = 4096
LOGIT_BOUND: Final = 17.0
"""Logits are cut off here, because those of 0 and 1 are infinite."""

DYADIC_CELLS: Final = 1024
EQUAL_WIDTH_BINS: Final = (10, 15, 20, 30)

_CELLS_IN_WIDE: Final = 16
"""Logit cells, and dyadic ones, in a wide one."""


@cache
def edges() -> Floats:
    """Lower edges of the cells, ascending.

    Returns
    -------
    float64, shape (cells,)
        ``edges()[0]`` is 0 (the cell of p = 0 alone) and ``edges()[-1]`` is 1 (the cell of p = 1 alone). The second
        cell begins at the smallest positive float.
    """
    return _edges(1)


@cache
def wide_edges() -> Floats:
    """Lower edges of wide cells, ascending: some 350 of the cells' edges, among them those of all equal-width bins.

    Wide cells are at most 1/64 wide and, but for those at the ends, 0.14 in logits.
    """
    return _edges(_CELLS_IN_WIDE)


def _edges(step: int) -> Floats:
    """The edges of every so many logit cells and dyadic cells, and of the equal-width bins."""
    logits = np.linspace(-LOGIT_BOUND, LOGIT_BOUND, LOGIT_CELLS + 1)[::step]
    # Rounded to whole units: the last bit of exp differs between platforms, and the grid must not.
    logistic = np.round(UNITS / (1.0 + np.exp(-logits))) / UNITS
    dyadic = np.arange(step, DYADIC_CELLS, step) / DYADIC_CELLS
    equal_width = [np.arange(1, bins) / bins for bins in EQUAL_WIDTH_BINS]
    inner = np.unique(np.concatenate([logistic, dyadic, *equal_width]))
    result = np.concatenate([[0.0, np.nextafter(0.0, 1.0)], inner, [1.0]])
    result.flags.writeable = False
    return result


@cache
def anchors() -> Ints:
    """Lower edges of the cells in whole units, rounded down: the origin of a cell's sum of predictions.

    Returns
    -------
    int64, shape (cells,)
    """
    result = np.floor(edges() * UNITS).astype(np.int64)
    result.flags.writeable = False
    return result


def cell_count() -> int:
    """Number of cells."""
    return int(edges().shape[0])


def upper_edges() -> Floats:
    """Upper edges of the cells, shape (cells,): the supremum of the predictions a cell can hold."""
    lower = edges()
    upper = np.append(lower[1:], 1.0)
    upper[0] = 0.0
    return upper


def locate(prediction: Floats) -> Ints:
    """Cell of each prediction.

    Parameters
    ----------
    prediction
        float64, shape (n,), every value in [0, 1].

    Returns
    -------
    int64, shape (n,)
    """
    return np.searchsorted(edges(), prediction, side="right").astype(np.int64) - 1


def to_units(prediction: Floats) -> Ints:
    """Predictions in whole units, rounded to the nearest; the error is at most 2**-41.

    Parameters
    ----------
    prediction
        float64, shape (n,), every value in [0, 1].
    """
    return np.rint(prediction * UNITS).astype(np.int64)
