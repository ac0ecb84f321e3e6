"""Hash index over the rows of a column table, and allocation of its rows.

The index is open-addressed and maps 64-bit key pairs to row numbers. A slot holds the low 32 bits of the key's hash and
the row number plus one; 0 is an empty slot. Probing is linear, so it stays in one cache line, and a row is read only
where the 32 bits agree. Removal shifts the following slots back, so there are no tombstones.
"""

from typing import Final

import numpy as np
from numpy.typing import NDArray

from monitor.loops import njit

Slots = NDArray[np.uint64]
Keys = NDArray[np.uint64]
Row = int | np.int64

MAX_LOAD = 0.65
"""The index has to grow beyond this share of used slots; probes stay short below it."""

# Places in the array ``meta`` of a table.
USED: Final = 0
"""Rows below this have been in use."""
FREE_HEAD: Final = 1
"""First free row, or -1; free rows are chained through one of the table's columns."""
COUNT: Final = 2
"""Rows in use."""
UNANSWERED: Final = 3
"""Predictions without an outcome."""
META: Final = 4
"""Length of ``meta``."""

_ROW = np.uint64(0xFFFFFFFF)
_SHIFT = np.uint64(32)
_ONE = np.uint64(1)
_EMPTY = np.uint64(0)


def slots_for(rows: int, current: int = 1024) -> int:
    """Number of slots, a power of two, at least ``current``, in which that many rows stay below MAX_LOAD."""
    size = current
    while rows > size * MAX_LOAD:
        size *= 2
    return size


@njit()
def mix(high: np.uint64, low: np.uint64) -> np.uint64:
    """Spread a key pair over 64 bits (the finaliser of MurmurHash3, over both words)."""
    word = high * np.uint64(0x9E3779B97F4A7C15) ^ low
    word ^= word >> np.uint64(33)
    word *= np.uint64(0xFF51AFD7ED558CCD)
    word ^= word >> np.uint64(33)
    word *= np.uint64(0xC4CEB9FE1A85EC53)
    return word ^ (word >> np.uint64(33))


@njit()
def find(slots: Slots, highs: Keys, lows: Keys, high: np.uint64, low: np.uint64) -> Row:
    """Row of a key, or -1."""
    mask = np.uint64(slots.size - 1)
    tag = mix(high, low) & _ROW
    at = tag & mask
    while True:
        slot = slots[at]
        if slot == _EMPTY:
            return -1
        if slot >> _SHIFT == tag:
            row = np.int64(slot & _ROW) - 1
            if lows[row] == low and highs[row] == high:
                return row
        at = (at + _ONE) & mask


@njit()
def insert(slots: Slots, high: np.uint64, low: np.uint64, row: Row) -> None:
    """Insert a row under a new key. The caller guarantees free slots."""
    mask = np.uint64(slots.size - 1)
    tag = mix(high, low) & _ROW
    at = tag & mask
    while slots[at] != _EMPTY:
        at = (at + _ONE) & mask
    slots[at] = (tag << _SHIFT) | np.uint64(row + 1)


@njit()
def remove(slots: Slots, high: np.uint64, low: np.uint64, row: Row) -> None:
    """Remove a row, which must be in the index under that key."""
    mask = np.uint64(slots.size - 1)
    tag = mix(high, low) & _ROW
    sought = (tag << _SHIFT) | np.uint64(row + 1)
    hole = tag & mask
    while slots[hole] != sought:
        hole = (hole + _ONE) & mask
    at = hole
    while True:
        at = (at + _ONE) & mask
        slot = slots[at]
        if slot == _EMPTY:
            break
        home = (slot >> _SHIFT) & mask
        # A slot may move into the hole unless its home lies behind the hole.
        if ((at - home) & mask) >= ((at - hole) & mask):
            slots[hole] = slot
            hole = at
    slots[hole] = _EMPTY


@njit()
def transfer(old: Slots, new: Slots) -> None:
    """Copy all entries of ``old`` into ``new``, which is empty and larger. Reads no rows."""
    mask = np.uint64(new.size - 1)
    for index in range(old.size):
        slot = old[index]
        if slot != _EMPTY:
            at = (slot >> _SHIFT) & mask
            while new[at] != _EMPTY:
                at = (at + _ONE) & mask
            new[at] = slot


@njit()
def allocate_row(free: NDArray[np.int64] | NDArray[np.int32], meta: NDArray[np.int64]) -> Row:
    """Return a free row: a released one, or the next that was never used. ``free`` is the column that chains them."""
    meta[COUNT] += 1
    head: Row = meta[FREE_HEAD]
    if head >= 0:
        meta[FREE_HEAD] = free[head]
        return head
    fresh: Row = meta[USED]
    meta[USED] += 1
    return fresh


@njit()
def release_row(row: Row, free: NDArray[np.int64] | NDArray[np.int32], meta: NDArray[np.int64]) -> None:
    """Add a row to the chain of free rows."""
    meta[COUNT] -= 1
    free[row] = meta[FREE_HEAD]
    meta[FREE_HEAD] = row
